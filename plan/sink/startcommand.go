package sink

import (
	"fmt"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/unitfile"
	"busbar/node"
	"busbar/plan"
)

// ExecStartPost is the item of a command that systemd runs behind each start of a unit (systemd.service(5)).
const ExecStartPost = "ExecStartPost"

const startCommandID = "unit.start_command"

// startCommand judges a command of a unit, and says whether busbar's drop-in has to have it.
func startCommand(unit string, c plan.Contribution, file owned, unitFiles, own []confdir.File) (f plan.Finding, needed bool) {
	among := func(dropIn string) (unitfile.Command, bool) {
		files := insertDropIn(file.foreign(unitFiles), confdir.File{Path: file.path, Text: dropIn})
		commands := unitfile.Commands(files, ExecStartPost)
		i := slices.IndexFunc(commands, func(have unitfile.Command) bool { return unitfile.Same(have.Line, c.Value) })
		if i < 0 {
			return unitfile.Command{}, false
		}
		return commands[i], true
	}
	f = plan.Finding{
		ID: startCommandID, Address: c.Address, Target: c.Key, Effect: plan.Live, Status: plan.OK, Want: c.Value, Found: "absent",
		Source: node.Source{Path: unitDir + "/" + unit + ".d"}, Summary: fmt.Sprintf("%s runs %q after it starts", unit, c.Value),
	}
	at, found := among(file.text(own))
	if found {
		f.Found, f.Source = at.Line, node.Source{Path: at.File, Line: at.Number}
	}
	_, byOthers := among("")
	_, after := among(withCommands("", []string{c.Value}))
	switch {
	case byOthers:
		return f, false
	case !after:
		f.Status = plan.Conflict
		f.Summary = fmt.Sprintf("%s is to run %q after it starts (%s), and a drop-in that is read after %s takes all such commands back", unit, c.Value, c.Origin, dropInName)
		f.Fix = "take the empty ExecStartPost= out of that drop-in if its owner agrees (systemctl cat " + unit + ")"
		return f, false
	case !found:
		f.Status, f.Fixable = plan.Drift, true
		f.Summary = fmt.Sprintf("%s does not run %q after it starts", unit, c.Value)
	}
	return f, true
}

// startCommands are those that files give.
func startCommands(files []confdir.File) []string {
	var lines []string
	for _, c := range unitfile.Commands(files, ExecStartPost) {
		lines = append(lines, c.Line)
	}
	return lines
}

// withCommands adds commands to the text of a drop-in, whose last section is Service; empty is no drop-in.
func withCommands(text string, commands []string) string {
	if len(commands) == 0 {
		return text
	}
	if text == "" {
		text = "# Written by busbar. It owns this file: edits are lost.\n[Service]\n"
	}
	var b strings.Builder
	b.WriteString(text)
	for _, c := range commands {
		fmt.Fprintf(&b, "%s=%s\n", ExecStartPost, c)
	}
	return b.String()
}
