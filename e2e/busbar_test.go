//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"busbar/e2e/lab"
)

// document is what busbar says with --json, as far as scenarios look at it.
type document struct {
	guest    *guest
	Findings []finding `json:"findings"`
	Steps    []step    `json:"steps"`
	Deferred []struct {
		UnlockedBy string `json:"unlocked_by"`
	} `json:"deferred"`
	ExitCode int `json:"exit_code"`
	Run      struct {
		Passes      int  `json:"passes"`
		Interrupted bool `json:"interrupted"`
		Steps       []struct {
			step
			Status string `json:"status"`
			Error  string `json:"error"`
		} `json:"steps"`
	} `json:"run"`
}

type finding struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Status   string `json:"status"`
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Fix      string `json:"fix"`
	Found    string `json:"found"`
	Source   struct {
		Path string `json:"path"`
		Line int    `json:"line"`
	} `json:"source"`
}

type step struct {
	ID string `json:"id"`
}

// busbar runs busbar with --json and expects an exit code.
func (g *guest) busbar(code int, args ...string) document {
	g.t.Helper()
	return g.document(g.Run(g.ctx, append([]string{"busbar", "--json"}, args...)...), code, args...)
}

// document is what busbar said that was run with --json; an exit code is expected.
func (g *guest) document(r lab.Result, code int, args ...string) document {
	g.t.Helper()
	d := document{guest: g}
	if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
		g.t.Fatalf("busbar %s: %v: %s", strings.Join(args, " "), err, r)
	}
	if r.Code != code || d.ExitCode != code {
		g.t.Fatalf("busbar %s: wanted exit %d, got %d (%d in the document)\n%s%s", strings.Join(args, " "), code, r.Code, d.ExitCode, d, r.Stderr)
	}
	return d
}

func (d document) String() string {
	var b strings.Builder
	for _, f := range d.Findings {
		if f.Status != "ok" && f.Status != "skipped" {
			fmt.Fprintf(&b, "%s %s %s: %s\n", f.Status, f.ID, f.Address, f.Summary)
		}
	}
	for _, s := range d.Steps {
		fmt.Fprintf(&b, "step %s\n", s.ID)
	}
	for _, s := range d.Run.Steps {
		fmt.Fprintf(&b, "%s %s %s\n", s.Status, s.ID, s.Error)
	}
	return b.String()
}

// has expects a finding of a status.
func (d document) has(status, id string) finding {
	d.guest.t.Helper()
	for _, f := range d.Findings {
		if f.Status == status && f.ID == id {
			return f
		}
	}
	d.guest.t.Fatalf("there is no finding %s %s:\n%s", status, id, d)
	return finding{}
}

// blames expects a finding whose source is a line of a file.
func (d document) blames(status, id, file string, line int) finding {
	d.guest.t.Helper()
	f := d.has(status, id)
	if f.Source.Path != file || f.Source.Line != line {
		d.guest.t.Errorf("%s %s: wanted the source %s:%d, got %s:%d", status, id, file, line, f.Source.Path, f.Source.Line)
	}
	return f
}

// drifts expects that all that has drifted, notes apart, names one target, and these are the ids.
func (d document) drifts(target string, ids ...string) {
	d.guest.t.Helper()
	var found []string
	for _, f := range d.Findings {
		if f.Status == "ok" || f.Status == "skipped" || f.Severity == "info" {
			continue
		}
		if f.Status != "drift" || !strings.Contains(f.Summary, target) {
			d.guest.t.Errorf("not a drift of %s: %s %s %s: %s", target, f.Status, f.ID, f.Address, f.Summary)
		}
		found = append(found, f.ID)
	}
	slices.Sort(ids)
	slices.Sort(found)
	if !slices.Equal(ids, slices.Compact(found)) {
		d.guest.t.Errorf("drift of %s: wanted %v, got %v", target, ids, found)
	}
}

// noStep expects a plan, or a run, without steps.
func (d document) noStep() {
	d.guest.t.Helper()
	if len(d.Steps)+len(d.Run.Steps) > 0 {
		d.guest.t.Errorf("no step is wanted:\n%s", d)
	}
}

// profile writes the node's profile.
func (g *guest) profile(blocks string) {
	g.t.Helper()
	g.file("/etc/busbar/node.hcl", "profile {\n  description = \"a node of the lab\"\n}\n"+blocks)
}

const passthrough = `
iommu {
  mode = "passthrough"
}
`

// service puts a stand-in for a daemon into the guest.
func (g *guest) service(name string) {
	g.t.Helper()
	g.file("/etc/systemd/system/"+name+".service", "[Unit]\nDescription=A stand-in for "+name+
		"\n[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n")
	g.sh("systemctl daemon-reload")
}

// is expects what a shell command prints, white space at the ends aside.
func (g *guest) is(want, command string) {
	g.t.Helper()
	if got := strings.TrimSpace(g.sh(command)); got != want {
		g.t.Errorf("%s: wanted %q, got %q", command, want, got)
	}
}

// iommuIs expects the type of every IOMMU group.
func (g *guest) iommuIs(kinds ...string) {
	g.t.Helper()
	got := strings.Fields(g.sh("cat /sys/kernel/iommu_groups/*/type"))
	if len(got) < 10 || slices.ContainsFunc(got, func(kind string) bool { return !slices.Contains(kinds, kind) }) {
		g.t.Errorf("the IOMMU groups are %v, wanted is %v", got, kinds)
	}
}

// writesNothing expects that what is done leaves the disk as it is; the journal goes on.
func (g *guest) writesNothing(do func()) {
	g.t.Helper()
	g.sh("touch /root/mark && sleep 0.1")
	do()
	g.is("", "find / -xdev -newer /root/mark -not -path '/var/log/*' -not -path /dev -not -path /run")
}

// torn expects no temporary file of busbar's.
func (g *guest) torn() {
	g.t.Helper()
	g.is("", "find /etc /var/lib -xdev -name '.busbar-*'")
}
