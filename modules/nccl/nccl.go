// Package nccl is the block type nccl: NCCL's system-wide defaults in
// /etc/nccl.conf.
package nccl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/confdir"
	"busbar/internal/ncclconf"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// Type is the block type nccl.
type Type struct{}

var _ plan.Validator = Type{}

// Spec of nccl.
func (Type) Spec() plan.Spec {
	return plan.Spec{
		Name: "nccl", Doc: "NCCL's defaults for every job on the node: /etc/nccl.conf.",
		Ceiling: plan.Live, Sinks: []string{sink.NCCLName},
		Attributes: []plan.Attribute{
			{Name: "settings", Type: cty.DynamicPseudoType, Example: `{ NCCL_IB_TIMEOUT = 22 }`, Doc: "Variables and their values, numbers or strings. A variable whose value cannot be computed on a node is withheld there, alone."},
			{Name: "version", Type: cty.String, Example: `"2.26.2"`, Doc: "The version of NCCL that jobs use. It decides how lines of others are read; left out, they must be right for every version."},
			{Name: "take_over", Type: cty.Bool, Default: cty.False, Example: "true", Doc: "Take lines of others that give these variables other values out of the file, keeping a copy."},
		},
	}
}

// decode returns the settings as text and the version, with the mistakes in them.
func decode(b plan.Block) (settings map[string]string, version ncclconf.Version, problems []plan.Problem) {
	settings = map[string]string{}
	if v := b.Attributes["version"]; v != cty.NilVal && !v.IsNull() {
		var err error
		if version, err = ncclconf.ParseVersion(v.AsString()); err != nil {
			problems = append(problems, plan.Problem{Attribute: "version", Summary: "not a version of NCCL", Detail: err.Error()})
		}
	}
	entries, err := b.Entries("settings")
	if err != nil {
		problems = append(problems, plan.Problem{Attribute: "settings", Summary: "not an object", Detail: err.Error()})
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		text, err := valueText(entries[key])
		if err != nil {
			problems = append(problems, plan.Problem{Attribute: "settings", Key: key, Summary: "NCCL cannot read this value", Detail: err.Error()})
			continue
		}
		settings[key] = text
	}
	return settings, version, problems
}

// valueText is a value as the file has it. NCCL reads words as 0, so that a bool is
// refused.
func valueText(v cty.Value) (string, error) {
	if !v.IsNull() && v.Type() == cty.Bool {
		return "", fmt.Errorf("NCCL reads %q as 0; write 1 or 0", strconv.FormatBool(v.True()))
	}
	return plan.ScalarText(v)
}

// Validate finds what NCCL would not read as it is meant.
func (Type) Validate(b plan.Block) []plan.Problem {
	settings, version, problems := decode(b)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if isEmptyList(settings[key]) {
			continue // withheld when it is assessed, with the reason
		}
		for _, r := range ncclconf.ValidateSetting(key, settings[key], version) {
			if r.Severity == ncclconf.Info {
				continue
			}
			problems = append(problems, plan.Problem{
				Attribute: "settings", Key: key, Warning: r.Severity == ncclconf.Warn,
				Summary: fmt.Sprintf("NCCL: %s=%s", key, settings[key]), Detail: strings.TrimSpace(sentence(r.Text) + " " + sentence(r.Fix)),
			})
		}
	}
	return problems
}

// sentence gives a text a capital and a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	s = strings.ToUpper(s[:1]) + strings.TrimRight(s[1:], ".")
	if strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// isEmptyList: an empty list behind = or ^ means every device.
func isEmptyList(value string) bool { return value == "" || strings.Trim(value, "=^,") == "" }

// fileKeys are variables whose value is a file that must exist.
var fileKeys = []string{"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_TUNER_CONFIG_FILE"}

// trafficClass is the variable with the traffic class of RoCE, whose upper six bits are the DSCP.
const trafficClass = "NCCL_IB_TC"

// Queries are NCCL's files, and the files that wanted settings name.
func (Type) Queries(b plan.Block, _ node.Inventory) []node.Query {
	settings, _, _ := decode(b)
	queries := []node.Query{node.File.Query(sink.NCCLPath), node.NCCLUserFiles.Query("")}
	for _, key := range fileKeys {
		if p, ok := settings[key]; ok && strings.HasPrefix(p, "/") {
			queries = append(queries, node.Path.Query(p))
		}
	}
	return queries
}

