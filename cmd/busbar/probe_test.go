package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"busbar/internal/p2p"
	"busbar/plan"
)

func TestProbeUsage(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.json")
	writeFile(t, other, `{"format_version":"1.0","command":"probe p2p","size_bytes":1048576,"pairs":[{"from":"0000:ea:00.0","to":"0000:fa:00.0"}]}`)
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"no probe", nil, plan.ExitUsage, "which probe?"},
		{"no such probe", []string{"p3p"}, plan.ExitUsage, `"p3p"`},
		{"an argument", []string{"p2p", "0000:1b:00.0"}, plan.ExitUsage, `p2p takes no argument, and "0000:1b:00.0" is one`},
		{"no address", []string{"p2p", "--gpu", "0,1"}, plan.ExitUsage, "--gpu 0 is no PCI address like 0000:1b:00.0"},
		{"one GPU twice", []string{"p2p", "--gpu", "0000:1b:00.0", "--gpu", "0000:1B:00.0"}, plan.ExitUsage, "one GPU is no pair"},
		{"no size", []string{"p2p", "--size", "0"}, plan.ExitUsage, "--size 0 is not from 1 to 16384 MiB"},
		{"no time", []string{"p2p", "--timeout", "0s"}, plan.ExitUsage, "--timeout 0s leaves no time"},
		{"no ratio", []string{"p2p", "--min-ratio", "90"}, plan.ExitUsage, "--min-ratio 90 is not above 0 and up to 1"},
		{"nor this", []string{"p2p", "--min-ratio", "NaN"}, plan.ExitUsage, "--min-ratio NaN is not above 0 and up to 1"},
		{"no baseline", []string{"p2p", "--compare", filepath.Join(dir, "nope")}, plan.ExitError, "--compare: stat "},
		{"a baseline of another size", []string{"p2p", "--compare", other}, plan.ExitError, "was recorded with copies of 1 MiB: say --size 1"},
		{"nowhere to record", []string{"p2p", "--record", filepath.Join(dir, "nope", "base.json")}, plan.ExitError, "--record: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := busbar("", append([]string{"probe"}, c.args...)...)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
			}
		})
	}
}

// withDriver is busbar on this machine, as if the driver of testdata/libcuda.c were loaded. setup is
// shell that runs before it in the same mount namespace.
func withDriver(t *testing.T, library, setup string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return loaded(t, library, setup, env, append([]string{"probe", "p2p"}, args...)...)
}

func loaded(t *testing.T, library, setup string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	script := "mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && : >/proc/driver/nvidia/version && " + setup + ` "$@"`
	cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh", program(t, "dynamic")}, args...)...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH=" + library}, env...)
	return cmd
}

