package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"busbar/node"
	"busbar/node/paste"
	"busbar/plan"
	"busbar/proofs"
	"busbar/report"
)

// diagnoseProfile is what pasted text is held to.
const diagnoseProfile = "diagnose"

func newDiagnose(c *console) *cobra.Command {
	t := target{root: "/"}
	profile := diagnoseProfile
	cmd := &cobra.Command{
		Use:   "diagnose FILE...",
		Short: "Say what is wrong in text that somebody pasted",
		Long: `Say what is wrong in text about a node that somebody pasted: what tools print
(nvidia-smi, lspci, mlnx_qos ...), files of the node (nccl.conf, /proc/modules,
GRUB's defaults ...) and logs. Each piece is recognised by its content, also several
in one text, with prompts, prefixes of loggers, colours or Markdown around them. FILE
is a file, also one that gzip, zstd or bzip2 compressed, - for standard input, or a
directory, which is read as a tree of the node's files. All of them are taken for one
node; what none of them says stays unknown.

Where a piece stood on the node is told by its place in a tree (etc/nccl.conf), by
'cat FILE' before it, or by head's and tail's '==> FILE <=='.

Nothing of this machine is read but the files that are named.

Exit codes: 0 nothing wrong in what was given, or warnings alone; 2 something is
wrong; 8 nothing could be judged, or not what the text is about; 1 a file could not be read; 64 usage; 78 invalid
profile.`,
		Example: "  busbar diagnose topo.txt nccl.conf\n  nvidia-smi topo -m | busbar diagnose -\n  busbar diagnose sosreport/ --json",
		Args:    takes(1, anyNumber, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := c.diagnoseText(cmd.Context(), &t, profile, args)
			return ended(code, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&profile, "profile", profile, "hold the text to `PROFILE`, a name or a file")
	flags.StringArrayVar(&t.assignments, "var", nil, "set a profile's variable, `NAME=EXPR`")
	return cmd
}

// diagnoseText judges what files say.
func (c *console) diagnoseText(ctx context.Context, t *target, profile string, files []string) (int, error) {
	var p paste.Paste
	for _, file := range files {
		if err := c.paste(&p, file); err != nil {
			return 0, &exit{plan.ExitError, fmt.Errorf("reading %s: %w", file, err)}
		}
	}
	reader := p.Reader()
	inv := reader.Inventory(ctx)
	chosen, err := t.choose(c, []string{profile}, inv, false)
	if err != nil {
		return 0, err
	}
	planned, err := judge(ctx, c, newPlanner(), chosen.profile, reader, inv)
	if functions, _ := inv.PCI.Get(); err != nil && profile == diagnoseProfile && len(functions) >= manyDevices {
		err = &exit{plan.ExitError, fmt.Errorf("what was given has %d devices and more, which is more than busbar judges as one node: give what one node printed", len(functions))}
	}
	if err != nil {
		return 0, err
	}
	findings := slices.Clone(planned.Plan.Findings)
	for i, f := range findings {
		findings[i].Source, findings[i].Summary, findings[i].Fix = p.Cite(f.Source), p.CiteIn(f.Summary), p.CiteIn(f.Fix)
	}
	for _, run := range p.Collectives() {
		for _, f := range proofs.JudgeCollectives(run.Result, proofs.WantedCollectives{Address: ncclTestsAddress}) {
			f.Source = node.Source{Path: run.File}
			findings = append(findings, f)
		}
	}
	d := report.NewDiagnosis(chosen.view, p.Inputs(), findings, files)
	err = c.result(
		func(w io.Writer, s report.Style) error { return report.WriteDiagnosis(w, d, s) },
		func(w io.Writer) error { return report.WriteDiagnosisJSON(w, d) },
	)
	return d.ExitCode, err
}

// manyDevices is from how many devices on the stock profile, which is valid, can fail only since its values become too large.
const manyDevices = 128

// The bounds of a tree.
const (
	maxTreeFiles = 10_000
	maxTreeDepth = 24
)

// paste adds a file, or the files of a tree. A file of a tree that cannot be read is an input of which nothing is known.
func (c *console) paste(p *paste.Paste, name string) error {
	info, err := os.Stat(name)
	if handedOver(name) || err != nil || !info.IsDir() {
		r, err := c.openInput(name)
		if err != nil {
			return err
		}
		defer r.Close()
		return p.Add(name, placed(name), r)
	}
	count := 0
	return filepath.WalkDir(name, func(file string, entry fs.DirEntry, err error) error {
		rest, _ := filepath.Rel(name, file)
		switch {
		case err != nil:
			p.Unreadable(file, err)
			return nil
		case entry.IsDir() && strings.Count(rest, "/") >= maxTreeDepth:
			p.Unreadable(file, fmt.Errorf("busbar goes %d directories deep", maxTreeDepth))
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case !entry.Type().IsRegular():
			p.Unreadable(file, errors.New("it is no regular file"))
			return nil
		}
		if count++; count > maxTreeFiles {
			p.Unreadable(file, fmt.Errorf("busbar reads %d files of a tree", maxTreeFiles))
			return fs.SkipAll
		}
		f, err := os.Open(file)
		if err != nil {
			p.Unreadable(file, err)
			return nil
		}
		defer f.Close()
		if err := p.Add(file, placed("/"+rest), f); err != nil {
			p.Unreadable(file, err)
		}
		return nil
	})
}

// placed is where a file stands on its node, as far as its name tells.
func placed(name string) string {
	if absolute, err := filepath.Abs(name); err == nil && !handedOver(name) {
		name = absolute
	}
	return paste.Placed(name)
}
