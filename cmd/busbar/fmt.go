package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"busbar/plan"
	"busbar/profiles"
	"busbar/report"
)

// maxProfile bounds what is read as a profile, in bytes.
const maxProfile = 10 << 20

func newFmt(c *console) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "fmt FILE...",
		Short: "Bring profiles into their usual layout",
		Long: `Bring profiles into their usual layout, and name those that were not in it.

A FILE of - is standard input, whose new layout goes to standard output. What is
no valid HCL is reported and left alone; the exit code is then 78.`,
		Example: "  busbar fmt /etc/busbar/node.hcl\n  busbar fmt --check profiles/*.hcl",
		Args:    takes(1, anyNumber, "FILE"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"hcl"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(_ *cobra.Command, names []string) error {
			return c.format(names, check)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; the exit code is 2 when a FILE is not in its usual layout")
	return cmd
}

// formatted is the JSON form of what became of a file.
type formatted struct {
	File string `json:"file"`
	// Formatted: it is in its usual layout now. Changed: it was not before.
	Formatted   bool                 `json:"formatted"`
	Changed     bool                 `json:"changed"`
	Error       string               `json:"error,omitempty"`
	Diagnostics profiles.Diagnostics `json:"diagnostics,omitempty"`
	// Text is the new layout of standard input.
	Text string `json:"text,omitempty"`

	code int
}

func (c *console) format(names []string, check bool) error {
	all := []formatted{}
	codes := []int{}
	for _, name := range names {
		f := c.formatFile(name, check)
		if f.Error != "" {
			c.tell("%s", f.Error)
		}
		// What is a mistake is told; the exit code is that of all files.
		_ = c.diagnose(f.Diagnostics)
		all = append(all, f)
		codes = append(codes, f.code)
	}
	worst := plan.ExitOK
	for _, code := range []int{plan.ExitDrift, plan.ExitError, plan.ExitBadProfile} {
		if slices.Contains(codes, code) {
			worst = code
		}
	}
	return ended(worst, c.result(
		func(w io.Writer, s report.Style) error { return writeFormatted(w, s, all) },
		func(w io.Writer) error {
			return writeJSON(w, struct {
				FormatVersion string      `json:"format_version"`
				Files         []formatted `json:"files"`
			}{report.FormatVersion, all})
		},
	))
}

// writeFormatted names the files that were not in their layout; of standard input it is the layout.
func writeFormatted(w io.Writer, s report.Style, all []formatted) error {
	for _, f := range all {
		text := f.Text
		if text == "" && !s.Quiet && (f.Changed || f.code == plan.ExitDrift) {
			text = report.Printable(f.File, "") + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// formatFile brings one file into its layout.
func (c *console) formatFile(name string, check bool) formatted {
	f := formatted{File: name}
	failed := func(err error) formatted {
		f.code, f.Error = plan.ExitError, err.Error()
		return f
	}
	src, err := c.readProfile(name)
	if err != nil {
		return failed(err)
	}
	text, diags := profiles.Format(name, src)
	f.Diagnostics = diags
	same, piped := bytes.Equal(src, text), stdin.MatchString(name)
	switch {
	case diags.HasErrors():
		f.code = plan.ExitBadProfile
		return f
	case check && !same:
		f.code = plan.ExitDrift
		return f
	case check || same && !piped:
	case piped:
		f.Text = string(text)
	default:
		if err := c.writeOutput(name, text); err != nil {
			return failed(err)
		}
	}
	f.Formatted, f.Changed = true, !same
	return f
}

func (c *console) readProfile(name string) ([]byte, error) {
	r, err := c.openInput(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	src, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err == nil && len(src) > maxProfile {
		err = errors.New("larger than 10 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return src, nil
}