// driverLibrary builds it.
func driverLibrary(t *testing.T) string {
	t.Helper()
	needsRoot(t)
	needs(t, "unshare")
	needs(t, "gcc")
	dir := t.TempDir()
	out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"), "../../probe/testdata/libcuda.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func TestProbeP2P(t *testing.T) {
	library := driverLibrary(t)
	base := filepath.Join(t.TempDir(), "base.json")
	run := func(env []string, args ...string) outcome {
		return execute(t, withDriver(t, library, "exec", env, append([]string{"--size", "1"}, args...)...))
	}
	run(nil, "--record", base).want(t, plan.ExitOK, "busbar: takes 2 MiB on each GPU", "0000:ea:00.0  0000:fa:00.0", "right", "exit 0")
	file, err := os.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if r, err := p2p.Read(file); err != nil || len(r.Pairs) != 2 {
		t.Errorf("the baseline: %v, %+v", err, r)
	}
	run(nil, "--compare", base, "--min-ratio", "0.0001", "--verbose").want(t, plan.ExitOK, "      was", "one way: was ")
	// A baseline of GPUs a million times faster.
	text := readFile(t, base)
	faster := filepath.Join(filepath.Dir(base), "faster.json")
	writeFile(t, faster, strings.ReplaceAll(text, `"one_way_gb_per_s": `, `"one_way_gb_per_s": 9999999`))
	run(nil, "--compare", faster, "--record", base).want(t, plan.ExitDrift, "one way: was 9999999", "--record: "+base+" was not written")
	if readFile(t, base) != text {
		t.Error("a result that is not all right became the baseline")
	}
	run([]string{"LIBCUDA_FLIP=4711"}).want(t, plan.ExitDrift, "WRONG", "bytes arrive wrong: one way 1 of 1048576, the first at offset 4711; both ways 1 of 1048576")
	run([]string{"LIBCUDA_INIT=802"}).want(t, plan.ExitUnknown, "CUDA_ERROR_SYSTEM_NOT_READY (802)", "nvidia-fabricmanager")
	run([]string{"LIBCUDA_CRASH=cuMemGetInfo_v2"}).want(t, plan.ExitUnknown, "the child that moves bytes ended while allocating memory of GPU 0000:ea:00.0: signal: aborted")
	run([]string{"LIBCUDA_GPUS=1"}, "--verbose").want(t, plan.ExitOK, "one GPU, 0000:fa:00.0, is no pair")
	run(nil, "--gpu", "0000:fa:00.0,0000:0a:00.0").want(t, plan.ExitUnknown, "CUDA shows no GPU 0000:0a:00.0")
	run([]string{"CUDA_VISIBLE_DEVICES=0"}, "--quiet").want(t, plan.ExitOK, "; exit 0")

	o := run(nil, "--json")
	o.want(t, plan.ExitOK)
	var doc struct {
		FormatVersion string `json:"format_version"`
		Command       string `json:"command"`
		ExitCode      int    `json:"exit_code"`
		p2p.Result
	}
	if err := json.Unmarshal([]byte(o.stdout), &doc); err != nil || doc.FormatVersion != "1.0" || doc.Command != "probe p2p" || doc.ExitCode != 0 || len(doc.Pairs) != 2 {
		t.Errorf("%v: %s", err, o)
	}
}

// onBus shows the GPUs of testdata/libcuda.c on the PCI bus.
const onBus = `mount -t tmpfs none /sys/bus/pci/devices && for a in 0000:ea:00.0 0000:fa:00.0; do mkdir /sys/bus/pci/devices/$a &&
	echo 0x10de >/sys/bus/pci/devices/$a/vendor && echo 0x2335 >/sys/bus/pci/devices/$a/device && echo 0x030200 >/sys/bus/pci/devices/$a/class; done && `

func TestVerifyProbe(t *testing.T) {
	library := driverLibrary(t)
	profile := filepath.Join(t.TempDir(), "node.hcl")
	writes := func(attributes string) {
		writeFile(t, profile, "proof \"p2p_bandwidth\" \"all\" {\nsize_mib = 1\n"+attributes+"\n}\n")
	}
	run := func(setup string, env []string, args ...string) outcome {
		return execute(t, loaded(t, library, onBus+setup, env, append(args, profile)...))
	}
	writes("min_gb_per_s = 0.0001")
	run("exec", nil, "verify", "--probe").want(t, plan.ExitOK, "; exit 0")
	for _, command := range []string{"verify", "plan"} {
		run("exec", []string{"LIBCUDA_CRASH=cuInit"}, command, "--verbose").want(t, plan.ExitOK, "skipped  proof.p2p_bandwidth.all: run by verify --probe", "1 skipped")
	}
	run("exec", []string{"LIBCUDA_FLIP=4711"}, "verify", "--probe").want(t, plan.ExitDrift, "bytes arrive wrong: one way 1 of 1048576, the first at offset 4711")
	run("exec", []string{"LIBCUDA_INIT=802"}, "verify", "--probe").want(t, plan.ExitUnknown, "CUDA_ERROR_SYSTEM_NOT_READY (802)")
	run("exec", []string{"LIBCUDA_GPUS=1"}, "verify", "--probe").want(t, plan.ExitUnknown, "nothing is known of GPU 0000:ea:00.0: the PCI bus has it, and CUDA does not show it")
	busy := "mount -t tmpfs none /dev && : >/dev/null && : >/dev/nvidia0 && : >/dev/nvidia-uvm && exec 8</dev/nvidia0 9</dev/nvidia-uvm &&"
	run(busy, nil, "verify", "--probe").want(t, plan.ExitUnknown, "rightly is unknown: the GPUs are in use: sh (process ", ") uses GPUs: wait until that has ended, or say --force")
	run(busy, nil, "verify", "--probe", "--force").want(t, plan.ExitOK, "; exit 0")
	writes("min_gb_per_s = 999999")
	run("exec", nil, "verify", "--probe").want(t, plan.ExitDrift, "drift  proof.p2p_bandwidth.all: 0000:ea:00.0 to 0000:fa:00.0: ", " GB/s, wanted is 999999.0 GB/s")
	writes("min_ratio = 0.65")
	run("exec", nil, "verify", "--probe").want(t, plan.ExitUnknown, "what the links between them carry is unknown: no driver is bound to the GPU", "2 unknown; exit 8")
}

func TestVerifyProbeUsage(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "node.hcl")
	writeFile(t, profile, `sysctl "kernel.numa_balancing" { value = 0 }`)
	for _, c := range []struct{ args, stderr string }{
		{"verify --force", "--force is about --probe, which is missing"},
		{"verify --probe --node example:hgx-h100", "--probe is about this machine"},
		{"verify --probe --root /etc", "--probe is about this machine"},
		{"verify --probe " + profile, "has no proof to run"},
		{"plan --probe", "--probe"},
	} {
		if code, stdout, stderr := busbar("", strings.Fields(c.args)...); code != plan.ExitUsage || stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, standard output %q, standard error %q", c.args, code, stdout, stderr)
		}
	}
}