// Assess contributes the settings, and judges the lines of others and what wins
// over the file.
func (Type) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	settings, version, _ := decode(b)
	var a plan.Assessment
	takeOver := b.Attributes["take_over"] == cty.True
	var claims []plan.Contribution // facts, which stand in no file
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		value := settings[key]
		if isEmptyList(value) {
			origin := b.OriginOf("settings", key)
			a.Findings = append(a.Findings, plan.Finding{
				ID: "nccl.empty_list", Target: key, Status: plan.Undetermined, Want: key + "=" + value,
				Summary: fmt.Sprintf("%s is withheld: its list is empty, which NCCL takes for every device", key),
				Source:  node.Source{Path: origin.File, Line: origin.Line},
			})
			continue
		}
		a.Contributions = append(a.Contributions, plan.Contribution{Sink: sink.NCCLName, Key: key, Value: value, TakeOver: takeOver, Origin: b.OriginOf("settings", key)})
		if n, exact, _ := ncclconf.Int(value); key == trafficClass && exact && n >= 0 && n < 256 {
			claims = append(claims, plan.Contribution{Sink: plan.FactSink, Key: plan.LosslessDSCPFact, Value: strconv.FormatInt(n>>2, 10), By: key + "=" + value, Of: key, Origin: b.OriginOf("settings", key)})
		}
		claims = append(claims, claim(key, value, b.OriginOf("settings", key))...)
		if slices.Contains(fileKeys, key) && strings.HasPrefix(value, "/") {
			a.Findings = append(a.Findings, namedFile(key, value, facts)...)
		}
	}
	v := node.File.Get(facts, sink.NCCLPath)
	if file, ok := v.Get(); ok {
		after, err := sink.NCCLText(a.Contributions, file.Text)
		if err != nil {
			after = file.Text // the sink says why it is not written
		}
		remarks := lint(file.Text, after, version, facts.Inventory)
		if len(remarks) == 0 && file.Exists && facts.Inventory.FromText() {
			remarks = []plan.Finding{{ID: "nccl.lines", Target: sink.NCCLPath, Status: plan.OK, Source: v.Source(), Summary: "NCCL reads every line of " + sink.NCCLPath + " as it is meant"}}
		}
		a.Findings = append(a.Findings, remarks...)
	} else {
		a.Findings = append(a.Findings, plan.Unread("nccl.lines", "what lines of others say", v))
	}
	a.Findings = append(a.Findings, userFiles(settings, facts)...)
	a.Contributions = append(a.Contributions, claims...)
	return a
}

// namedFile judges a file that a setting names.
func namedFile(key, p string, facts node.Facts) []plan.Finding {
	v := node.Path.Get(facts, p)
	state, ok := v.Get()
	f := plan.Finding{ID: "nccl.file_missing", Target: key, Status: plan.OK, Want: "a file", Found: "a file", Source: node.Source{Path: p}, Summary: key + " names a file that exists"}
	switch {
	case !ok:
		f = plan.Unread(f.ID, p, v)
		f.Target = key
	case !state.Exists:
		f.Status, f.Found = plan.Drift, "absent"
		f.Summary = fmt.Sprintf("%s names %s, which does not exist", key, p)
		f.Fix = "install the file, or take the setting out"
	}
	return []plan.Finding{f}
}

// lint judges the lines of a file with what the inventory knows of the node. after is the
// file as it will be.
func lint(text, after string, version ncclconf.Version, inv node.Inventory) []plan.Finding {
	env := ncclconf.Env{}
	if devices, ok := inv.RDMA.Get(); ok && inv.Whole("rdma") {
		env.HCAs = []string{}
		for _, d := range devices {
			env.HCAs = append(env.HCAs, d.Name)
		}
	}
	if netdevs, ok := inv.Netdevs.Get(); ok && len(netdevs) > 0 && inv.Whole("netdevs") {
		for _, d := range netdevs {
			env.Interfaces = append(env.Interfaces, d.Name)
		}
	}
	severities := map[ncclconf.Severity]plan.Severity{ncclconf.Error: plan.Error, ncclconf.Warn: plan.Warning, ncclconf.Info: plan.Info}
	lines := strings.Split(text, "\n")
	var findings []plan.Finding
	now, then := ncclconf.Lint(text, version, env), ncclconf.Lint(after, version, env)
	for _, r := range now {
		f := plan.Finding{
			ID: r.ID, Target: r.Key, Status: plan.Drift, Severity: severities[r.Severity],
			Summary: r.Text, Fix: r.Fix, Source: node.Source{Path: sink.NCCLPath, Line: r.Line},
		}
		if r.Line > 0 && r.Line <= len(lines) {
			f.Found = lines[r.Line-1]
		}
		if r.Severity == ncclconf.Error && !stays(r, now, then) {
			f.Fixable, f.By, f.Effect = true, sink.NCCLPath, plan.Live
		}
		findings = append(findings, f)
	}
	return findings
}

