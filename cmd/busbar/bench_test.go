package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"busbar/plan"
)

// buildFor builds a main package for a benchmark and returns the program's path.
func buildFor(b *testing.B, dir, pkg string) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return program
}

// measure runs a program from start to end; exit codes above 63 are failures.
func measure(b *testing.B, program string, args ...string) {
	b.Helper()
	for b.Loop() {
		err := exec.Command(program, args...).Run()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 63) {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart sets busbar version beside a Go program that does nothing.
func BenchmarkStart(b *testing.B) {
	empty := b.TempDir()
	for name, text := range map[string]string{"go.mod": "module empty\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(empty, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	nothing, busbar := buildFor(b, empty, "."), buildFor(b, ".", ".")
	b.Run("empty", func(b *testing.B) { measure(b, nothing) })
	b.Run("version", func(b *testing.B) { measure(b, busbar, "version") })
}

// BenchmarkLive judges this machine against 40 blocks over plain files.
func BenchmarkLive(b *testing.B) {
	var profile strings.Builder
	for i, name := range []string{
		"kernel.numa_balancing", "kernel.pid_max", "kernel.threads-max", "kernel.panic", "kernel.sysrq", "vm.swappiness",
		"vm.dirty_ratio", "vm.dirty_background_ratio", "vm.zone_reclaim_mode", "vm.max_map_count", "vm.overcommit_memory",
		"net.core.somaxconn", "net.core.rmem_max", "net.core.wmem_max", "net.core.netdev_max_backlog", "net.ipv4.tcp_rmem",
		"net.ipv4.tcp_wmem", "net.ipv4.ip_forward", "fs.file-max", "fs.nr_open",
	} {
		fmt.Fprintf(&profile, "sysctl %q {\n  value = %d\n}\n", name, i)
	}
	for i := range 8 {
		fmt.Fprintf(&profile, "kernel_module \"m%d\" {\n  state = \"unloaded\"\n}\n", i)
		fmt.Fprintf(&profile, "check \"device_nodes\" \"n%d\" {\n  paths = [\"/dev/null\", \"/dev/zero\"]\n}\n", i)
	}
	profile.WriteString("nccl {\n  settings = { NCCL_IB_TIMEOUT = 22 }\n}\nlimits \"l\" {\n  memlock = \"unlimited\"\n}\nkernel_args {\n  absent = [\"pci=noacs\"]\n}\ncheck \"gpus\" \"all\" {}\n")
	file := filepath.Join(b.TempDir(), "forty.hcl")
	if err := os.WriteFile(file, []byte(profile.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	measure(b, buildFor(b, ".", "."), "plan", "--quiet", file)
}

// BenchmarkFleet judges 10,000 recordings of HGX and other nodes, in an archive. On two cores it is to take less than a minute
// and 150 MiB.
func BenchmarkFleet(b *testing.B) {
	archive, program := fleetArchive(b, 10_000), buildFor(b, ".", ".")
	var cpu time.Duration
	peak := int64(0)
	for b.Loop() {
		cmd := exec.Command(program, "plan", "--quiet", "--node", archive)
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != plan.ExitError || !strings.HasPrefix(string(out), "10,000 recordings") { // some are broken
			b.Fatalf("%v\n%s", err, out)
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			peak = max(peak, usage.Maxrss)
		}
	}
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(peak)/1024, "peak-MiB")
}
