package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"busbar/plan"
	"busbar/profiles"
	"busbar/report"
)

func newValidate(c *console) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "validate PROFILE...",
		Short: "Check profiles without a node",
		Long: `Check profiles, files or names, without a node: syntax, references, types, values,
and blocks that contradict each other. The exit code is 78 when one is invalid.`,
		Example:           "  busbar validate /etc/busbar/node.hcl hgx-h100-roce",
		Args:              takes(1, anyNumber, "PROFILE"),
		ValidArgsFunction: t.completeProfiles,
		RunE: func(_ *cobra.Command, args []string) error {
			return c.validate(&t, args)
		},
	}
	cmd.Flags().StringArrayVar(&t.assignments, "var", nil, "set a profile's variable, `NAME=EXPR`")
	t.root = "/"
	return cmd
}

// validated is the JSON form of a profile's check.
type validated struct {
	Profile     string               `json:"profile"`
	Valid       bool                 `json:"valid"`
	Diagnostics profiles.Diagnostics `json:"diagnostics"`
	Conflicts   []plan.Finding       `json:"conflicts"`
}

func (c *console) validate(t *target, names []string) error {
	planner := newPlanner()
	all := []validated{}
	code := plan.ExitOK
	for _, name := range names {
		p, _, diags := t.named(c, t.loader(), name)
		v := validated{Profile: name, Valid: !diags.HasErrors(), Diagnostics: diags, Conflicts: []plan.Finding{}}
		if v.Diagnostics == nil {
			v.Diagnostics = profiles.Diagnostics{}
		}
		if p != nil {
			v.Conflicts = append(v.Conflicts, planner.Conflicts(p.StaticBlocks())...)
			v.Diagnostics = append(v.Diagnostics, contradictions(p, v.Conflicts)...)
			v.Valid = !v.Diagnostics.HasErrors()
		}
		if !v.Valid {
			code = plan.ExitBadProfile
		}
		all = append(all, v)
	}
	return ended(code, c.result(
		func(w io.Writer, s report.Style) error { return c.writeValidated(w, s, all) },
		func(w io.Writer) error {
			return writeJSON(w, struct {
				FormatVersion string      `json:"format_version"`
				Profiles      []validated `json:"profiles"`
			}{report.FormatVersion, all})
		},
	))
}

// contradictions are conflicts as the mistakes of a profile that they are.
func contradictions(p *profiles.Profile, conflicts []plan.Finding) profiles.Diagnostics {
	var diags profiles.Diagnostics
	for _, f := range conflicts {
		d := profiles.Diagnostic{Severity: profiles.DiagnosticError, Summary: "Blocks contradict each other", Detail: f.Address + ": " + f.Summary + ".", Address: f.Address}
		if f.Severity == plan.Warning {
			d.Severity, d.Summary = profiles.DiagnosticWarning, "Blocks contradict each other on some nodes"
		}
		first := p.Excerpt(f.Between[0].Origin)
		d.Range, d.Snippet, d.Others = first.Range, first.Snippet, []profiles.Excerpt{p.Excerpt(f.Between[1].Origin)}
		diags = append(diags, d)
	}
	return diags
}

func (c *console) writeValidated(w io.Writer, s report.Style, all []validated) error {
	for _, v := range all {
		style := c.style(c.err)
		if err := profiles.WriteText(c.err, v.Diagnostics, style.Width, style.Color); err != nil {
			return err
		}
		if s.Quiet {
			continue
		}
		word := "valid"
		if !v.Valid {
			word = "invalid"
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", report.Printable(v.Profile, ""), word); err != nil {
			return err
		}
	}
	return nil
}

func newProfiles(c *console) *cobra.Command {
	t := target{root: "/"}
	cmd := &cobra.Command{
		Use:   "profiles",
		Short: "List the profiles that can be named",
		Args:  takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			l := t.loader()
			all := []profileView{}
			code := plan.ExitOK
			for _, name := range l.Names() {
				p, diags := l.Load(name)
				view := profileView{Name: name, Extends: []string{}}
				if err := c.diagnose(diags); err != nil {
					code, view.Error = plan.ExitBadProfile, firstError(diags)
				} else {
					view.Description, view.Extends = p.Description, append(view.Extends, p.Parents()...)
				}
				all = append(all, view)
			}
			return ended(code, c.result(
				func(w io.Writer, s report.Style) error { return writeProfiles(w, s, all) },
				func(w io.Writer) error {
					return writeJSON(w, struct {
						FormatVersion string        `json:"format_version"`
						Profiles      []profileView `json:"profiles"`
					}{report.FormatVersion, all})
				},
			))
		},
	}
	cmd.AddCommand(newShowProfile(c))
	return cmd
}

// newShowProfile is the command that prints a profile.
func newShowProfile(c *console) *cobra.Command {
	t := target{root: "/"}
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Print the text of a profile",
		Long: `Print the text of a profile by its name, or by the file that a finding cites. What it
extends is in files of its own.`,
		Example:           "  busbar profiles show hgx-h100-roce\n  busbar profiles show stock/baseline.hcl",
		Args:              takes(1, 1, "NAME"),
		ValidArgsFunction: t.completeProfiles,
		RunE: func(_ *cobra.Command, args []string) error {
			file, text, diags := t.loader().Source(args[0])
			if err := c.diagnose(diags); err != nil {
				return err
			}
			return c.result(
				func(w io.Writer, _ report.Style) error {
					_, err := io.WriteString(w, report.Printable(string(text), "\n\t"))
					return err
				},
				func(w io.Writer) error {
					return writeJSON(w, struct {
						FormatVersion string `json:"format_version"`
						File          string `json:"file"`
						Text          string `json:"text"`
					}{report.FormatVersion, file, string(text)})
				},
			)
		},
	}
}

// firstError is the first mistake in one line.
func firstError(diags profiles.Diagnostics) string {
	i := slices.IndexFunc(diags, func(d profiles.Diagnostic) bool { return d.Severity == profiles.DiagnosticError })
	if i < 0 {
		return ""
	}
	d := diags[i]
	if d.Range == nil {
		return d.Summary + ": " + d.Detail
	}
	return fmt.Sprintf("%s (%s:%d)", d.Summary, d.Range.Filename, d.Range.Start.Line)
}

type profileView struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Extends     []string `json:"extends"`
	// Error says why it cannot be used; empty for the others.
	Error string `json:"error,omitempty"`
}

func writeProfiles(w io.Writer, s report.Style, all []profileView) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range all {
		line := p.Name
		if p.Error != "" {
			line += "\tbroken: " + p.Error
		} else if !s.Quiet {
			line += "\t" + p.Description
		}
		if _, err := fmt.Fprintln(table, report.Printable(line, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}
