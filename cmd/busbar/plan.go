package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"busbar/node"
	"busbar/plan"
	"busbar/probe"
	"busbar/profiles"
	"busbar/report"
)

func newPlan(c *console) *cobra.Command {
	var j judging
	return j.command(c, "plan", "Judge a node and say what apply would do",
		`Judge a node against a profile, and say what apply would do. Nothing is changed
and nothing is opened for writing.`, report.WritePlan)
}

func newVerify(c *console) *cobra.Command {
	var j judging
	cmd := j.command(c, "verify", "Judge a node",
		`Judge a node against a profile. Nothing is changed and nothing is opened for
writing.

--probe runs the proofs of the profile, too, which are skipped else: it copies between
all pairs of GPUs, as busbar probe p2p does. Where a process uses GPUs, or that cannot be
seen, nothing is copied without --force, and what a proof is about is unknown (8).`, report.WriteVerify)
	cmd.Flags().BoolVar(&j.probe, "probe", false, "run the proofs of the profile")
	cmd.Flags().BoolVar(&j.force, "force", false, "run them although the GPUs are in use, or nobody knows")
	return cmd
}

// judging are the flags of plan and verify.
type judging struct {
	target
	probe, force bool // of verify
}

// check refuses flags that make no sense together.
func (j *judging) check() error {
	switch {
	case j.force && !j.probe:
		return errors.New("--force is about --probe, which is missing")
	case j.probe && (len(j.nodes) > 0 || j.root != "/"):
		return errors.New("--probe is about this machine, and not about one of --node or --root")
	default:
		return nil
	}
}

const chooseHelp = `

Without PROFILE it is /etc/busbar/node.hcl; where that is absent, or with --node,
the stock profile that matches the node, else baseline.

Exit codes: 0 as wanted, 2 not as wanted, 3 a reboot is owed and nothing else,
8 something that matters could not be read, 64 usage, 78 invalid profile.`

func (j *judging) command(c *console, name, short, long string, view func(io.Writer, report.Document, report.Style) error) *cobra.Command {
	t := &j.target
	cmd := &cobra.Command{
		Use: name + " [PROFILE]", Short: short, Long: long + chooseHelp,
		Example:           "  busbar " + name + "\n  busbar " + name + " hgx-h100-roce --json\n  busbar " + name + " --node example:hgx-h100-drifted",
		Args:              takes(0, 1, "PROFILE"),
		ValidArgsFunction: t.completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := j.check(); err != nil {
				return err
			}
			if slices.ContainsFunc(t.nodes, c.holdsMany) {
				return c.judgeFleet(name, j, args)
			}
			if len(t.nodes) > 0 {
				return c.judgeRecordings(cmd.Context(), name, j, args, view)
			}
			reader, err := t.reader(c)
			if err != nil {
				return err
			}
			ctx, planner := cmd.Context(), newPlanner()
			if j.probe {
				var cancel context.CancelFunc
				ctx, cancel = probing(ctx, probeTimeout)
				defer cancel()
				planner = planner.Proving()
				reader = probe.Reader{Reader: reader, Options: probe.Options{Force: j.force, Observer: report.NewProgress(c.err, c.style(c.err))}}
			}
			code, err := c.judgeOne(ctx, name, j, args, planner, reader, "", view, report.WriteJSON)
			return ended(code, err)
		},
	}
	t.addFlags(cmd, true)
	return cmd
}

func (t *target) completeProfiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.loader().Names(), cobra.ShellCompDirectiveDefault
}

// ended is how a command ends with a code.
func ended(code int, err error) error {
	if err != nil || code == plan.ExitOK {
		return err
	}
	return &exit{code: code}
}

// judgeRecordings judges one recording after the other; the worst exit code is the command's.
func (c *console) judgeRecordings(ctx context.Context, name string, t *judging, args []string, view func(io.Writer, report.Document, report.Style) error) error {
	asJSON := report.WriteJSON
	if c.lines = len(t.nodes) > 1; c.lines {
		asJSON = report.WriteJSONLine
	}
	codes := []int{}
	for i, file := range t.nodes {
		if i > 0 && !c.json {
			fmt.Fprintln(c.out)
		}
		c.resulted, c.diags = false, nil // of this one
		reader, err := c.recording(file)
		if err != nil {
			if len(t.nodes) == 1 {
				return &exit{plan.ExitError, err}
			}
			c.tell("%v", err)
			c.fail(name, &exit{plan.ExitError, err})
			codes = append(codes, plan.ExitError)
			continue
		}
		code, err := c.judgeOne(ctx, name, t, args, newPlanner(), reader, file, view, asJSON)
		if _, ok := errors.AsType[*profiles.ChoiceError](err); ok && c.lines { // of this node: others may have one
			end, _ := errors.AsType[*exit](err)
			c.tell("%s: %v", file, end.err)
			c.fail(name, end)
			code, err = end.code, nil
		}
		if err != nil {
			return err
		}
		codes = append(codes, code)
	}
	return ended(report.WorstCode(codes), nil)
}

// judgeOne judges a node and shows the result.
func (c *console) judgeOne(ctx context.Context, name string, t *judging, args []string, planner *plan.Planner, reader node.Reader, recorded string,
	view func(io.Writer, report.Document, report.Style) error, asJSON func(io.Writer, report.Document) error,
) (int, error) {
	inv := reader.Inventory(ctx)
	p, err := t.choose(c, args, inv, recorded == "")
	if err != nil {
		return 0, err
	}
	isProof := func(b plan.Block) bool { return planner.TypeOf(b).Spec().Proof }
	if t.probe && !slices.ContainsFunc(p.profile.StaticBlocks(), isProof) {
		return 0, &exit{plan.ExitUsage, fmt.Errorf("--probe: profile %s has no proof to run", p.view.Name)}
	}
	planned, err := judge(ctx, c, planner, p.profile, reader, inv)
	if err != nil {
		return 0, err
	}
	doc := report.NewDocument(name, t.nodeOf(planned.Facts, recorded), p.view, planned.Plan)
	err = c.result(
		func(w io.Writer, s report.Style) error { return view(w, doc, s) },
		func(w io.Writer) error { return asJSON(w, doc) },
	)
	return doc.ExitCode, err
}
