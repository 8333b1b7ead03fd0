package main

import (
	"fmt"
	"io"
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
		Args:              cobra.MinimumNArgs(1),
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
		if p != nil && v.Valid {
			v.Conflicts = append(v.Conflicts, planner.Conflicts(p.StaticBlocks())...)
			v.Valid = len(v.Conflicts) == 0
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

func (c *console) writeValidated(w io.Writer, s report.Style, all []validated) error {
	for _, v := range all {
		style := c.style(c.err)
		if err := profiles.WriteText(c.err, v.Diagnostics, style.Width, style.Color); err != nil {
			return err
		}
		for _, f := range v.Conflicts {
			fmt.Fprintf(c.err, "%s: %s\n", f.Address, f.Summary)
		}
		if s.Quiet {
			continue
		}
		word := "valid"
		if !v.Valid {
			word = "invalid"
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", v.Profile, word); err != nil {
			return err
		}
	}
	return nil
}

func newProfiles(c *console) *cobra.Command {
	t := target{root: "/"}
	return &cobra.Command{
		Use:   "profiles",
		Short: "List the profiles that can be named",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l := t.loader()
			all := []profileView{}
			for _, name := range l.Names() {
				p, diags := l.Load(name)
				if err := c.diagnose(diags); err != nil {
					return err
				}
				all = append(all, profileView{Name: name, Description: p.Description, Extends: append([]string{}, p.Parents()...)})
			}
			return c.result(
				func(w io.Writer, s report.Style) error { return writeProfiles(w, s, all) },
				func(w io.Writer) error {
					return writeJSON(w, struct {
						FormatVersion string        `json:"format_version"`
						Profiles      []profileView `json:"profiles"`
					}{report.FormatVersion, all})
				},
			)
		},
	}
}

type profileView struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Extends     []string `json:"extends"`
}

func writeProfiles(w io.Writer, s report.Style, all []profileView) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range all {
		line := p.Name
		if !s.Quiet {
			line += "\t" + p.Description
		}
		if _, err := fmt.Fprintln(table, line); err != nil {
			return err
		}
	}
	return table.Flush()
}
