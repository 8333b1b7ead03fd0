package plan

import (
	"errors"
	"fmt"
	"strings"

	"busbar/internal/cmdline"
	"busbar/internal/grub"
	"busbar/internal/nextboot"
	"busbar/node"
)

// UpdateGRUB makes the generated boot entries follow from GRUB's defaults: it runs
// update-grub, and every entry of this root but recovery ones must then give the
// wanted arguments by the kernel's own rule for each. Entries that are older than
// busbar's part of the defaults are made anew whatever they hold.
type UpdateGRUB struct {
	// Want are arguments, KEY or KEY=VALUE, that must be in force.
	Want []string `json:"want"`
	// Absent are arguments that must not be there.
	Absent []string `json:"absent,omitempty"`
}

// Kind is "update-grub".
func (UpdateGRUB) Kind() string { return "update-grub" }

// Queries asks for the boot configuration.
func (UpdateGRUB) Queries() []node.Query { return []node.Query{node.Boot.Query("")} }

// Done judges every entry.
func (a UpdateGRUB) Done(f node.Facts) (bool, string, error) {
	v := node.Boot.Get(f, "")
	boot, ok := v.Get()
	if !ok {
		return false, "", errors.New(v.Reason())
	}
	state, err := nextboot.Read(boot)
	if err != nil {
		return false, "", err
	}
	for _, line := range state.Lines {
		for _, arg := range cmdline.Parse(strings.Join(a.Want, " ")) {
			if ok, _ := cmdline.Satisfied(line.Args, arg.Key, arg.Value); !ok {
				return false, fmt.Sprintf("%s is not in force in %q (%s)", arg.Text, line.Title, line.Source), nil
			}
		}
		for _, arg := range cmdline.Parse(strings.Join(a.Absent, " ")) {
			if !cmdline.Absent(line.Args, arg.Key, arg.Value) {
				return false, fmt.Sprintf("%s is in %q (%s)", arg.Text, line.Title, line.Source), nil
			}
		}
	}
	if boot.Outdated {
		return false, "older than " + grub.FragmentFile, nil
	}
	return true, "as wanted in every entry", nil
}

// Project regenerates the entries in facts.
func (a UpdateGRUB) Project(f node.Facts) node.Facts {
	v := node.Boot.Get(f, "")
	boot, ok := v.Get()
	if !ok {
		return f
	}
	boot, err := nextboot.Regenerate(boot)
	if err != nil {
		return f
	}
	return f.With(node.Boot.Answer("", node.Known(boot, v.Source())))
}
