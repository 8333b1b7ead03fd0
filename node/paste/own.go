package paste

import "strings"

// What busbar writes itself, as it writes it: a recording (node.WriteRecording) and the JSON of a command (report), indented or one to a line.
var (
	ownBegin     = expression(`^\{\s*"format_version": ?"\d+\.\d+",`)
	ownRecording = expression(`^\{\s*"format_version": ?"[\d.]+",\s*"(?:observed_at|inventory)": ?["{]`)
	ownCommand   = expression(`^\{\s*"format_version": ?"[\d.]+",\s*"command": ?"[a-z][a-z0-9 -]+",`)
)

// ownHead is how many lines of such a text tell which it is.
const ownHead = 4

// ownText counts the lines of what busbar wrote, if its beginning has a sign.
func ownText(p piece, sign *pattern) match {
	if !strings.HasPrefix(p.lines[0], "{") {
		return match{}
	}
	head := strings.Join(p.lines[:min(ownHead, len(p.lines))], "\n")
	head = head[:min(probed, len(head))]
	if !ownBegin.MatchString(head) {
		return match{}
	}
	m := match{lines: 1, signs: 1 + one(sign.MatchString(head))}
	if p.lines[0] != "{" {
		return m
	}
	for i, line := range p.lines {
		m.lines = i + 1
		if line == "}" {
			break
		}
	}
	return m
}

var recordingKind = kind{
	name:   "recording of busbar",
	scan:   func(p piece) match { return ownText(p, ownRecording) },
	unread: "busbar plan --node FILE judges it, busbar topo --node FILE shows it",
}

var reportKind = kind{
	name:   "JSON of busbar",
	scan:   func(p piece) match { return ownText(p, ownCommand) },
	unread: "it says what busbar found already; busbar plan --node FILE judges a recording of the node (busbar capture)",
}
