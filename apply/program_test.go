//go:build linux

package apply

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"busbar/node"
	"busbar/plan"
)

func TestExplainModprobe(t *testing.T) {
	load := func(name string) plan.LoadModule { return plan.LoadModule{Name: name} }
	unload := func(name string) plan.LoadModule { return plan.LoadModule{Name: name, Unload: true} }
	insert := "modprobe: ERROR: could not insert '%s': %s\n"
	tests := []struct {
		action plan.LoadModule
		output string
		state  node.ModuleState
		want   string
	}{
		{action: load("mlx5_ib"), output: fmt.Sprintf(insert, "mlx5_ib", "Operation not permitted"), want: "kernel.modules_disabled"},
		{action: load("nvidia_peermem"), output: fmt.Sprintf(insert, "nvidia_peermem", "Key was rejected by service"), want: "signature"},
		{action: load("nvidia_peermem"), output: fmt.Sprintf(insert, "nvidia_peermem", "Required key not available"), want: "signature"},
		{action: load("nvidia_peermem"), output: fmt.Sprintf(insert, "nvidia_peermem", "Invalid argument"), want: "without peer-memory symbols"},
		{action: load("mlx5_core"), output: fmt.Sprintf(insert, "mlx5_core", "Invalid argument"), want: ""},
		{action: load("nv_peer_mem"), output: fmt.Sprintf(insert, "nv_peer_mem", "Unknown symbol in module, or unknown parameter (see dmesg)"), want: "another ib_core"},
		{action: load("nvidia_peermem"), output: fmt.Sprintf(insert, "nvidia_peermem", "File exists"), want: "another peer-memory client"},
		{action: load("gdrdrv"), output: "modprobe: FATAL: Module gdrdrv not found in directory /lib/modules/6.8.0-31-generic\n", want: "not on disk"},
		{action: load("nvidia"), output: fmt.Sprintf(insert, "nvidia", "No such device"), want: "hardware"},
		{action: load("gdrdrv"), output: fmt.Sprintf(insert, "gdrdrv", "Exec format error"), want: "another kernel"},
		{action: unload("nvidia"), output: "modprobe: FATAL: Module nvidia is in use by: nvidia_uvm nvidia_modeset\n", want: "held by nvidia_uvm, nvidia_modeset"},
		{action: unload("nv_peer_mem"), output: "modprobe: FATAL: Module nv_peer_mem is in use.\n", state: node.ModuleState{Loaded: true, RefCount: 3}, want: "held by 3 users"},
		{action: unload("ib_core"), output: "modprobe: FATAL: Module ib_core is in use.\n", state: node.ModuleState{Loaded: true, RefCount: 1, Holders: []string{"mlx5_ib"}}, want: "held by mlx5_ib"},
		{action: load("mlx5_ib"), output: "", want: ""},
	}
	for _, test := range tests {
		facts := node.Facts{}.With(node.Module.Answer(test.action.Name, node.Known(test.state, node.Source{})))
		got := explainModprobe(test.action, test.output, facts)
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%q means %q, want %q", test.output, got, test.want)
		}
	}
}

func TestTailIsBounded(t *testing.T) {
	var out tail
	for range 1000 {
		fmt.Fprintln(&out, strings.Repeat("x", 200))
	}
	fmt.Fprint(&out, "the end\xff")
	if got := out.String(); len(got) > maxOutput+2 || !strings.HasSuffix(got, "the end�") {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-10:])
	}
}

// In a directory tree the running system is not touched: update-grub is that of the
// tree, and runs in it.
func TestDirectoryTree(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	m := newMachine(t)
	for _, name := range []string{"sh", "env", "rm", "cat"} {
		m.install(t, name)
	}
	script := strings.ReplaceAll(m.text("/bin/update-grub"), "root='"+m.root+"'", "root=")
	m.write("/usr/sbin/update-grub", script)
	must(os.Chmod(m.root+"/usr/sbin/update-grub", 0o755))
	m.program("systemctl", `echo "$@" >> "$root/systemctl"
if [ "$2" = enable ]; then echo enabled inactive 0 > "$root/units/$3"; fi`)

	o := m.options(m.plan(func(f node.Facts) []plan.Step {
		steps := only("grub", "numa", "peermem", "fabricmanager")(f)
		for i, s := range steps {
			if unit, ok := s.Action.(plan.SetUnit); ok {
				unit.Active = ""
				steps[i].Action = unit
			}
		}
		return steps
	}))
	o.Path = "/usr/sbin:" + m.root + "/bin:/usr/bin:/bin"
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"write-file:/etc/default/grub.d/zz-busbar.cfg done",
		"update-grub:/boot/grub/grub.cfg done",
		"load-module:nvidia_peermem failed",
		"set-sysctl:kernel.numa_balancing failed",
		"set-unit:nvidia-fabricmanager.service done",
	}
	if got := outcomes(result); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("steps:\n%s\nerrors:\n%s", strings.Join(got, "\n"), errorsOf(result))
	}
	if got := m.text("/proc/sys/kernel/numa_balancing"); got != "1\n" {
		t.Errorf("a running parameter became %s", got)
	}
	if got, want := m.text("/systemctl"), "--root="+m.root+" unmask nvidia-fabricmanager.service\n--root="+m.root+" enable nvidia-fabricmanager.service\n"; got != want {
		t.Errorf("systemctl was called as\n%swant\n%s", got, want)
	}
}

// install copies a program and the libraries that ldd(1) lists for it to the machine.
func (m *machine) install(t *testing.T, name string) {
	t.Helper()
	file, err := exec.LookPath(name)
	must(err)
	list, err := exec.Command("ldd", file).Output()
	if err != nil {
		t.Skipf("ldd %s: %v", file, err)
	}
	files := append(regexp.MustCompile(`/\S+`).FindAllString(string(list), -1), file)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(err)
		m.write(file, string(data))
		must(os.Chmod(filepath.Join(m.root, file), 0o755))
	}
	if file != "/bin/"+name {
		data, err := os.ReadFile(file)
		must(err)
		m.write("/bin/"+name, string(data))
		must(os.Chmod(filepath.Join(m.root, "/bin", name), 0o755))
	}
}
