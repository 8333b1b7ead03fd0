//go:build e2e

// Package lab boots Debian in QEMU, without KVM: a machine with two sockets, a PCIe
// tree with switches, an Intel IOMMU and several NICs, whose disk boots through its own
// GRUB. Programs run in it through an agent on a virtio serial port.
package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"busbar/e2e/wire"
)

const qemu = "qemu-system-x86_64"

// hardware is the machine. Node 0 has a switch with two NICs, node 1 a NIC at its
// root port. The management NIC is a virtio-net on the root bus.
func hardware() []string {
	return strings.Fields(`
-machine q35,kernel-irqchip=split -accel tcg,thread=multi -cpu max -smp 2 -m 1024
-object memory-backend-ram,size=512M,id=m0 -object memory-backend-ram,size=512M,id=m1
-numa node,cpus=0,memdev=m0,nodeid=0 -numa node,cpus=1,memdev=m1,nodeid=1
-device intel-iommu,intremap=on,caching-mode=on
-device virtio-blk-pci,drive=hd,bus=pcie.0
-device virtio-serial-pci,bus=pcie.0 -device virtserialport,chardev=agent,name=` + wire.Port + `
-netdev user,id=management,restrict=on -device virtio-net-pci,netdev=management,bus=pcie.0,romfile=
-device pxb-pcie,id=pxb0,bus_nr=32,bus=pcie.0,numa_node=0 -device pxb-pcie,id=pxb1,bus_nr=64,bus=pcie.0,numa_node=1
-device pcie-root-port,id=rp0,bus=pxb0,chassis=1,slot=1 -device x3130-upstream,id=up0,bus=rp0
-device xio3130-downstream,id=d0,bus=up0,chassis=2,slot=1 -device xio3130-downstream,id=d1,bus=up0,chassis=2,slot=2
-netdev user,id=n0,restrict=on -device e1000e,bus=d0,netdev=n0,romfile=
-netdev user,id=n1,restrict=on -device e1000e,bus=d1,netdev=n1,romfile=
-device pcie-root-port,id=rp1,bus=pxb1,chassis=3,slot=1
-netdev user,id=n2,restrict=on -device e1000e,bus=rp1,netdev=n2,romfile=
-display none -vga none -rtc base=utc`)
}

// drive is the disk hd. Killing QEMU loses what the guest has not written; a flush
// to the host's disk adds nothing, and costs time.
func drive(file, format string) string {
	return "file=" + file + ",format=" + format + ",if=none,id=hd,cache=unsafe"
}

// Machine is a running guest. Its methods may be called side by side.
type Machine struct {
	// Dir holds what belongs to the machine: console.log, its disk.
	Dir string

	cmd    *exec.Cmd
	ended  chan struct{} // closed when QEMU has ended
	qmp    *qmp
	port   net.Conn
	writes sync.Mutex

	mu      sync.Mutex
	lastID  int
	waiting map[int]chan wire.Message
	boot    string        // boot_id of the last hello
	greeted chan struct{} // closed and replaced at each hello
}

// Start gives a machine that has just booted, in seconds: memory and devices are
// those of the booted machine, the disk is an overlay.
func (l *Lab) Start(ctx context.Context, dir string) (*Machine, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	disk := filepath.Join(dir, "disk.qcow2")
	if err := overlay(ctx, l.booted.disk, "qcow2", disk); err != nil {
		return nil, err
	}
	return l.resumed(ctx, dir, l.console(dir), disk)
}

// resumed is the booted machine on a disk.
func (l *Lab) resumed(ctx context.Context, dir string, c console, disk string) (*Machine, error) {
	m, err := l.start(ctx, dir, c, "-drive", drive(disk, "qcow2"), "-incoming", "exec:cat "+l.booted.state)
	if err != nil {
		return nil, err
	}
	if err := m.resume(ctx); err != nil {
		m.Cut()
		return nil, err
	}
	// The guest's clock stood still since it was frozen.
	r := m.Run(ctx, "date", "-u", "-s", time.Now().UTC().Format("2006-01-02 15:04:05"))
	if r.Code != 0 {
		m.Cut()
		return nil, fmt.Errorf("the machine does not go on: %s", r)
	}
	return m, nil
}

