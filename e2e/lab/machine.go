//go:build e2e

// Package lab boots Debian in QEMU, without KVM: machines with two sockets, a PCIe tree
// with switches, an IOMMU and several NICs, whose disk boots through its own GRUB, and a small one
// without a disk. Programs run in them through an agent on a virtio serial port.
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
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"busbar/e2e/wire"
)

const qemu = "qemu-system-x86_64"

// Machine is a running guest. Its methods may be called side by side.
type Machine struct {
	Model Model
	// Dir holds what belongs to the machine: console.log, its disks.
	Dir string

	cmd    *exec.Cmd
	ended  chan struct{} // closed when QEMU has ended
	qmp    *qmp
	port   net.Conn
	writes sync.Mutex

	mu      sync.Mutex
	lastID  int
	waiting map[int]chan wire.Message
}

// boot starts a machine and waits until it has booted.
func boot(ctx context.Context, dir string, model Model, c console, args ...string) (*Machine, error) {
	m, err := start(ctx, dir, model, c, args...)
	if err != nil {
		return nil, err
	}
	if err := m.waitBooted(ctx); err != nil {
		m.Cut()
		return nil, err
	}
	return m, nil
}

// resume starts a machine in a state in which it was frozen.
func resume(ctx context.Context, dir string, model Model, c console, state string, args ...string) (*Machine, error) {
	m, err := start(ctx, dir, model, c, append(args, "-incoming", "exec:cat "+state)...)
	if err != nil {
		return nil, err
	}
	if err := m.goOn(ctx); err != nil {
		m.Cut()
		return nil, err
	}
	return m, nil
}

// console is where the first serial port leads to, and what else hangs on that.
type console struct {
	args []string
	in   io.Reader
	out  io.Writer
}

// logged leads to DIR/console.log, which grows with each boot. Nobody sits there: QEMU ends when the guest reboots.
func logged(dir string) console {
	return console{args: []string{"-no-reboot", "-chardev", "file,id=console,append=on,path=" + filepath.Join(dir, "console.log"), "-serial", "chardev:console"}}
}

// start starts QEMU.
func start(ctx context.Context, dir string, model Model, c console, args ...string) (*Machine, error) {
	m := &Machine{Model: model, Dir: dir, ended: make(chan struct{}), waiting: map[int]chan wire.Message{}}
	// The path of a socket must be short.
	sockets, err := os.MkdirTemp("", "lab")
	if err != nil {
		return nil, err
	}
	agent, control := filepath.Join(sockets, "agent"), filepath.Join(sockets, "qmp")
	args = append(append(model.hardware(), args...),
		"-chardev", "socket,id=agent,path="+agent+",server=on,wait=off",
		"-qmp", "unix:"+control+",server=on,wait=off")
	m.cmd = exec.Command(qemu, append(args, c.args...)...)
	m.cmd.Stdin, m.cmd.Stdout = c.in, c.out
	var complaints bytes.Buffer
	m.cmd.Stderr = &complaints
	// QEMU ends with this process, however that ends: prctl(2) means the thread that starts it.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := m.cmd.Start()
		started <- err
		if err == nil {
			_ = m.cmd.Wait() // how it ended is seen in its complaints
		}
		os.RemoveAll(sockets)
		close(m.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
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
			for id, reply := range m.waiting {
				reply <- wire.Message{Code: -1, Error: "the guest was booted meanwhile"}
				delete(m.waiting, id)
			}
		case wire.Reply:
			if reply, ok := m.waiting[message.ID]; ok {
				reply <- message
				delete(m.waiting, message.ID)
			}
		}
		m.mu.Unlock()
	}
}

// ask sends a request, with the text that follows it, and waits for its answer.
func (m *Machine) ask(ctx context.Context, r wire.Request, text []byte) wire.Message {
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
	_, err = m.port.Write(append(append(line, '\n'), text...))
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

// waitBooted waits until the guest has booted and has no more to start. An agent's hello can be lost that comes while
// the port is being opened; what it is asked before waits in the port.
func (m *Machine) waitBooted(ctx context.Context) error {
	for {
		r := m.Run(ctx, "true")
		if r.Code == 0 {
			return m.waitRunning(ctx)
		}
		select {
		case <-m.ended:
			return errors.New("the machine ended before it had booted")
		case <-ctx.Done():
			return fmt.Errorf("the guest has not booted: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond): // its hello took the question for one of an earlier boot
		}
	}
}

// waitRunning waits until systemd has no more to start and udev no more to load. Where they do
// not exist, that is so when there is an agent.
func (m *Machine) waitRunning(ctx context.Context) error {
	if m.Model == Micro {
		return nil
	}
	r := m.Run(ctx, "systemctl", "is-system-running", "--wait")
	if state := strings.TrimSpace(r.Stdout); state != "running" && state != "degraded" {
		return fmt.Errorf("the guest has not booted: %s", r)
	}
	if r := m.Run(ctx, "udevadm", "settle"); r.Code != 0 {
		return fmt.Errorf("udev has not finished: %s", r)
	}
	return nil
}

// Wait waits for the guest to power itself off, or to reboot.
func (m *Machine) Wait(ctx context.Context) error {
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the guest does not shut down: %w", ctx.Err())
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

// Discard cuts the power and throws the disks away.
func (m *Machine) Discard() {
	m.Cut()
	for _, disk := range []string{rootDisk, spareDisk} {
		_ = os.Remove(filepath.Join(m.Dir, disk)) // not every model has them
	}
}

// Freeze stops the guest's processors, until Thaw.
func (m *Machine) Freeze(ctx context.Context) error { return m.qmp.command(ctx, "stop", nil, nil) }

// Thaw lets the guest go on.
func (m *Machine) Thaw(ctx context.Context) error { return m.qmp.command(ctx, "cont", nil, nil) }

// Reboot lets the guest shut down for a reboot and waits until QEMU has ended: Lab.PowerOn boots it. A processor that
// is reset in place has the translations of what it ran before; each write to a page with some of them looks through all
// of them (tb_invalidate_phys_page_range of QEMU's accel/tcg), so that GRUB and the kernel load at a tenth of their speed.
func (m *Machine) Reboot(ctx context.Context) error {
	// What systemctl reboot asks of PID 1 where there is no logind.
	reboot := []string{"systemctl", "start", "--no-block", "--job-mode=replace-irreversibly", "reboot.target"}
	if m.Model == Micro {
		reboot = []string{"reboot"}
	}
	if r := m.Run(ctx, reboot...); r.Code != 0 && r.Error == "" {
		return fmt.Errorf("rebooting the guest: %s", r)
	}
	if err := m.Wait(ctx); err != nil {
		return err
	}
	m.Cut()
	return nil
}

// goOn lets a machine go on that is being read from a file. Its clock stood still since it
// was frozen.
func (m *Machine) goOn(ctx context.Context) error {
	for {
		var state struct {
			Status string `json:"status"`
		}
		if err := m.qmp.command(ctx, "query-status", nil, &state); err != nil {
			return err
		}
		if state.Status != "inmigrate" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := m.Thaw(ctx); err != nil {
		return err
	}
	if r := m.Run(ctx, "date", "-u", "-s", time.Now().UTC().Format("2006-01-02 15:04:05")); r.Code != 0 {
		return fmt.Errorf("the machine does not go on: %s", r)
	}
	return nil
}

// save freezes the machine and writes memory and devices to a file. What the guest holds of
// its disks is written and dropped before.
func (m *Machine) save(ctx context.Context, file string) error {
	if r := m.Run(ctx, "sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"); r.Code != 0 {
		return fmt.Errorf("in the guest: %s", r)
	}
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
