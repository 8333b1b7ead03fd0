package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"busbar/internal/atomicfile"
	"busbar/plan"
	"busbar/profiles"
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
		Args:    cobra.MinimumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"hcl"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(_ *cobra.Command, files []string) error {
			codes := []int{}
			for _, name := range files {
				code, err := c.formatFile(name, check)
				if err != nil {
					fmt.Fprintf(c.err, "busbar: %v\n", err)
				}
				codes = append(codes, code)
			}
			for _, code := range []int{plan.ExitBadProfile, plan.ExitError, plan.ExitDrift} {
				if slices.Contains(codes, code) {
					return &exit{code: code}
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; the exit code is 2 when a FILE is not in its usual layout")
	return cmd
}

// formatFile brings one file into its layout and returns the exit code that it calls for.
func (c *console) formatFile(name string, check bool) (int, error) {
	src, err := c.readProfile(name)
	if err != nil {
		return plan.ExitError, err
	}
	formatted, diags := profiles.Format(name, src)
	if c.diagnose(diags) != nil {
		return plan.ExitBadProfile, nil
	}
	same := bytes.Equal(src, formatted)
	if name == "-" && !check {
		if _, err := c.out.Write(formatted); err != nil {
			return plan.ExitError, err
		}
		return plan.ExitOK, nil
	}
	if same {
		return plan.ExitOK, nil
	}
	code := plan.ExitOK
	if check {
		code = plan.ExitDrift
	} else if err := replace(name, formatted); err != nil {
		return plan.ExitError, err
	}
	if !c.quiet {
		fmt.Fprintln(c.out, name)
	}
	return code, nil
}

func (c *console) readProfile(name string) ([]byte, error) {
	r := c.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	src, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err == nil && len(src) > maxProfile {
		err = errors.New("larger than 10 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return src, nil
}

func replace(name string, text []byte) error {
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	_, err = atomicfile.Write("/", path, text)
	return err
}