// PowerOn boots the disk of a machine whose power was cut.
func (l *Lab) PowerOn(ctx context.Context, dir string) (*Machine, error) {
	m, err := l.start(ctx, dir, l.console(dir), "-drive", drive(filepath.Join(dir, "disk.qcow2"), "qcow2"))
	if err != nil {
		return nil, err
	}
	if err := m.waitBooted(ctx); err != nil {
		m.Cut()
		return nil, err
	}
	return m, nil
}

// Shell is Start with the console on this terminal; Wait waits for its end.
func (l *Lab) Shell(ctx context.Context, dir string) (*Machine, error) {
	disk := filepath.Join(dir, "disk.qcow2")
	if err := overlay(ctx, l.booted.disk, "qcow2", disk); err != nil {
		return nil, err
	}
	return l.resumed(ctx, dir, console{[]string{"-serial", "mon:stdio"}, os.Stdin, os.Stdout}, disk)
}

// console is where the first serial port leads to.
type console struct {
	args []string
	in   io.Reader
	out  io.Writer
}

// console is DIR/console.log, which grows with each boot.
func (*Lab) console(dir string) console {
	return console{args: []string{"-chardev", "file,id=console,append=on,path=" + filepath.Join(dir, "console.log"), "-serial", "chardev:console"}}
}

// start starts QEMU.
func (l *Lab) start(ctx context.Context, dir string, c console, args ...string) (*Machine, error) {
	m := &Machine{Dir: dir, ended: make(chan struct{}), waiting: map[int]chan wire.Message{}, greeted: make(chan struct{})}
	// The path of a socket must be short.
	sockets, err := os.MkdirTemp("", "lab")
	if err != nil {
		return nil, err
	}
	agent, control := filepath.Join(sockets, "agent"), filepath.Join(sockets, "qmp")
	args = append(append(hardware(), args...),
		"-chardev", "socket,id=agent,path="+agent+",server=on,wait=off",
		"-qmp", "unix:"+control+",server=on,wait=off")
	m.cmd = exec.Command(qemu, append(args, c.args...)...)
	m.cmd.Stdin, m.cmd.Stdout = c.in, c.out
	var complaints bytes.Buffer
	m.cmd.Stderr = &complaints
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = m.cmd.Wait() // how it ended is seen in its complaints
		os.RemoveAll(sockets)
		close(m.ended)
	}()
	if m.port, err = m.dial(ctx, agent); err == nil {
		go m.listen()
		var conn net.Conn
		if conn, err = m.dial(ctx, control); err == nil {
			m.qmp, err = newQMP(conn)
		}
	}
	if err != nil {
		m.Cut()
		return nil, fmt.Errorf("starting %s: %w\n%s", qemu, err, complaints.String())
	}
	return m, nil
}

// dial connects to a socket of QEMU, which makes it a moment after its start.
func (m *Machine) dial(ctx context.Context, path string) (net.Conn, error) {
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-m.ended:
			return nil, errors.New("it ended at once")
		case <-ctx.Done():
			return nil, err
		}
	}
}

// listen hands out what the agent says.
func (m *Machine) listen() {
	lines := newLines(m.port)
	for lines.Scan() {
		var message wire.Message
		if json.Unmarshal(lines.Bytes(), &message) != nil {
			continue // the beginning of a line that a reboot cut off
		}
		m.mu.Lock()
		switch message.Kind {
		case wire.Hello:
			m.boot = message.Boot
			for id, reply := range m.waiting {
				reply <- wire.Message{Code: -1, Error: "the guest was booted meanwhile"}
				delete(m.waiting, id)
			}
			close(m.greeted)
			m.greeted = make(chan struct{})
		case wire.Reply:
			if reply, ok := m.waiting[message.ID]; ok {
				reply <- message
				delete(m.waiting, message.ID)
			}
		}
		m.mu.Unlock()
	}
}

