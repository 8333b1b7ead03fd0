package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"busbar/plan"
	"busbar/report"
)

// Whatever goes wrong, --json gives one document with the exit code, and --json-into the same.
func TestFailuresAsJSON(t *testing.T) {
	dir := t.TempDir()
	broken, empty, image := filepath.Join(dir, "broken.hcl"), filepath.Join(dir, "empty.hcl"), filepath.Join(dir, "image")
	writeFile(t, broken, "sysctl \"a.b\" {\n  valu = 1\n}\n")
	writeFile(t, empty, "")
	if err := os.MkdirAll(filepath.Join(image, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		args    []string
		command string
		code    int
		said    string // in the error
	}{
		{"invalid profile", []string{"plan", broken}, "plan", plan.ExitBadProfile, "broken.hcl:1"},
		{"empty profile", []string{"verify", empty}, "verify", plan.ExitBadProfile, "The profile has no block"},
		{"no such profile", []string{"apply", "--yes", "bare-metl"}, "apply", plan.ExitBadProfile, "busbar profiles lists"},
		{"no such recording", []string{"verify", "--node", "/nope"}, "verify", plan.ExitError, "reading the recording /nope"},
		{"no such root", []string{"plan", "--root", "/nope"}, "plan", plan.ExitError, "/nope"},
		{"no root file system", []string{"plan", "--root", dir}, "plan", plan.ExitError, dir + " is no root file system"},
		{"which profile", []string{"apply", "--yes", "--root", image}, "apply", plan.ExitUsage, "which profile?"},
		{"no terminal", []string{"apply", "baseline"}, "apply", plan.ExitUsage, "--yes"},
		{"unknown flag", []string{"plan", "--nope"}, "plan", plan.ExitUsage, "unknown flag: --nope"},
		{"unknown command", []string{"plam"}, "busbar", plan.ExitUsage, "unknown command"},
		{"excluding flags", []string{"plan", "--root", "/", "--node", "x"}, "plan", plan.ExitUsage, "--root and --node exclude each other"},
		{"too many arguments", []string{"version", "now"}, "version", plan.ExitUsage, `version takes no argument, and "now" is one`},
		{"another profile", []string{"plan", "a", "b"}, "plan", plan.ExitUsage, `plan takes one PROFILE at most, and "b" is another one`},
		{"too few arguments", []string{"validate"}, "validate", plan.ExitUsage, "which PROFILE?"},
		{"not said raw", []string{"capture"}, "capture", plan.ExitUsage, "--raw"},
		{"capture of a profile that is none", []string{"capture", "--raw", broken}, "capture", plan.ExitBadProfile, "broken.hcl:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			into := filepath.Join(t.TempDir(), "into.json")
			o := execute(t, here(t, append(c.args, "--json", "--json-into", into)...))
			o.want(t, c.code)
			var got failure
			dec := json.NewDecoder(strings.NewReader(o.stdout))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&got); err != nil || dec.More() {
				t.Fatalf("no single document: %v: %s", err, o)
			}
			if got.FormatVersion != report.FormatVersion || got.Command != c.command || got.ExitCode != c.code || !strings.Contains(got.Error, c.said) || got.Diagnostics == nil {
				t.Errorf("%+v does not say %q", got, c.said)
			}
			if (c.code == plan.ExitBadProfile) != (len(got.Diagnostics) > 0) {
				t.Errorf("%d diagnostics", len(got.Diagnostics))
			}
			// The file is known only where the command line could be read to its end.
			if text, err := os.ReadFile(into); err == nil && string(text) != o.stdout || err != nil && c.name != "unknown flag" && c.name != "unknown command" {
				t.Errorf("--json-into has %q, %v", text, err)
			}
			// Without JSON nothing is on standard output.
			o = execute(t, here(t, c.args...))
			if o.code != c.code || o.stdout != "" || o.stderr == "" {
				t.Error(o)
			}
		})
	}
}

