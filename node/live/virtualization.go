package live

import (
	"strings"

	"busbar/node"

	"golang.org/x/sys/unix"
)

// dmiHypervisors are systemd's prefixes of DMI strings by which hypervisors are
// known (src/basic/virt.c, detect_vm_dmi_vendor), in its order.
var dmiHypervisors = []struct{ prefix, name string }{
	{"KVM", "kvm"},
	{"OpenStack", "kvm"},
	{"KubeVirt", "kvm"},
	{"Amazon EC2", "amazon"},
	{"QEMU", "qemu"},
	{"VMware", "vmware"},
	{"VMW", "vmware"},
	{"innotek GmbH", "oracle"},
	{"VirtualBox", "oracle"},
	{"Oracle Corporation", "oracle"},
	{"Xen", "xen"},
	{"Bochs", "bochs"},
	{"Parallels", "parallels"},
	{"BHYVE", "bhyve"},
	{"Hyper-V", "microsoft"},
	{"Apple Virtualization", "apple"},
	{"Google Compute Engine", "google"},
}

// dmiHypervisor looks for a hypervisor in the DMI strings, in systemd's order of fields. Hyper-V
// and Azure, which systemd tells by CPUID, call themselves a Microsoft "Virtual Machine".
func dmiHypervisor(d node.DMI) string {
	for _, field := range []string{d.ProductName, d.SysVendor, d.BoardVendor, d.BIOSVendor, d.ProductVersion} {
		for _, h := range dmiHypervisors {
			if strings.HasPrefix(field, h.prefix) {
				return h.name
			}
		}
	}
	if d.SysVendor == "Microsoft Corporation" && d.ProductName == "Virtual Machine" {
		return "microsoft"
	}
	return ""
}

// noVM is what virtualization says of bare metal.
const noVM = "none"

// virtualization tells a virtual machine from bare metal the way systemd-detect-virt(1)
// --vm does, except that the hypervisor's CPUID leaf, which no file shows, is replaced by the
// DMI strings and the kernel's list of clock sources. Containers do not matter.
func (f files) virtualization(dmi node.Value[node.DMI]) node.Value[string] {
	const cpuinfo, clocks = "/proc/cpuinfo", "/sys/devices/system/clocksource/clocksource0/available_clocksource"
	if !f.running {
		return unknown[string](errNotRead, cpuinfo)
	}
	d, dmiKnown := dmi.Get()
	named := dmiHypervisor(d)
	flag, x86, err := f.hypervisorFlag(cpuinfo)
	switch {
	case named == "amazon" && strings.Contains(d.ProductName, ".metal"),
		(named == "amazon" || named == "google") && x86 && !flag:
		return node.Known(noVM, dmi.Source()) // rented bare metal has the same DMI vendor
	case named == "amazon", named == "google", named == "oracle", named == "parallels":
		return node.Known(named, dmi.Source())
	}
	if v, ok := f.xen(); ok {
		return v
	}
	if v, ok := f.deviceTreeHypervisor(); ok {
		return v
	}
	available, _ := f.attribute(clocks)
	kvm := strings.Contains(" "+available+" ", " kvm-clock ")
	switch {
	case kvm && (named == "" || named == "qemu"):
		return node.Known("kvm", node.Source{Path: clocks})
	case named != "":
		return node.Known(named, dmi.Source())
	case flag:
		return node.Known("vm-other", node.Source{Path: cpuinfo})
	case x86:
		return node.Known(noVM, node.Source{Path: cpuinfo})
	case dmiKnown:
		return node.Known(noVM, dmi.Source())
	case err != nil:
		return unknown[string](err, cpuinfo)
	default:
		return node.Unknown[string]("no SMBIOS tables, no device tree and no x86 CPU flags tell it", node.Source{Path: cpuinfo})
	}
}

// hypervisorFlag looks for the CPU flag "hypervisor" of the first x86 processor. The file is not
// read further: on large machines it is long and slow.
func (f files) hypervisorFlag(p string) (flag, x86 bool, err error) {
	head, err := f.head(p, 4*maxAttribute)
	if err != nil {
		return false, false, err
	}
	for line := range strings.Lines(head) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == "flags" && strings.HasSuffix(line, "\n") {
			return strings.Contains(" "+strings.TrimSpace(value)+" ", " hypervisor "), true, nil
		}
	}
	return false, false, nil
}

// head reads at most the first n bytes of a file.
func (f files) head(p string, n int) (string, error) {
	fd, _, err := f.open(p)
	if err != nil {
		return "", err
	}
	defer shut(fd)
	b := make([]byte, n)
	got := 0
	for got < n {
		m := 0
		err := retry(func() (err error) { m, err = unix.Read(fd, b[got:]); return err })
		if err != nil {
			return "", err
		}
		if m == 0 {
			break
		}
		got += m
		if strings.Contains(string(b[:got]), "\n\n") {
			break // the first processor ends with an empty line
		}
	}
	return string(b[:got]), nil
}

// xen tells a Xen guest, and the first domain, which has the hardware, from it.
func (f files) xen() (node.Value[string], bool) {
	const kind, capabilities = "/sys/hypervisor/type", "/proc/xen/capabilities"
	v, err := f.attribute(kind)
	if (err != nil || v != "xen") && !f.exists("/proc/xen") {
		return node.Value[string]{}, false
	}
	if c, err := f.attribute(capabilities); err == nil && strings.Contains(c, "control_d") {
		return node.Known(noVM, node.Source{Path: capabilities}), true
	}
	return node.Known("xen", node.Source{Path: kind}), true
}

// deviceTreeHypervisor reads what the device tree of Arm and POWER guests says.
func (f files) deviceTreeHypervisor() (node.Value[string], bool) {
	const compatible = "/proc/device-tree/hypervisor/compatible"
	v, err := f.attribute(compatible)
	if err != nil {
		return node.Value[string]{}, false
	}
	name := "vm-other"
	switch v = strings.TrimRight(v, "\x00"); {
	case v == "linux,kvm":
		name = "kvm"
	case strings.Contains(v, "xen"):
		name = "xen"
	case strings.Contains(v, "vmware"):
		name = "vmware"
	}
	return node.Known(name, node.Source{Path: compatible}), true
}