// ask sends a request and waits for its answer.
func (m *Machine) ask(ctx context.Context, r wire.Request) wire.Message {
	reply := make(chan wire.Message, 1)
	m.mu.Lock()
	m.lastID++
	r.ID = m.lastID
	m.waiting[r.ID] = reply
	m.mu.Unlock()
	if deadline, ok := ctx.Deadline(); ok && r.TimeoutMS == 0 {
		r.TimeoutMS = int(time.Until(deadline).Milliseconds())
	}
	line, err := json.Marshal(r)
	if err != nil {
		return wire.Message{Code: -1, Error: err.Error()}
	}
	m.writes.Lock()
	_, err = m.port.Write(append(line, '\n'))
	m.writes.Unlock()
	if err != nil {
		return wire.Message{Code: -1, Error: "asking the agent: " + err.Error()}
	}
	select {
	case answer := <-reply:
		return answer
	case <-m.ended:
		return wire.Message{Code: -1, Error: "the machine ended"}
	case <-ctx.Done():
		return wire.Message{Code: -1, Error: "no answer from the guest: " + ctx.Err().Error()}
	}
}

// bootID is the boot of which the agent spoke last.
func (m *Machine) bootID() (id string, next <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boot, m.greeted
}

// waitBoot waits for the agent of another boot than old.
func (m *Machine) waitBoot(ctx context.Context, old string) error {
	for {
		id, next := m.bootID()
		if id != old {
			return nil
		}
		select {
		case <-next:
		case <-m.ended:
			return errors.New("the machine ended before it had booted")
		case <-ctx.Done():
			return fmt.Errorf("the guest has not booted: %w", ctx.Err())
		}
	}
}

// waitBooted waits until the guest has booted and systemd has no more to start.
func (m *Machine) waitBooted(ctx context.Context) error {
	if err := m.waitBoot(ctx, ""); err != nil {
		return err
	}
	return m.waitRunning(ctx)
}

func (m *Machine) waitRunning(ctx context.Context) error {
	r := m.Run(ctx, "systemctl", "is-system-running", "--wait")
	if state := strings.TrimSpace(r.Stdout); state != "running" && state != "degraded" {
		return fmt.Errorf("the guest has not booted: %s", r)
	}
	return nil
}

// Wait waits for the guest to power itself off.
func (m *Machine) Wait(ctx context.Context) error {
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the guest does not power off: %w", ctx.Err())
	}
}

// Cut cuts the power: QEMU is killed, and what the guest has not written is lost.
func (m *Machine) Cut() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.ended
	if m.port != nil {
		m.port.Close()
	}
	if m.qmp != nil {
		m.qmp.conn.Close()
	}
}

// Freeze stops the guest's processors, until Thaw.
func (m *Machine) Freeze(ctx context.Context) error { return m.qmp.command(ctx, "stop", nil, nil) }

// Thaw lets the guest go on.
func (m *Machine) Thaw(ctx context.Context) error { return m.qmp.command(ctx, "cont", nil, nil) }

// Reboot lets systemd reboot the guest and waits until it has booted.
func (m *Machine) Reboot(ctx context.Context) error {
	id := strings.TrimSpace(m.Run(ctx, "cat", "/proc/sys/kernel/random/boot_id").Stdout)
	m.mu.Lock()
	m.boot = id
	m.mu.Unlock()
	if r := m.Run(ctx, "systemctl", "reboot", "--no-block"); r.Code != 0 && r.Error == "" {
		return fmt.Errorf("rebooting the guest: %s", r)
	}
	if err := m.waitBoot(ctx, id); err != nil {
		return err
	}
	return m.waitRunning(ctx)
}

// resume lets a machine go on that is being read from a file.
func (m *Machine) resume(ctx context.Context) error {
	for {
		var state struct {
			Status string `json:"status"`
		}
		if err := m.qmp.command(ctx, "query-status", nil, &state); err != nil {
			return err
		}
		if state.Status != "inmigrate" {
			return m.Thaw(ctx)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// save freezes the machine and writes memory and devices to a file.
func (m *Machine) save(ctx context.Context, file string) error {
	if err := m.Freeze(ctx); err != nil {
		return err
	}
	// As fast as it goes.
	if err := m.qmp.command(ctx, "migrate-set-parameters", map[string]any{"max-bandwidth": 1 << 40}, nil); err != nil {
		return err
	}
	if err := m.qmp.command(ctx, "migrate", map[string]any{"uri": "exec:cat > " + file}, nil); err != nil {
		return err
	}
	for {
		var state struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := m.qmp.command(ctx, "query-migrate", nil, &state); err != nil {
			return err
		}
		switch state.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("saving the machine: %s: %s", state.Status, state.Error)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
