package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"busbar/plan"
)

// TestUnrecorded: a recording without what profiles are chosen by is unknown, which keeps none from being judged.
func TestUnrecorded(t *testing.T) {
	dir := t.TempDir()
	write := func(name, inventory string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(`{"format_version": "1.0", "observed_at": "2026-07-01T12:00:00Z", "inventory": `+inventory+`, "answers": []}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	noBus := write("nobus.json", `{"hostname": "a", "virtualization": {"value": "none"}, "pci": null}`)
	empty := write("empty.json", `{}`)
	for _, c := range []struct {
		name     string
		args     []string
		code     int
		out, err string
	}{
		{"no PCI bus", []string{"plan", "--node", noBus}, plan.ExitUnknown, "", "pcie-gpu match this node is unknown: not recorded; name the profile"},
		{"nothing", []string{"verify", "--node", empty}, plan.ExitUnknown, "", "vm-guest match this node is unknown"},
		{"the profile is named", []string{"plan", "baseline", "--node", noBus}, plan.ExitUnknown, "unknown", ""},
		{"one of several", []string{"plan", "--quiet", "--node", noBus, "--node", "example:hgx-h100"}, plan.ExitUnknown, "gpu-a01: ", noBus + ": whether profiles"},
		{"one of several, as JSON", []string{"plan", "--json", "--node", noBus, "--node", "example:hgx-h100"}, plan.ExitUnknown, `"exit_code":8}`, noBus},
		{"topology without a PCI bus", []string{"topo", "--node", noBus}, plan.ExitOK, "the PCI bus: not recorded", ""},
		{"topology of nothing", []string{"topo", "--node", empty}, plan.ExitOK, "Nothing was recorded of this node: the inventory is empty", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := busbar("", c.args...)
			if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.err) || (c.err == "") != (stderr == "") {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
	if _, stdout, _ := busbar("", "topo", "--node", noBus); strings.Contains(stdout, "Nothing was recorded") {
		t.Errorf("a host name is something:\n%s", stdout)
	}
}
