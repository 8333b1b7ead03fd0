package report_test

import (
	"testing"

	"busbar/node/paste"
	"busbar/plan"
	"busbar/report"
)

// Nothing wrong is ok only where what the text is about was judged.
func TestVerdict(t *testing.T) {
	finding := func(address string, status plan.Status, severity plan.Severity) plan.Finding {
		return plan.Finding{ID: "x.y", Address: address, Status: status, Severity: severity}
	}
	ok, unknown, skipped := finding("a", plan.OK, plan.Error), finding("b", plan.Undetermined, plan.Error), finding("a", plan.Skipped, plan.Error)
	known := paste.Input{File: "x", Kind: "lspci", Line: 1, Lines: 10}
	strange := func(file string, lines int) paste.Input {
		return paste.Input{File: file, Line: 11, Lines: lines, Unread: "busbar does not know what this is"}
	}
	doubtful := paste.Input{File: "x", Kind: "nvidia-smi topo -m", Lines: 10, Doubt: "it is cut off"}
	for name, c := range map[string]struct {
		inputs   []paste.Input
		findings []plan.Finding
		want     report.Verdict
	}{
		"ok":                                  {[]paste.Input{known}, []plan.Finding{ok}, report.Fine},
		"nothing":                             {nil, nil, report.Unjudged},
		"nothing judged":                      {[]paste.Input{known}, nil, report.Unjudged},
		"only skipped":                        {[]paste.Input{known}, []plan.Finding{skipped}, report.Unjudged},
		"ok and skipped":                      {[]paste.Input{known}, []plan.Finding{ok, skipped}, report.Fine},
		"a note":                              {[]paste.Input{known}, []plan.Finding{finding("a", plan.Drift, plan.Info)}, report.Fine},
		"waived":                              {[]paste.Input{known}, []plan.Finding{finding("a", plan.Waived, plan.Error)}, report.Fine},
		"an address of which all is unknown":  {[]paste.Input{known}, []plan.Finding{ok, unknown}, report.Unjudged},
		"an address of which part is unknown": {[]paste.Input{known}, []plan.Finding{finding("b", plan.OK, plan.Error), unknown, finding("b", plan.Undetermined, plan.Error)}, report.Fine},
		"a note that is unknown":              {[]paste.Input{known}, []plan.Finding{ok, finding("b", plan.Undetermined, plan.Info)}, report.Fine},
		"a doubtful input":                    {[]paste.Input{known, doubtful}, []plan.Finding{ok}, report.Unjudged},
		"as many lines unknown as known":      {[]paste.Input{known, strange("x", 10)}, []plan.Finding{ok}, report.Fine},
		"more lines unknown than known":       {[]paste.Input{known, strange("x", 5), strange("x", 6)}, []plan.Finding{ok}, report.Unjudged},
		"a text that busbar does not know":    {[]paste.Input{known, strange("y", 1)}, []plan.Finding{ok}, report.Unjudged},
		"a kind that is not read":             {[]paste.Input{known, {File: "y", Kind: "lspci -tv", Lines: 3, Unread: "lspci -vvv says more"}}, []plan.Finding{ok}, report.Unjudged},
		"an empty text":                       {[]paste.Input{known, {File: "y", Unread: "it is empty"}}, []plan.Finding{ok}, report.Unjudged},
		"a file of a tree":                    {[]paste.Input{known, strange("tree/z", 1000)}, []plan.Finding{ok}, report.Fine},
		"a warning":                           {[]paste.Input{strange("x", 10), doubtful}, []plan.Finding{unknown, finding("a", plan.Drift, plan.Warning)}, report.Warn},
		"wrong":                               {[]paste.Input{strange("x", 10), doubtful}, []plan.Finding{unknown, finding("a", plan.Drift, plan.Warning), finding("a", plan.Conflict, plan.Error)}, report.Fail},
	} {
		if d := report.NewDiagnosis(report.Profile{}, c.inputs, c.findings, []string{"x", "y", "tree"}); d.Verdict != c.want || d.ExitCode != c.want.ExitCode() {
			t.Errorf("%s: verdict %s, exit code %d, want %s", name, d.Verdict, d.ExitCode, c.want)
		}
	}
}
