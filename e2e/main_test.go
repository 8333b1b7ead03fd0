//go:build e2e

// Package e2e runs busbar on a real kernel, systemd, GRUB and PCIe tree: docs/lab.md.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"busbar/e2e/lab"
)

// What all tests share.
var (
	theLab *lab.Lab
	busbar []byte // the binary
	// out keeps what belongs to scenarios that failed.
	out = filepath.Join("..", "bin", "e2e")
)

// prepareDeadline bounds building the image; with it in the cache, seconds are needed.
const prepareDeadline = 30 * time.Minute

// scenarioDeadline bounds one scenario, from its start to its end, or to what renews it.
const scenarioDeadline = 15 * time.Minute

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "busbar")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// What is interrupted leaves no machine, which ends with this process, and no temporary file.
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return 0, err
	}
	running, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(running, prepareDeadline)
	defer cancel()
	theLab, err = lab.Open(ctx, func(format string, args ...any) { fmt.Printf("lab: "+format+"\n", args...) })
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "busbar")
	if err := lab.Build(ctx, file, "../cmd/busbar", "-ldflags", "-s -w -X main.version=e2e"); err != nil {
		return 0, err
	}
	if busbar, err = os.ReadFile(file); err != nil {
		return 0, err
	}
	ended := make(chan int, 1)
	go func() { ended <- m.Run() }()
	select {
	case code = <-ended:
		return code, nil
	case <-running.Done():
		return 0, context.Cause(running)
	}
}

// guest is a machine in a test: what goes wrong in it ends the test.
type guest struct {
	*lab.Machine
	t   *testing.T
	ctx context.Context
	// installed are the stand-in modules that it has.
	installed []string
	// manages are the network devices that have the default route, and management what is to stay of
	// them; both empty where nothing is compared.
	manages, management string
}

// scenario is scenarioOn the machine that most are for.
func scenario(t *testing.T, says string) *guest {
	t.Helper()
	return scenarioOn(t, lab.Intel, says)
}

// micro is scenarioOn the machine that has no disk and no systemd, and starts at once.
func micro(t *testing.T, says string) *guest {
	t.Helper()
	return scenarioOn(t, lab.Micro, says)
}

// scenarioOn starts a machine that has just booted and has busbar installed, and says in one
// line how the scenario ended. Scenarios run side by side.
func scenarioOn(t *testing.T, model lab.Model, says string) *guest {
	t.Helper()
	t.Parallel()
	places.enter(t.Name())
	t.Cleanup(places.leave)
	began := time.Now()
	dir, err := filepath.Abs(filepath.Join(out, t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	g := &guest{t: t}
	g.renew()
	if g.Machine, err = theLab.Start(g.ctx, dir, model); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		verdict := "ok  "
		if t.Failed() {
			verdict = "FAIL"
			last, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			journal := g.Journal(last)
			cancel()
			os.WriteFile(filepath.Join(dir, "journal.log"), []byte(journal), 0o644)
			t.Logf("console.log and journal.log are kept in %s", dir)
		}
		g.Discard()
		if !t.Failed() {
			os.RemoveAll(dir)
		}
		fmt.Printf("%s %4.0f s  %s: %s\n", verdict, time.Since(began).Seconds(), strings.TrimPrefix(t.Name(), "Test"), says)
	})
	g.put("/usr/local/bin/busbar", string(busbar), 0o755)
	return g
}

// renew starts the deadline anew: a scenario may be as long as it was asked to be.
func (g *guest) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), scenarioDeadline)
	g.t.Cleanup(cancel)
	g.ctx = ctx
}

func (g *guest) put(name, text string, mode os.FileMode) {
	g.t.Helper()
	if err := g.Put(g.ctx, name, []byte(text), mode); err != nil {
		g.t.Fatal(err)
	}
}

// file writes a plain file.
func (g *guest) file(name, text string) {
	g.t.Helper()
	g.put(name, text, 0o644)
}

// sh runs a shell command that must succeed, and returns its standard output.
func (g *guest) sh(command string) string {
	g.t.Helper()
	r := g.Run(g.ctx, "sh", "-c", command)
	if r.Code != 0 {
		g.t.Fatalf("%s: %s", command, r)
	}
	return r.Stdout
}

// modules installs stand-in modules of e2e/kmod, for modprobe to find: of each file NAME.ko the
// module that it says it is. For the guest, those that are not named do not exist.
func (g *guest) modules(names ...string) {
	g.t.Helper()
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(g.installed, name) })
	if len(names) == 0 {
		return
	}
	g.installed = append(g.installed, names...)
	for _, name := range names {
		text, err := theLab.Module(name)
		if err != nil {
			g.t.Fatal(err)
		}
		file := "/run/lab/" + name + ".ko"
		g.file(file, string(text))
		g.sh("d=/lib/modules/$(uname -r)/updates && mkdir -p $d && mv " + file + " $d/$(modinfo -F name " + file + ").ko")
	}
	g.sh("depmod")
}

// reboot reboots and waits for the guest.
func (g *guest) reboot() {
	g.t.Helper()
	if err := g.Reboot(g.ctx); err != nil {
		g.t.Fatal(err)
	}
	g.powerOn()
}

// restart cuts the power and boots again.
func (g *guest) restart() {
	g.t.Helper()
	g.Cut()
	g.powerOn()
}

func (g *guest) powerOn() {
	g.t.Helper()
	g.installed = nil
	m, err := theLab.PowerOn(g.ctx, g.Dir, g.Model)
	if err != nil {
		g.t.Fatal(err)
	}
	g.Machine = m
}