// stays reports whether an error is still there in the remarks on the file as it will be:
// the same one, or one of its kind that it hid (lines that end in a carriage return are told once).
func stays(r ncclconf.Remark, now, then []ncclconf.Remark) bool {
	same := func(o ncclconf.Remark) func(ncclconf.Remark) bool {
		return func(x ncclconf.Remark) bool { return x.Severity == ncclconf.Error && x.ID == o.ID && x.Key == o.Key }
	}
	return slices.ContainsFunc(then, func(o ncclconf.Remark) bool {
		return o.Severity == ncclconf.Error && o.ID == r.ID && (o.Key == r.Key || !slices.ContainsFunc(now, same(o)))
	})
}

// userFiles finds what wins over the file: ~/.nccl.conf and the environment.
func userFiles(settings map[string]string, facts node.Facts) []plan.Finding {
	const id = "nccl.overridden"
	v := node.NCCLUserFiles.Get(facts, "")
	files, ok := v.Get()
	if !ok {
		f := plan.Unread(id, "what users set for NCCL", v)
		f.Severity = plan.Info
		return []plan.Finding{f}
	}
	var findings []plan.Finding
	for _, file := range files {
		if file.Reason != "" {
			f := plan.Unread(id, "what "+file.Path+" sets", node.Unknown[string](file.Reason, node.Source{Path: file.Path}))
			f.Severity = plan.Info
			findings = append(findings, f)
			continue
		}
		what := "is read before " + sink.NCCLPath
		if file.Path == environmentFile {
			what = "sets the environment of logins, which wins over " + sink.NCCLPath
		}
		for _, e := range userEntries(file) {
			want, wanted := settings[e.Key]
			if !wanted || e.Value == want {
				continue
			}
			findings = append(findings, plan.Finding{
				ID: id, Target: e.Key, Status: plan.Drift, Severity: plan.Warning,
				Want: e.Key + "=" + want, Found: e.Key + "=" + e.Value, Source: node.Source{Path: file.Path, Line: e.Line},
				Summary: fmt.Sprintf("%s %s and sets %s=%s", file.Path, what, e.Key, e.Value),
				Fix:     "take the line out of " + file.Path + " if it is not meant",
			})
		}
	}
	slices.SortFunc(findings, func(a, b plan.Finding) int {
		return cmp.Or(cmp.Compare(a.Source.Path, b.Source.Path), cmp.Compare(a.Source.Line, b.Source.Line))
	})
	return findings
}

// environmentFile is read by pam_env at login: KEY=VALUE lines, an optional export,
// optional quotes.
const environmentFile = "/etc/environment"

func userEntries(file confdir.File) []ncclconf.Entry {
	if file.Path != environmentFile {
		return ncclconf.Parse(file.Text, ncclconf.Version{}).Readings[0].Entries
	}
	var entries []ncclconf.Entry
	n := 0
	for line := range strings.Lines(file.Text) {
		n++
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		key = strings.TrimSpace(strings.TrimPrefix(key, "export "))
		if ok && strings.HasPrefix(key, "NCCL_") {
			entries = append(entries, ncclconf.Entry{Line: n, Key: key, Value: strings.Trim(value, `"'`)})
		}
	}
	return entries
}

// claim are the facts that a setting says in NCCL's words: -1 of the index and anything but 1 and 2 of the version leave
// the choice to NCCL.
func claim(key, value string, origin plan.Origin) []plan.Contribution {
	n, exact, _ := ncclconf.Int(value)
	c := plan.Contribution{Sink: plan.FactSink, By: key + "=" + value, Of: key, Origin: origin}
	switch {
	case !exact:
		return nil
	case key == "NCCL_IB_GID_INDEX" && n >= 0:
		c.Key, c.Value = plan.GIDIndexFact, strconv.FormatInt(n, 10)
	case key == "NCCL_IB_ROCE_VERSION_NUM" && (n == 1 || n == 2):
		c.Key, c.Value = plan.RoCEVersionFact, fmt.Sprintf("v%d", n)
	default:
		return nil
	}
	return []plan.Contribution{c}
}
