package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/agext/levenshtein"
	"github.com/spf13/cobra"

	"busbar/explain"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/install"
	"busbar/plan/sink"
	"busbar/profiles"
	"busbar/report"
)

// layersTopic is what explain is asked about layers.
const layersTopic = "layers"

func catalog() explain.Catalog {
	return explain.New(types(), sink.All(), plan.Explanations(), profiles.Explanations(), install.Explanations(), sink.Explanations())
}

func newExplain(c *console) *cobra.Command {
	t := target{}
	var profile string
	cmd := &cobra.Command{
		Use:   "explain [ID | ADDRESS | " + layersTopic + "]",
		Short: "Explain a finding",
		Long: `Explain a kind of finding by its ID, pcie_acs.redirect: what it means, why it matters, how it
is read, how it is put right, what that risks, and who says so. With --node it shows the
findings of that kind on the node of the recording, too, and the facts that each rests on.

An ADDRESS of plan, check.gpus.all, is explained by what is found there on this machine;
with --node on that of a recording: the findings, and the facts that each rests on.

"busbar explain ` + layersTopic + `" says which layer a job needs and where to look first.
Without an argument the kinds of findings are listed.`,
		Example: "  busbar explain pcie_acs.redirect\n  busbar explain check.nvlink.all --node node.json\n  busbar explain check.nvlink.all --node example:hgx-h100-drifted\n  busbar explain " + layersTopic,
		Args:    takes(0, 1, "ID or ADDRESS"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			all := []string{layersTopic + "\twhich layer a job needs"}
			for _, e := range catalog().All() {
				all = append(all, e.ID+"\t"+e.Title)
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.explain(cmd.Context(), &t, profile, args) },
	}
	t.addRoot(cmd)
	t.addNodeFlag(cmd, "explain", "")
	cmd.Flags().StringVar(&profile, "profile", "", "judge against profile `NAME`, not the one that fits")
	_ = cmd.RegisterFlagCompletionFunc("profile", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return t.loader().Names(), cobra.ShellCompDirectiveDefault
	})
	return cmd
}

func (c *console) explain(ctx context.Context, t *target, profile string, args []string) error {
	texts := catalog()
	d := report.ExplanationDocument{FormatVersion: report.FormatVersion, Command: "explain", Explanations: []plan.Explanation{}}
	view := report.WriteExplanations
	switch {
	case len(t.nodes) > 1:
		return errors.New("explain looks at one node")
	case len(args) == 0:
		d.Explanations, view = texts.All(), report.WriteExplanationList
	case args[0] == layersTopic:
		return c.result(
			func(w io.Writer, _ report.Style) error { _, err := io.WriteString(w, explain.Layers); return err },
			func(w io.Writer) error {
				return writeJSON(w, map[string]any{"format_version": report.FormatVersion, "command": "explain", "topic": layersTopic, "text": explain.Layers, "exit_code": plan.ExitOK})
			},
		)
	default:
		e, known := texts.Of(args[0])
		if known {
			d.Explanations = append(d.Explanations, e)
		}
		if !known || len(t.nodes) > 0 {
			if err := c.explainFindings(ctx, t, profile, args[0], known, texts, &d); err != nil {
				return err
			}
		}
	}
	return c.result(
		func(w io.Writer, s report.Style) error { return view(w, d, s) },
		func(w io.Writer) error { return report.WriteExplanationsJSON(w, d) },
	)
}

// explainFindings judges the node and adds its findings with an id, or else at an address, and what explains them.
func (c *console) explainFindings(ctx context.Context, t *target, profile, name string, isID bool, texts explain.Catalog, d *report.ExplanationDocument) error {
	var reader node.Reader
	var err error
	if len(t.nodes) > 0 {
		d.Recording = t.nodes[0]
		reader, err = c.recording(d.Recording)
	} else {
		reader, err = t.reader(c)
	}
	if err != nil {
		return asExit(err)
	}
	var named []string
	if profile != "" {
		named = []string{profile}
	}
	inv := reader.Inventory(ctx)
	p, err := t.choose(c, named, inv, len(t.nodes) == 0)
	if err != nil {
		return err
	}
	planner := newPlanner()
	evaluation, diags := p.profile.Evaluate(inv)
	if err := c.diagnose(diags); err != nil {
		return err
	}
	facts := reader.Read(ctx, inv, planner.Queries(evaluation.Blocks, inv))
	planned := planner.Plan(evaluation.Blocks, facts, evaluation.Findings...)
	d.Findings = []report.ExplainedFinding{}
	addresses := []string{}
	for _, f := range planned.Findings {
		addresses = append(addresses, f.Address)
		if (isID && f.ID != name) || (!isID && f.Address != name) {
			continue
		}
		var own, others []node.Query
		if i := slices.IndexFunc(evaluation.Blocks, func(b plan.Block) bool { return b.Address == f.Address }); i >= 0 {
			b := evaluation.Blocks[i]
			own, others = planner.TypeOf(b).Queries(b, inv), planner.Queries([]plan.Block{b}, inv)
		}
		d.Findings = append(d.Findings, report.ExplainedFinding{Finding: f, Evidence: explain.EvidenceOf(f, own, others, facts)})
		e, ok := texts.Of(f.ID)
		if ok && !slices.ContainsFunc(d.Explanations, func(have plan.Explanation) bool { return have.ID == e.ID }) {
			d.Explanations = append(d.Explanations, e)
		}
	}
	if !isID && len(d.Findings) == 0 {
		return &exit{plan.ExitUsage, unknownName(name, texts, addresses)}
	}
	return nil
}

// asExit is an error that is no mistake in usage.
func asExit(err error) error {
	if _, ok := errors.AsType[*exit](err); ok {
		return err
	}
	return &exit{plan.ExitError, err}
}

// unknownName says what may have been meant.
func unknownName(name string, texts explain.Catalog, addresses []string) error {
	candidates := slices.Clone(addresses)
	for _, e := range texts.All() {
		candidates = append(candidates, e.ID)
	}
	nearest, least := "", 4
	for _, candidate := range candidates {
		if distance := levenshtein.Distance(name, candidate, nil); distance < least {
			nearest, least = candidate, distance
		}
	}
	hint := "busbar explain lists the ids, busbar plan shows the addresses; those of another node --node FILE looks for in its recording"
	if nearest != "" {
		hint = fmt.Sprintf("did you mean %s?", nearest)
	}
	return fmt.Errorf("%q is no kind of finding, and no address at which something was found: %s", name, hint)
}
