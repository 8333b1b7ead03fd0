package plantest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/plan"
)

// Case is a row of a table over facts.
type Case struct {
	Name string
	// Blocks in HCL.
	Blocks string
	Facts  node.Facts
	// Want is the plan, and After the one after all its steps without what is ok, both
	// as Summarize writes them. Where After is empty and the plan has no step, Want stays.
	Want, After string
	// Texts are files that steps write, with their whole content.
	Texts map[string]string
	// Says are parts of the findings' sentences.
	Says []string
}

// Run settles each case.
func Run(t *testing.T, types []plan.Type, cases []Case) {
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			first, second, _ := Settle(t, types, Blocks(t, types, tt.Blocks), tt.Facts)
			if diff := cmp.Diff(lines(tt.Want), lines(Summarize(first))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			after := lines(tt.After)
			if len(after) == 0 && len(first.Steps) == 0 {
				after = notOK(lines(tt.Want))
			}
			if diff := cmp.Diff(after, notOK(lines(Summarize(second)))); diff != "" {
				t.Errorf("plan after all steps (-want +got):\n%s", diff)
			}
			written := map[string]string{}
			for _, s := range first.Steps {
				if w, ok := s.Action.(plan.WriteFile); ok {
					written[w.Path] = w.Text
				}
			}
			for p, want := range tt.Texts {
				if diff := cmp.Diff(want, written[p]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", p, diff)
				}
			}
			var sentences strings.Builder
			for _, f := range first.Findings {
				sentences.WriteString(f.Summary + "\n" + f.Fix + "\n")
				if !advised(f) {
					t.Errorf("%s %s says nothing of what to do: %s", f.ID, f.Target, f.Summary)
				}
			}
			for _, want := range tt.Says {
				if !strings.Contains(sentences.String(), want) {
					t.Errorf("nothing says %q:\n%s", want, sentences.String())
				}
			}
		})
	}
}

// advised reports a finding that a step puts right, that says what to do, or about which there is nothing to be done.
func advised(f plan.Finding) bool {
	wrong := f.Status == plan.Drift || f.Status == plan.Conflict || f.Status == plan.Ineffective
	return !wrong || f.Severity == plan.Info || f.Fixable || f.Fix != ""
}

// notOK are the lines of a summary that do not begin with ok.
func notOK(summary []string) []string {
	var left []string
	for _, line := range summary {
		if !strings.HasPrefix(line, "ok ") {
			left = append(left, line)
		}
	}
	return left
}

func lines(s string) []string {
	var all []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
