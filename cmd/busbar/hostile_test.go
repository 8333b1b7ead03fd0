package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"busbar/node/example"
	"busbar/report"
)

// hostile steers terminals, and turns what is read right to left.
const hostile = "\x1b[2J\x1b]0;x\a\u202e\u009b31m\x7f\u2066\r\b"

// TestHostileText: nothing that others wrote, or called a file, reaches a terminal but as text.
func TestHostileText(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	odd := report.Printable(hostile, "")
	profile := write("p"+hostile+".hcl", "sysctl \"kernel.numa_balancing\" {\n  value = 0\n}\n")
	broken := write("b"+hostile+".hcl", "nccl {\n  settings = { A = nope }\n  # "+hostile+"\n  \""+hostile+"\" = "+hostile+"\n}\n")
	unlike := write("u"+hostile+".hcl", "locals {\na=1\n}\nnccl {\n  settings = { \"A\" = \"x\" }\n}\n")
	var recording strings.Builder
	r, err := example.Open("hgx-h100-drifted")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(&recording, r); err != nil {
		t.Fatal(err)
	}
	// The escapes of JSON: every name and text of the recording that says PowerEdge or rail.
	written := strings.NewReplacer("PowerEdge", `\u001b[2J\u202e\u009b\u007f`, "gpu-a01", `\u001b]0;x\u0007\u2066`, "Ubuntu", `\u001b[31m`).Replace(recording.String())
	node := write("n"+hostile+".json", written)
	cut := write("c"+hostile+".json", "{\"format_version\": \""+hostile)
	for _, args := range [][]string{
		{"plan", "--node", node}, {"plan", profile, "--verbose", "--node", node}, {"plan", "--color", "always", "--quiet", "--node", node}, {"verify", "--node", node}, {"topo", "--verbose", "--node", node}, {"topo", "--quiet", "--node", node},
		{"topo", "--svg", "--node", node}, {"plan", "--node", cut}, {"plan", "--node", cut, "--node", cut}, {"topo", "--node", cut, "--node", cut}, {"plan", "--node", dir + "/none" + hostile},
		{"validate", profile, broken}, {"validate", "none" + hostile}, {"plan", broken, "--node", node}, {"fmt", "--check", unlike, broken, dir + "/none" + hostile},
		{"plan", "--var", hostile + "=" + hostile, "baseline", "--node", node}, {"plan", "--" + hostile}, {hostile}, {"version", hostile}, {"plan", "a", hostile},
		{"version", "--color", hostile}, {"version", "--json-into", dir + "/no" + hostile + "/x"}, {"plan", "--root", hostile}, {"help", hostile}, {"completion", hostile},
	} {
		t.Run(report.Printable(args[0], ""), func(t *testing.T) {
			_, stdout, stderr := busbar("", args...)
			for _, text := range []string{stdout, stderr} {
				if slices.Contains(args, "always") {
					text = strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "").Replace(text)
				}
				if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(text) {
					t.Errorf("%q\n%q", args, text)
				}
			}
			if stdout+stderr == "" {
				t.Errorf("%q says nothing", args)
			}
		})
	}
	if _, stdout, _ := busbar("", "validate", profile); !strings.HasSuffix(stdout, "p"+odd+".hcl: valid\n") {
		t.Errorf("got %q", stdout)
	}
}
