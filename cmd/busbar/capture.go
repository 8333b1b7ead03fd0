package main

import (
	"bytes"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"busbar/internal/atomicfile"
	"busbar/node"
	"busbar/plan"
	"busbar/profiles"
	"busbar/report"
)

func newCapture(c *console) *cobra.Command {
	var t target
	var raw bool
	var output string
	cmd := &cobra.Command{
		Use:   "capture [PROFILE]",
		Short: "Record this node, to be planned elsewhere",
		Long: `Record this node: its inventory, and what busbar topo and the profiles that come with
busbar and PROFILE ask for. busbar plan --node judges the recording.

A recording holds host names, addresses and the text of configuration files as they
are; --raw says that you know it.`,
		Example:           "  busbar capture --raw -o node.json\n  busbar plan --node node.json",
		Args:              takes(0, 1, "PROFILE"),
		ValidArgsFunction: t.completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !raw {
				return errors.New("say --raw: the recording holds host names, addresses and configuration files as they are")
			}
			facts, err := t.record(cmd, c, args)
			if err != nil {
				return err
			}
			return c.writeRecording(facts, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&t.root, "root", "/", "record the system whose root file system lies in `DIR`, which does not run")
	flags.StringArrayVar(&t.assignments, "var", nil, "set a profile's variable, `NAME=EXPR`")
	flags.BoolVar(&raw, "raw", false, "replace nothing")
	flags.StringVarP(&output, "output", "o", "-", "write to `FILE`, - for standard output")
	return cmd
}

// record reads what the topology, all stock profiles and the named one ask for.
func (t *target) record(cmd *cobra.Command, c *console, args []string) (node.Facts, error) {
	reader, err := t.reader(c)
	if err != nil {
		return node.Facts{}, err
	}
	inv := reader.Inventory(cmd.Context())
	l := t.loader()
	var all []*profiles.Profile
	stock := profiles.Loader{Types: types(), Dirs: []profiles.Dir{profiles.Stock()}}
	for _, name := range stock.Names() {
		p, diags := stock.Load(name)
		if err := c.diagnose(diags); err != nil {
			return node.Facts{}, err
		}
		all = append(all, p)
	}
	if len(args) > 0 {
		p, _, diags := t.named(c, l, args[0])
		if err := c.diagnose(diags); err != nil {
			return node.Facts{}, err
		}
		all = append(all, p)
	}
	planner, seen := newPlanner(), profiles.NodeOf(inv)
	queries := report.TopologyQueries(inv)
	for _, p := range all {
		evaluation, diags := p.EvaluateNode(seen)
		if err := c.diagnose(diags); err != nil {
			return node.Facts{}, err
		}
		queries = append(queries, planner.Queries(evaluation.Blocks, inv)...)
	}
	slices.SortFunc(queries, node.CompareQueries)
	return reader.Read(cmd.Context(), inv, slices.Compact(queries)), nil
}

// writeRecording writes to a file, besides to that of --json-into; only its owner may read it.
func (c *console) writeRecording(facts node.Facts, output string) error {
	var text bytes.Buffer
	if err := node.WriteRecording(&text, facts); err != nil {
		return &exit{plan.ExitError, err}
	}
	c.resulted = true
	if c.jsonInto != "" {
		c.into.Write(text.Bytes())
	}
	if err := c.writeOutput(output, text.Bytes(), atomicfile.Mode(0o600)); err != nil {
		return &exit{plan.ExitError, err}
	}
	return nil
}
