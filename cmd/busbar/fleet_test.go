package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/fleet/fleettest"
	"busbar/plan"
	"busbar/report"
)

// fleetArchive writes an archive of n recordings with faults.
func fleetArchive(t testing.TB, n int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fleet.tar.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := fleettest.Archive(f, n); err != nil {
		t.Fatal(err)
	}
	return file
}

func decodeFleet(t *testing.T, text string) report.FleetDocument {
	t.Helper()
	var d report.FleetDocument
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

// Each planted fault is counted on as many nodes as have it, and nothing else is.
func TestFleetCountsFaults(t *testing.T) {
	const n = 150
	archive, into := fleetArchive(t, n), filepath.Join(t.TempDir(), "summary.json")
	code, stdout, stderr := busbar("", "plan", "--node", archive, "--json-into", into)
	if code != plan.ExitError || stderr != "" || !strings.HasPrefix(stdout, "150 recordings: ") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	d := decodeFleet(t, readFile(t, into))
	planted := fleettest.Counts(n)
	broken := 0
	for _, fault := range fleettest.Faults {
		want, got := planted[fault.Name], 0
		switch {
		case want == 0:
			t.Errorf("%s: none is planted", fault.Name)
		case len(fault.IDs) > 0:
			for _, c := range d.Causes {
				if slices.Contains(fault.IDs, c.ID) && string(c.Status) == fault.Status {
					got += len(c.Nodes)
				}
			}
			want *= len(fault.IDs)
		case fault.IsTrait():
			i := slices.IndexFunc(d.Outliers, func(o report.FleetOutlier) bool { return o.Trait == fault.Name })
			if i >= 0 {
				got = len(d.Outliers[i].Nodes)
			}
		default:
			broken += want
			word := map[string]string{"cut off": "cut off", "newer": "newer busbar"}[fault.Name]
			for _, f := range d.Failures {
				if strings.Contains(f.Error, word) {
					got += len(f.Recordings)
				}
			}
		}
		if got != want {
			t.Errorf("%s: %d nodes, %d are planted", fault.Name, got, want)
		}
	}
	if d.Recordings != n || d.Nodes != n-broken || d.ExitCode != code {
		t.Errorf("%d recordings, %d nodes, exit code %d", d.Recordings, d.Nodes, d.ExitCode)
	}
	for _, c := range d.Causes {
		known := slices.ContainsFunc(fleettest.Faults, func(f fleettest.Fault) bool { return slices.Contains(f.IDs, c.ID) && f.Status == string(c.Status) })
		if c.Severity == plan.Error && !known {
			t.Errorf("not planted: %d times %s %s of %s: %s", len(c.Nodes), c.Status, c.ID, c.Address, c.Example)
		}
	}
	if len(d.Outliers) != 3 {
		t.Errorf("outliers: %+v", d.Outliers)
	}
	if golden := "testdata/fleet.golden"; *update {
		writeFile(t, golden, strings.ReplaceAll(stdout, archive, "fleet.tar.gz"))
	} else if want := readFile(t, golden); strings.ReplaceAll(stdout, archive, "fleet.tar.gz") != want {
		t.Errorf("with -update it becomes the new text:\n%s", stdout)
	}
}

// A line of JSON for each recording, in their order, is what plan says of it alone.
func TestFleetLines(t *testing.T) {
	const n = 60
	dir := t.TempDir()
	codes := map[int]bool{}
	for i, text := range fleettest.Recordings(n) {
		writeFile(t, filepath.Join(dir, fleettest.Host(i)+".json"), string(text))
	}
	_, stdout, _ := busbar("", "verify", "--json", "--node", dir)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(lines) != n {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		file := filepath.Join(dir, fleettest.Host(i)+".json")
		var got struct {
			Recording string `json:"recording"` // of a failure
			Node      struct {
				Recording string `json:"recording"`
			} `json:"node"`
			ExitCode int `json:"exit_code"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if got.Node.Recording+got.Recording != file {
			t.Errorf("line %d is of %q", i, got.Node.Recording+got.Recording)
		}
		if codes[got.ExitCode] { // one of each kind is enough
			continue
		}
		codes[got.ExitCode] = true
		code, alone, _ := busbar("", "verify", "--json", "--node", file)
		if code != got.ExitCode {
			t.Errorf("%s: exit code %d alone, %d among others", file, code, got.ExitCode)
		}
		var one, other any
		if err := json.Unmarshal([]byte(alone), &one); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(line), &other); err != nil {
			t.Fatal(err)
		}
		if failed, ok := other.(map[string]any); ok && failed["recording"] != nil {
			delete(failed, "recording")
		}
		a, _ := json.Marshal(one)
		b, _ := json.Marshal(other)
		if string(a) != string(b) {
			t.Errorf("%s: alone it is\n%s\namong others\n%s", file, a, b)
		}
	}
	for _, code := range []int{plan.ExitOK, plan.ExitDrift, plan.ExitError} {
		if !codes[code] {
			t.Errorf("no recording has exit code %d", code)
		}
	}
}

// The same recordings are the same nodes however they are named.
func TestFleetNames(t *testing.T) {
	dir := t.TempDir()
	for i, text := range fleettest.Recordings(3) {
		writeFile(t, filepath.Join(dir, fleettest.Host(i)+".json"), string(text))
	}
	archive := fleetArchive(t, 3)
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
		head  string
	}{
		"directory":           {"", []string{dir}, plan.ExitOK, "3 recordings: 3 as wanted; exit 0\n"},
		"pattern":             {"", []string{filepath.Join(dir, "node-0000[01].json")}, plan.ExitOK, "2 recordings: 2 as wanted; exit 0\n"},
		"archive":             {"", []string{archive}, plan.ExitOK, "3 recordings: 3 as wanted; exit 0\n"},
		"standard input":      {readFile(t, archive), []string{"-"}, plan.ExitOK, "3 recordings: 3 as wanted; exit 0\n"},
		"several":             {"", []string{dir, archive, "example:hgx-h100-drifted"}, plan.ExitDrift, "7 recordings: 6 as wanted, 1 not as wanted; exit 2\n"},
		"nothing matches":     {"", []string{filepath.Join(dir, "*.jsn")}, plan.ExitError, "1 recording: 1 could not be read; exit 1\n"},
		"one is not there":    {"", []string{dir, filepath.Join(dir, "gone.json")}, plan.ExitError, "4 recordings: 3 as wanted, 1 could not be read; exit 1\n"},
		"empty directory":     {"", []string{t.TempDir()}, plan.ExitError, "1 recording: 1 could not be read; exit 1\n"},
		"named twice":         {readFile(t, archive), []string{"-", "-"}, plan.ExitError, "4 recordings: 3 as wanted, 1 could not be read; exit 1\n"},
		"no archive in input": {readFile(t, filepath.Join(dir, "node-00000.json")), []string{"-"}, plan.ExitOK, "node-00000: "},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"plan", "--quiet"}
			for _, node := range c.args {
				args = append(args, "--node", node)
			}
			code, stdout, stderr := busbar(c.stdin, args...)
			if code != c.code || !strings.HasPrefix(stdout, c.head) || stderr != "" {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// A node of which there are two recordings is counted twice, and that is told.
func TestFleetTwice(t *testing.T) {
	dir := t.TempDir()
	for i, text := range fleettest.Recordings(2) {
		writeFile(t, filepath.Join(dir, fleettest.Host(i)+".json"), string(text))
		if i == 1 {
			writeFile(t, filepath.Join(dir, "later.json"), strings.Replace(string(text), `"observed_at": "20`, `"observed_at": "21`, 1))
		}
	}
	into := filepath.Join(t.TempDir(), "summary.json")
	code, stdout, stderr := busbar("", "plan", "--node", dir, "--json-into", into)
	want := []report.FleetHost{{Name: fleettest.Host(1), Recordings: []string{filepath.Join(dir, "later.json"), filepath.Join(dir, fleettest.Host(1)+".json")}}}
	d := decodeFleet(t, readFile(t, into))
	if diff := cmp.Diff(want, d.Repeated); code != plan.ExitOK || d.Nodes != 3 || stderr != "" || diff != "" {
		t.Errorf("exit code %d, %d nodes\n%s%s", code, d.Nodes, diff, stderr)
	}
	tail := "\nHost names of several recordings, each of which was counted\n  node-00001: " + strings.Join(want[0].Recordings, ", ") + "\n"
	if got := strings.Join(strings.Fields(stdout), " "); !strings.HasSuffix(got, strings.Join(strings.Fields(tail), " ")) {
		t.Errorf("not at the end:\n%s", stdout)
	}
}

// What cannot be read in a directory is told, and hinders nothing: a FIFO does not hang.
func TestFleetHostileDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, text := range fleettest.Recordings(1) {
		writeFile(t, filepath.Join(dir, "node.json"), string(text))
	}
	writeFile(t, filepath.Join(dir, "zero.json"), "")
	for name, to := range map[string]string{"loop.json": "loop.json", "gone.json": "nowhere", "device.json": "/dev/zero", "link.json": "node.json", "again": "."} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "summary.json")
	code, _, _ := busbar("", "plan", "--node", dir, "--json-into", into)
	d := decodeFleet(t, readFile(t, into))
	told := map[string]string{}
	for _, f := range d.Failures {
		for _, name := range f.Recordings {
			told[filepath.Base(name)] = f.Error
		}
	}
	for name, says := range map[string]string{
		"zero.json": "cut off", "loop.json": "too many levels of symbolic links", "gone.json": "no such file", "device.json": "is no regular file", "fifo.json": "is no regular file",
	} {
		if !strings.Contains(told[name], says) {
			t.Errorf("%s: %q", name, told[name])
		}
	}
	if code != plan.ExitError || d.Recordings != 7 || d.AsWanted != 2 { // the file, and the link to it
		t.Errorf("exit code %d, %d recordings, %d as wanted", code, d.Recordings, d.AsWanted)
	}
}

// A profile that is invalid is so before anything is read; one that cannot be evaluated over a node is that node's failure.
func TestFleetProfiles(t *testing.T) {
	dir := t.TempDir()
	for i, text := range fleettest.Recordings(3) { // two HGX H100 and an HGX A100
		writeFile(t, filepath.Join(dir, fleettest.Host(i)+".json"), string(text))
	}
	profile := filepath.Join(t.TempDir(), "p.hcl")
	for name, c := range map[string]struct {
		text string
		code int
		says string
	}{
		"invalid":       {"sysctl \"a\" {\n  vale = 1\n}\n", plan.ExitBadProfile, ""},
		"over one node": {"check \"gpus\" \"all\" {\n  count = contains(node.pci_ids, \"10de:2330\") ? 8 : -1\n}\n", plan.ExitBadProfile, "3 recordings: 2 as wanted, 1 for which the profile is invalid; exit 78\n"},
		"tomorrow's":    {"check \"driver\" \"all\" {\n  min_version = \"999.1\"\n}\n", plan.ExitDrift, "3 recordings: 3 not as wanted; exit 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, profile, c.text)
			code, stdout, _ := busbar("", "verify", profile, "--quiet", "--node", dir)
			if code != c.code || stdout != c.says {
				t.Errorf("exit code %d\n%s", code, stdout)
			}
		})
	}
}
