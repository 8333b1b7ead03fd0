//go:build e2e

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"busbar/e2e/wire"
)

// Model is a kind of machine.
type Model string

const (
	// Intel has two sockets, a PCIe tree, an Intel IOMMU, and a disk with Debian. It starts as it
	// was when it had booted.
	Intel Model = "intel"
	// AMD is Intel with an IOMMU of AMD's, whose state QEMU cannot keep: it starts by booting.
	AMD Model = "amd"
	// Micro has a processor, a kernel and an initramfs: no disk, no systemd, no udev. It does not
	// look virtual. It starts as it was when it had booted.
	Micro Model = "micro"
)

// port leads to the agent.
const port = ` -device virtio-serial-pci,bus=pcie.0 -device virtserialport,chardev=agent,name=` + wire.Port

// bare leaves out what a kernel would look for at each boot and no scenario needs: disks and keyboard of a PC.
const bare = `,i8042=off,sata=off,smbus=off -nodefaults`

// processor is what emulation is good at: without ciphers, whose modules udev loads and the kernel tests; without
// XSAVE, which is slow to emulate at each switch of tasks; and without ERMS, which has kernels copy byte by byte.
const processor = ` -cpu max,-aes,-pclmulqdq,-xsave,-erms`

// board has two sockets. Node 0 has a switch with two NICs, node 1 a NIC at its root port. The
// management NIC is a virtio-net on the root bus. The spare disk is the last device, so that
// the addresses of the others do not hang on it.
const board = ` -machine q35,kernel-irqchip=split` + bare + ` -smp 2 -m 1024
-object memory-backend-ram,size=512M,id=m0 -object memory-backend-ram,size=512M,id=m1
-numa node,cpus=0,memdev=m0,nodeid=0 -numa node,cpus=1,memdev=m1,nodeid=1
-device virtio-blk-pci,drive=root,bus=pcie.0` + port + `
-netdev user,id=management,restrict=on -device virtio-net-pci,netdev=management,bus=pcie.0,romfile=
-device pxb-pcie,id=pxb0,bus_nr=32,bus=pcie.0,numa_node=0 -device pxb-pcie,id=pxb1,bus_nr=64,bus=pcie.0,numa_node=1
-device pcie-root-port,id=rp0,bus=pxb0,chassis=1,slot=1 -device x3130-upstream,id=up0,bus=rp0
-device xio3130-downstream,id=d0,bus=up0,chassis=2,slot=1 -device xio3130-downstream,id=d1,bus=up0,chassis=2,slot=2
-netdev user,id=n0,restrict=on -device e1000e,bus=d0,netdev=n0,romfile=
-netdev user,id=n1,restrict=on -device e1000e,bus=d1,netdev=n1,romfile=
-device pcie-root-port,id=rp1,bus=pxb1,chassis=3,slot=1
-netdev user,id=n2,restrict=on -device e1000e,bus=rp1,netdev=n2,romfile=
-device virtio-blk-pci,drive=spare,bus=pcie.0`

// microBoard has next to nothing. Its second node is there for the devices of stand-ins.
const microBoard = ` -machine q35` + bare + ` -smp 1 -m 512
-object memory-backend-ram,size=256M,id=m0 -object memory-backend-ram,size=256M,id=m1
-numa node,cpus=0,memdev=m0,nodeid=0 -numa node,memdev=m1,nodeid=1
-smbios type=0,vendor=Busbar -smbios type=1,manufacturer=Busbar,product=Micro` + port

// hardware is the machine, less its drives and where its console leads to.
func (model Model) hardware() []string {
	args := "-accel tcg,thread=multi -display none -vga none -rtc base=utc"
	switch model {
	case Intel:
		args += processor + " -device intel-iommu,intremap=on,caching-mode=on" + board
	case AMD:
		args += " -cpu EPYC,-aes,-pclmulqdq,-xsave" + board + " -device amd-iommu,intremap=on"
	case Micro:
		args += processor + ",-hypervisor" + microBoard
	}
	return strings.Fields(args)
}

// What belongs to a machine, in its directory.
const (
	rootDisk  = "disk.qcow2"
	spareDisk = "spare.qcow2"
	stateFile = "state"
)

// drives are the disks of a board that has some. Killing QEMU loses what the guest has not
// written; a flush to the host's disk adds nothing, and costs time.
func drives(root, format, spare string) []string {
	return []string{
		"-drive", "if=none,id=root,cache=unsafe,file=" + root + ",format=" + format,
		"-drive", "if=none,id=spare,cache=unsafe,file=" + spare + ",format=qcow2",
	}
}

// initramfs is what the micro machine boots, where DIR is what makeMicro made.
func initramfs(dir string) []string {
	return []string{"-kernel", filepath.Join(dir, "vmlinuz"), "-initrd", filepath.Join(dir, "initramfs"), "-append", bootArguments}
}

// system is what a machine boots: its disks in DIR, or the initramfs of all.
func (l *Lab) system(model Model, dir string) []string {
	if model == Micro {
		return initramfs(l.micro)
	}
	return drives(filepath.Join(dir, rootDisk), "qcow2", filepath.Join(dir, spareDisk))
}

// Start gives a machine that has just booted, in seconds if its model can be frozen.
func (l *Lab) Start(ctx context.Context, dir string, model Model) (*Machine, error) {
	return l.begin(ctx, dir, model, logged(dir))
}

// Shell is Start with the console on this terminal; Wait waits for its end.
func (l *Lab) Shell(ctx context.Context, dir string, model Model) (*Machine, error) {
	return l.begin(ctx, dir, model, console{[]string{"-serial", "mon:stdio"}, os.Stdin, os.Stdout})
}

func (l *Lab) begin(ctx context.Context, dir string, model Model, c console) (*Machine, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	switch model {
	case Intel:
		if err := makeDisks(ctx, dir, filepath.Join(l.booted, rootDisk), "qcow2"); err != nil {
			return nil, err
		}
		return resume(ctx, dir, model, c, filepath.Join(l.booted, stateFile), l.system(model, dir)...)
	case AMD:
		if err := makeDisks(ctx, dir, l.disk, "raw"); err != nil {
			return nil, err
		}
		return boot(ctx, dir, model, c, l.system(model, dir)...)
	case Micro:
		return resume(ctx, dir, model, c, filepath.Join(l.micro, stateFile), l.system(model, dir)...)
	}
	return nil, fmt.Errorf("no machine is called %q; there are %s, %s and %s", model, Intel, AMD, Micro)
}

// PowerOn boots a machine that has ended or whose power was cut, from its disks.
func (l *Lab) PowerOn(ctx context.Context, dir string, model Model) (*Machine, error) {
	return boot(ctx, dir, model, logged(dir), l.system(model, dir)...)
}
