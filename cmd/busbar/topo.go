package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"busbar/node"
	"busbar/plan"
	"busbar/report"
)

func newTopo(c *console) *cobra.Command {
	t := target{root: "/"}
	var svg bool
	cmd := &cobra.Command{
		Use:   "topo",
		Short: "Show how near GPUs and NICs are to each other",
		Long: `Show how near GPUs and NICs are to each other on the PCI bus: the matrix that
nvidia-smi topo -m prints, and what the NICs and their links are. NVLinks are what
the driver says; the rest needs none. What a virtual machine sees of the bus is its
hypervisor's choice, and shown as unknown.

With --svg it is a drawing of NUMA nodes, root ports, switches, GPUs and NICs.`,
		Example: "  busbar topo\n  busbar topo --node example:hgx-h100 --svg > topo.svg",
		Args:    takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if svg && (c.json || len(t.nodes) > 1) {
				return errors.New("--svg is a drawing of one node, and no JSON")
			}
			return c.topo(cmd.Context(), &t, svg)
		},
	}
	t.addNodeFlag(cmd, "show", "")
	cmd.Flags().BoolVar(&svg, "svg", false, "write a drawing, SVG")
	return cmd
}

// topo shows this machine, or one recording after the other.
func (c *console) topo(ctx context.Context, t *target, svg bool) error {
	if len(t.nodes) == 0 {
		reader, err := t.reader(c)
		if err != nil {
			return err
		}
		return c.topoOne(ctx, t, reader, "", svg)
	}
	c.lines = len(t.nodes) > 1
	code := plan.ExitOK
	for i, file := range t.nodes {
		if i > 0 && !c.json {
			fmt.Fprintln(c.out)
		}
		c.resulted = false // of this one
		reader, err := c.recording(file)
		if err != nil {
			if !c.lines {
				return &exit{plan.ExitError, err}
			}
			c.tell("%v", err)
			code = plan.ExitError
			c.fail("topo", &exit{plan.ExitError, err})
			continue
		}
		if err := c.topoOne(ctx, t, reader, file, svg); err != nil {
			return err
		}
	}
	return ended(code, nil)
}

// topoOne shows a node.
func (c *console) topoOne(ctx context.Context, t *target, reader node.Reader, recorded string, svg bool) error {
	inv := reader.Inventory(ctx)
	facts := reader.Read(ctx, inv, report.TopologyQueries(inv))
	topology := report.NewTopology(t.nodeOf(facts, recorded), facts)
	text, asJSON := report.WriteTopology, report.WriteTopologyJSON
	if svg {
		text = func(w io.Writer, t report.Topology, _ report.Style) error { return report.WriteTopologySVG(w, t) }
	}
	if c.lines {
		asJSON = report.WriteTopologyJSONLine
	}
	return c.result(
		func(w io.Writer, s report.Style) error { return text(w, topology, s) },
		func(w io.Writer) error { return asJSON(w, topology) },
	)
}