func TestProbeStatic(t *testing.T) {
	library := driverLibrary(t)
	cmd := withDriver(t, library, "exec", nil)
	cmd.Args[6] = program(t, "busbar")
	execute(t, cmd).want(t, plan.ExitUnknown, "this busbar is a static program, which cannot load libcuda.so.1")
}

func TestProbeBusy(t *testing.T) {
	library := driverLibrary(t)
	// The shell holds the device files.
	setup := "mount -t tmpfs none /dev && : >/dev/null && : >/dev/nvidia0 && : >/dev/nvidia-uvm && exec 8</dev/nvidia0 9</dev/nvidia-uvm &&"
	o := execute(t, withDriver(t, library, setup, nil, "--json"))
	o.want(t, plan.ExitError, "the GPUs are in use: sh (process ", ") uses GPUs: wait until that has ended, or say --force", `"command": "probe p2p"`)
	execute(t, withDriver(t, library, setup, nil, "--size", "1", "--force", "--quiet")).want(t, plan.ExitOK)
}

// A signal ends it: the result says what is missing, and nobody stays behind.
func TestProbeInterrupted(t *testing.T) {
	library := driverLibrary(t)
	cmd := withDriver(t, library, "exec", []string{"LIBCUDA_HANG=cuStreamSynchronize"}, "--size", "1")
	terminate := func(p *os.Process) {
		time.AfterFunc(2*time.Second, func() { _ = p.Signal(syscall.SIGTERM) })
	}
	executeAnd(t, cmd, terminate).want(t, plan.ExitUnknown, "terminated signal received; it did not end within 5s while ", "and was killed", "0 ok, 2 unknown; exit 8")
	execute(t, withDriver(t, library, "exec", []string{"LIBCUDA_HANG=cuStreamSynchronize"}, "--size", "1", "--timeout", "500ms")).
		want(t, plan.ExitUnknown, "not done within 500ms; it did not end within 5s while ")
}