// One line for each node, also for those that cannot be judged.
func TestSeveralNodesAsJSON(t *testing.T) {
	dir := t.TempDir()
	both := filepath.Join(dir, "both.hcl")
	writeFile(t, both, validProfile)
	into := filepath.Join(dir, "into.jsonl")
	o := execute(t, here(t, "verify", both, "--json", "--json-into", into, "--node", "example:hgx-h100", "--node", "/nope", "--node", "example:epyc-pcie"))
	o.want(t, plan.ExitError)
	var commands []string
	for line := range strings.Lines(o.stdout) {
		var doc struct {
			Command string
			Error   string
		}
		if err := json.Unmarshal([]byte(line), &doc); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		commands = append(commands, doc.Command+" "+doc.Error)
	}
	if diff := cmp.Diff([]string{"verify ", "verify reading the recording /nope: stat /nope: no such file or directory", "verify "}, commands); diff != "" {
		t.Error(diff)
	}
	if text := readFile(t, into); text != o.stdout {
		t.Errorf("--json-into has %q", text)
	}
}

// The file of --json-into is checked before the work and replaced after it.
func TestJSONInto(t *testing.T) {
	dir := t.TempDir()
	into := filepath.Join(dir, "into.json")
	for _, c := range []struct {
		name, into string
		code       int
		said       string
	}{
		{"no name", "", plan.ExitUsage, "--json-into names no file"},
		{"standard output", "-", plan.ExitUsage, "--json writes to standard output"},
		{"no directory", filepath.Join(dir, "absent", "x"), plan.ExitError, filepath.Join(dir, "absent")},
		{"a directory", dir, plan.ExitError, "is a directory"},
		{"a file", into, plan.ExitOK, ""},
		{"a pipe", "/dev/stderr", plan.ExitOK, `"command": "verify"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := execute(t, here(t, "verify", "--node", "example:hgx-h100", "--json-into", c.into))
			o.want(t, c.code, c.said)
			if c.code != plan.ExitOK && o.stdout != "" {
				t.Errorf("the node was judged: %s", o)
			}
		})
	}
	t.Run("old until the end", func(t *testing.T) {
		m := newMachine(t, drifted())
		m.write("/srv/result.json", "old\n")
		m.write("/srv/modprobe-wait", "")
		cmd := m.command("apply", "--yes", "--json-into", "/srv/result.json")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		waitFor(t, func() bool { return m.exists("/srv/modprobe-started") })
		if got := m.read("/srv/result.json"); got != "old\n" {
			t.Errorf("while apply runs it holds %q", got)
		}
		m.remove("/srv/modprobe-wait")
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if got := m.read("/srv/result.json"); !json.Valid([]byte(got)) {
			t.Errorf("afterwards it holds %q", got)
		}
	})
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for range 2000 {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("waited in vain")
}

// Pipes are read when they were handed over, and never when they lie somewhere.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	recording := filepath.Join(dir, "node.json")
	execute(t, here(t, "capture", "--raw", "-o", recording)).want(t, plan.ExitOK)
	image := image(t, nil)
	for _, p := range []string{"etc/busbar"} {
		if err := os.MkdirAll(filepath.Join(image, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(image, profilePath), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"verify", fifo}, plan.ExitBadProfile},
		{[]string{"validate", fifo}, plan.ExitBadProfile},
		{[]string{"apply", "--yes", fifo}, plan.ExitBadProfile},
		{[]string{"plan", "--root", image}, plan.ExitBadProfile},
		{[]string{"verify", "/dev/null"}, plan.ExitBadProfile},
		{[]string{"verify", "--node", fifo}, plan.ExitError},
		{[]string{"verify", "--node", "/dev/zero"}, plan.ExitError},
		{[]string{"fmt", fifo}, plan.ExitError},
		{[]string{"verify", "--node", fifo, "--node", "example:hgx-h100"}, plan.ExitError},
	} {
		execute(t, here(t, c.args...)).want(t, c.code, "is no regular file")
	}

	busbar := program(t, "busbar")
	bash := needs(t, "bash")
	for _, c := range []struct {
		script string
		code   int
		said   string
	}{
		{`echo "$PROFILE" | busbar validate -`, plan.ExitOK, "valid"},
		{`echo "$PROFILE" | busbar verify - --node example:hgx-h100`, plan.ExitDrift, "net.core.somaxconn"},
		{`echo "$PROFILE" | busbar verify /dev/stdin --node example:hgx-h100 --node example:epyc-pcie`, plan.ExitDrift, "net.core.somaxconn"},
		{`busbar verify <(echo "$PROFILE") --node example:hgx-h100`, plan.ExitDrift, "net.core.somaxconn"},
		{`busbar verify --node - baseline <` + recording + ` >/dev/null; test $? -lt 64`, 0, ""},
		{`busbar verify --node <(cat ` + recording + `) baseline >/dev/null; test $? -lt 64`, 0, ""},
		{`busbar verify - --node - <` + recording, plan.ExitBadProfile, "- is named twice"},
		{`echo "$PROFILE" | busbar validate - /dev/stdin`, plan.ExitBadProfile, "/dev/stdin is named twice"},
		{`busbar verify - </dev/null`, plan.ExitBadProfile, "The profile has no block"},
		{`busbar plan --json --node example:hgx-h100 | busbar plan --node -`, plan.ExitError, "this is what busbar plan says"},
	} {
		cmd := exec.Command(bash, "-c", c.script)
		cmd.Env = []string{"PATH=" + filepath.Dir(busbar) + ":/usr/bin:/bin", "PROFILE=" + validProfile}
		o := execute(t, cmd)
		if o.code != c.code || !strings.Contains(o.stdout+o.stderr, c.said) {
			t.Errorf("%s: want exit code %d and %q, got %s", c.script, c.code, c.said, o)
		}
	}
	if os.Geteuid() == 0 {
		// Nobody but root can have opened what root was handed.
		m := newMachine(t, nil)
		cmd := m.command("apply", "--yes", "-")
		cmd.Stdin = strings.NewReader(validProfile)
		execute(t, cmd).want(t, plan.ExitOK)
	}
}

// Outputs that are no regular files are written to.
func TestCaptureIntoPipes(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `
busbar capture --raw -o /dev/stdout | head -c 1 >first && test "$(cat first)" = "{" || exit 1
busbar capture --raw -o /dev/stdout >whole || exit 2
echo before >appended; busbar capture --raw -o /dev/fd/3 3>>appended || exit 3
mkfifo fifo; cat fifo >through & busbar capture --raw -o fifo || exit 4; wait
busbar capture --raw -o /dev/full 2>said && exit 5; grep -q "no space left" said || exit 6`)
	cmd.Env = []string{"PATH=" + filepath.Dir(program(t, "busbar")) + ":/usr/bin:/bin"}
	cmd.Dir = dir
	execute(t, cmd).want(t, 0)
	for file, prefix := range map[string]string{"whole": "", "appended": "before\n", "through": ""} {
		rest, ok := strings.CutPrefix(readFile(t, filepath.Join(dir, file)), prefix)
		if !ok || !json.Valid([]byte(rest)) {
			t.Errorf("%s holds %.100q", file, rest)
		}
	}
}

// Mistakes and full disks that cobra does not tell of.
func TestHelpAndCompletion(t *testing.T) {
	busbar := program(t, "busbar")
	for _, script := range []string{"completion bash", "completion zsh", "--help", "help plan", "plan --help", "fmt - </dev/null", "profiles", "validate baseline"} {
		execute(t, exec.Command("sh", "-c", busbar+" "+script+" >/dev/full")).want(t, plan.ExitError, "no space left on device")
	}
	for _, args := range [][]string{{"help", "nope"}, {"help", "plan", "nope"}, {"completion", "nope"}, {"completion"}} {
		o := execute(t, here(t, args...))
		o.want(t, plan.ExitUsage, "See 'busbar "+args[0])
		if o.stdout != "" {
			t.Error(o)
		}
	}
	for _, args := range [][]string{{"help"}, {"help", "plan"}, {"help", "completion", "bash"}, {"help", "help"}} {
		execute(t, here(t, args...)).want(t, plan.ExitOK, "Usage:")
	}
	execute(t, here(t, "help", "plan")).want(t, plan.ExitOK, "example:NAME (epyc-pcie, gb200-tray, hgx-a100-nps4, hgx-b200, hgx-h100, hgx-h100-drifted, hgx-h200-ib, rtx-workstation, vm-guest-2gpu)")
}

func TestFmtAsJSON(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"ugly.hcl": "iommu {\nmode=\"off\"\n}\n", "tidy.hcl": "iommu {\n  mode = \"off\"\n}\n", "broken.hcl": "iommu {\n"} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	for _, c := range []struct {
		args  []string
		stdin string
		code  int
		want  string
	}{
		{[]string{"--check", "ugly.hcl", "tidy.hcl"}, "", plan.ExitDrift, `[{"file":"ugly.hcl","formatted":false,"changed":false},{"file":"tidy.hcl","formatted":true,"changed":false}]`},
		{[]string{"ugly.hcl", "tidy.hcl"}, "", plan.ExitOK, `[{"file":"ugly.hcl","formatted":true,"changed":true},{"file":"tidy.hcl","formatted":true,"changed":false}]`},
		{[]string{"-"}, "a=1\n", plan.ExitOK, `[{"file":"-","formatted":true,"changed":true,"text":"a = 1\n"}]`},
		{[]string{"absent.hcl"}, "", plan.ExitError, `[{"file":"absent.hcl","formatted":false,"changed":false,"error":"stat absent.hcl: no such file or directory"}]`},
	} {
		cmd := here(t, append([]string{"fmt", "--json"}, c.args...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(c.stdin)
		o := execute(t, cmd)
		var got bytes.Buffer
		if err := json.Compact(&got, []byte(o.stdout)); err != nil {
			t.Fatalf("%v: %s", err, o)
		}
		if want := `{"format_version":"1.0","files":` + c.want + "}"; o.code != c.code || got.String() != want {
			t.Errorf("%v: exit code %d\ngot  %s\nwant %s", c.args, o.code, &got, want)
		}
	}
	cmd := here(t, "fmt", "--json", "broken.hcl")
	cmd.Dir = dir
	execute(t, cmd).want(t, plan.ExitBadProfile, `"formatted": false`, `"diagnostics": [`)
}

// A broken profile in the search path does not hide the others.
func TestProfilesWithABrokenOne(t *testing.T) {
	m := newMachine(t, map[string]string{
		"/etc/busbar/profiles.d/site.hcl":   "profile {\n  description = \"The site's\"\n  extends     = [\"baseline\"]\n}\n",
		"/etc/busbar/profiles.d/broken.hcl": "\nsysctl {\n",
	})
	m.busbar("profiles").want(t, plan.ExitBadProfile, "hgx-h100-roce ", "The site's", "broken: ", "(/etc/busbar/profiles.d/broken.hcl:2)")
	o := m.busbar("profiles", "--json")
	o.want(t, plan.ExitBadProfile)
	var doc struct {
		Profiles []profileView `json:"profiles"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &doc); err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, p := range doc.Profiles {
		if p.Error != "" {
			bad++
		}
	}
	if bad != 1 || len(doc.Profiles) < 6 {
		t.Errorf("%d of %d profiles are broken", bad, len(doc.Profiles))
	}
}

// The text of each profile can be had, by its name and by the file that findings cite.
func TestProfilesShow(t *testing.T) {
	const site = "profile {\n  description = \"The site's\"\n  extends     = [\"baseline\"]\n}\n"
	m := newMachine(t, map[string]string{"/etc/busbar/profiles.d/site.hcl": site, "/etc/busbar/profiles.d/baseline.hcl": site})
	stock, err := os.ReadFile("../../profiles/stock/baseline.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"site": site, "baseline": site, "stock/baseline.hcl": string(stock), "/etc/busbar/profiles.d/site.hcl": site} {
		if o := m.busbar("profiles", "show", name); o.code != plan.ExitOK || o.stdout != want {
			t.Errorf("%s: %s", name, o)
		}
	}
	m.busbar("profiles", "show", "--json", "site").want(t, plan.ExitOK, `"file": "/etc/busbar/profiles.d/site.hcl"`, `"text": "profile {`)
	m.busbar("profiles", "show", "bare-metl").want(t, plan.ExitBadProfile, `There is no profile "bare-metl". Did you mean "bare-metal"?`)
	m.busbar("profiles", "show").want(t, plan.ExitUsage, "which NAME?")
	m.busbar("profiles", "shw").want(t, plan.ExitUsage)
}

// Blocks that contradict each other are told as other mistakes are, once.
func TestValidateContradictions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.hcl")
	writeFile(t, file, "iommu {\n  mode = \"passthrough\"\n}\n\nkernel_args {\n  present = { iommu = \"off\" }\n}\n")
	o := execute(t, here(t, "validate", file))
	o.want(t, plan.ExitBadProfile, "Error: Blocks contradict each other", file+":2:3, in iommu\n     |\n   2 |   mode = \"passthrough\"\n     |   ^^^^", file+":6:3, in kernel_args\n", file+": invalid")
	if n := strings.Count(o.stderr, "Error: "); n != 1 {
		t.Errorf("%d errors: %s", n, o)
	}
	o = execute(t, here(t, "validate", "--json", file))
	var doc struct {
		Profiles []validated `json:"profiles"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &doc); err != nil {
		t.Fatal(err)
	}
	if p := doc.Profiles[0]; p.Valid || len(p.Conflicts) != 1 || len(p.Diagnostics) != 1 || p.Diagnostics[0].Range == nil {
		t.Errorf("%+v", p)
	}
}

// In a tree, links to devices make no files in /dev, and nothing is called right that cannot
// be written.
func TestRootWithLinksToDevices(t *testing.T) {
	dir := image(t, map[string]string{profilePath: allBlocks})
	for _, p := range []string{"dev", "proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"/etc/nccl.conf": "/dev/null", "/etc/modprobe.d/zz-busbar.conf": "/dev/null", "/etc/modules-load.d/busbar.conf": "../../dev/null",
		"/usr/share/site/sysctl/zz-busbar.conf": "/dev/zero", "/etc/security/limits.d": "/sys", fragmentPath: "/proc/cmdline",
	} {
		_ = os.Remove(filepath.Join(dir, link)) // of the image
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	o := execute(t, here(t, "plan", "--root", dir))
	if o.code != plan.ExitDrift && o.code != plan.ExitUnknown || !strings.Contains(o.stdout, "is a link to /dev/null") {
		t.Error(o)
	}
	before := snapshot(t, dir, false)
	o = execute(t, here(t, "apply", "--yes", "--root", dir))
	if o.code == plan.ExitOK || !strings.Contains(o.stdout, "root "+dir+" at ") {
		t.Error(o)
	}
	after := snapshot(t, dir, false)
	for p := range after {
		for _, kernel := range []string{"/dev/", "/proc/", "/sys/"} {
			if strings.HasPrefix(p, kernel) {
				t.Errorf("%s was made", p)
			}
		}
	}
	if before["/etc/nccl.conf"] != after["/etc/nccl.conf"] {
		t.Error("the link was replaced")
	}
	execute(t, here(t, "verify", "--root", dir)).want(t, o.code)
}

// People are told what a run waits for when they ask it to end, and a late signal takes
// nothing away.
func TestApplyTellsWhatItWaitsFor(t *testing.T) {
	m := newMachine(t, drifted())
	m.write("/srv/modprobe-wait", "")
	cmd := m.command("apply", "--yes", "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return m.exists("/srv/modprobe-started") })
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	m.remove("/srv/modprobe-wait")
	_ = cmd.Wait() // the exit code tells
	o := outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	o.want(t, plan.ExitPartial,
		"SIGTERM: ends after the running step, in 300 s at most: load module fake_nic",
		"SIGINT: still ends after the running step, which is given up after 300 s: load module fake_nic",
		"waiting for modprobe fake_nic, at most 57 s", `"interrupted": true`)
	if !json.Valid(stdout.Bytes()) {
		t.Errorf("no document: %s", o)
	}
}
