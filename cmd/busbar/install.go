package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"busbar/apply"
	"busbar/plan"
	"busbar/plan/install"
	"busbar/report"
	"busbar/systemd"
)

func newInstall(c *console) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "install [PROFILE]",
		Short: "Let this node's profile be enforced at each boot",
		Long: `Let this node's profile be enforced at each boot: write and enable the systemd
unit busbar.service, which runs busbar apply --boot before kubelet, containerd and
slurmd start, and bound how long systemd waits for a module that hangs at boot (80 s).

PROFILE, the name of a profile or a file, becomes /etc/busbar/node.hcl. Without it that
file must be there; one that says something else is left alone. Nothing else of the
node is changed: see busbar plan and busbar apply.

The unit starts this very program, with --root the tree's own, which must lie where
nobody but root can change it. A unit that came with a package is used as it is. Where
something is in the way, nothing is written.

Exit codes: 0 installed, 2 something is in the way and is named, 4 installed in part,
6 another run holds the lock, 1 an error, 64 usage, 77 needs root, 78 invalid profile.`,
		Example:           "  busbar install hgx-h100-roce\n  busbar install --root /mnt/image site.hcl",
		Args:              takes(0, 1, "PROFILE"),
		ValidArgsFunction: t.completeProfiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.install(cmd.Context(), &t, args) },
	}
	t.addRoot(cmd)
	return cmd
}

func newUninstall(c *console) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Undo busbar install",
		Long: `Undo busbar install: disable and remove busbar.service and its bound on loading
modules, and remove
/etc/busbar/node.hcl if install wrote it for the name of a profile and nobody has edited it
since. What apply has set stays set.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			unit, err := systemd.Service(usualProgram)
			if err != nil {
				return &exit{plan.ExitError, err}
			}
			if _, err := t.reader(c); err != nil {
				return err
			}
			return c.change(cmd.Context(), &t, "uninstall", install.Uninstall{UnitText: unit, ModulesLoadText: systemd.ModulesLoad, Untouched: untouched}, report.Profile{})
		},
	}
	t.addRoot(cmd)
	return cmd
}

// usualProgram is where people put the program.
const usualProgram = "/usr/local/bin/busbar"

func (c *console) install(ctx context.Context, t *target, args []string) error {
	reader, err := t.reader(c)
	if err != nil {
		return err
	}
	program, err := t.program()
	if err != nil {
		return &exit{plan.ExitError, err}
	}
	unit, err := systemd.Service(program)
	if err != nil {
		return &exit{plan.ExitError, err}
	}
	var name string
	if len(args) > 0 {
		name = args[0]
	} else if name, err = t.nodeProfile(); err != nil {
		return &exit{plan.ExitUsage, fmt.Errorf("which profile? None was named, and %w", err)}
	}
	// What the boot would refuse is refused now.
	inv := reader.Inventory(ctx)
	p, err := t.choose(c, []string{name}, inv, false)
	if err != nil {
		return err
	}
	if _, diags := p.profile.Evaluate(inv); diags.HasErrors() {
		return c.diagnose(diags)
	}
	wanted := install.Install{UnitText: unit, ModulesLoadText: systemd.ModulesLoad}
	switch {
	case len(args) > 0 && isFile(name):
		wanted.ProfileText = string(p.source)
	case len(args) > 0:
		wanted.ProfileText = extending(name)
	}
	return c.change(ctx, t, "install", wanted, p.view)
}

// program is the path of this program as the node below t.root has it.
func (t *target) program() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("where is this program? %w", err)
	}
	if t.root == "/" {
		return self, t.safe(self)
	}
	for _, name := range []string{self, usualProgram, "/usr/bin/busbar"} {
		file := filepath.Join(t.root, name)
		if info, err := os.Stat(t.inside(file)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return name, t.safe(file)
		}
	}
	return "", fmt.Errorf("%s has no busbar that its boot could start: copy this program to %s first", t.root, filepath.Join(t.root, usualProgram))
}

// safe refuses a program that others could change, which would run as root at each boot.
func (t *target) safe(program string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return t.writableByOthers([]string{program})
}

// generated begins a profile that install wrote for the name of another one.
const generated = "# This node's profile: what busbar plan, verify and apply use. Written by busbar install; edit it at will.\n"

// extending is the node's profile that is another one, by its name.
func extending(name string) string {
	return generated + "profile {\n  extends = [" + strconv.Quote(name) + "]\n}\n"
}

// untouched tells a profile that install wrote for a name and that nobody has edited.
func untouched(text string) bool {
	_, rest, _ := strings.Cut(text, "[\"")
	name, _, _ := strings.Cut(rest, "\"]")
	return text == extending(name)
}

// change brings a node into the state that t wants, and shows what was done.
func (c *console) change(ctx context.Context, t *target, command string, wanted plan.Type, profile report.Profile) error {
	reader, err := t.reader(c)
	if err != nil {
		return err
	}
	planner := plan.NewPlanner([]plan.Type{wanted}, nil)
	progress := report.NewProgress(c.err, c.style(c.err))
	result, err := apply.Run(endedBySignals(ctx, progress), apply.Options{
		Root: t.root, Reader: reader, Observer: progress,
		Plan: func(ctx context.Context) (apply.Planned, error) {
			inv := reader.Inventory(ctx)
			facts := reader.Read(ctx, inv, planner.Queries(install.Blocks(wanted), inv))
			return apply.Planned{Plan: planner.Plan(install.Blocks(wanted), facts), Facts: facts}, nil
		},
	})
	if err != nil {
		return &exit{result.ExitCode, err}
	}
	doc := report.NewDocument(command, t.nodeOf(result.Final.Facts, ""), profile, result.Final.Plan).WithRun(ran(result), result.ExitCode)
	return ended(doc.ExitCode, c.result(
		func(w io.Writer, s report.Style) error { return report.WriteRun(w, doc, s) },
		func(w io.Writer) error { return report.WriteJSON(w, doc) },
	))
}
