package paste

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"busbar/node"
)

// place is where the text of a node's file stands: in which of the texts that were given, and its first line there, from 1. assumed: that it is
// this file of the node is told by its content alone.
type place struct {
	file    string
	first   int
	assumed bool
}

// stands notes where the text of a node's file stands, and is its path on the node: where somebody said that it is, else assumed.
func (d *draft) stands(s section, assumed string) string {
	path := orFirst(s.path, assumed)
	if d.places == nil {
		d.places = map[string][]place{}
	}
	if at := (place{s.file, s.first, s.path == ""}); !slices.Contains(d.places[path], at) {
		d.places[path] = append(d.places[path], at)
	}
	return path
}

// Cite is where in the texts something stands that facts have from a file of the node: findings cite /etc/nccl.conf:3, and people look
// into what they gave. It is zero for a file of a kernel of which no text was given, since nobody read one, and the source
// itself for what is no file of a node, or stands in several texts.
func (p *Paste) Cite(s node.Source) node.Source {
	places := p.draft.places[s.Path]
	switch {
	case len(places) == 1:
		return places[0].at(s.Line)
	case len(places) == 0 && ofKernel(s.Path) && !slices.ContainsFunc(p.inputs, func(in Input) bool { return in.File == s.Path }):
		return node.Source{}
	default:
		return s
	}
}

// at is a line of the node's file, 0 for the whole.
func (p place) at(line int) node.Source {
	switch {
	case line > 0:
		line += p.first - 1
	case p.first > 1:
		line = p.first
	}
	return node.Source{Path: p.file, Line: line}
}

// ofKernel reports a path below which no file stands that somebody wrote.
func ofKernel(path string) bool {
	return strings.HasPrefix(path, "/sys/") || strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/")
}

// CiteIn is a sentence whose PATH:LINE of files of the node are those of the texts, and PATH too where only a text's content says that it
// is that file.
func (p *Paste) CiteIn(sentence string) string {
	for _, path := range slices.Sorted(maps.Keys(p.draft.places)) {
		places := p.draft.places[path]
		if len(places) != 1 || places[0].file == path && places[0].first == 1 {
			continue
		}
		var b strings.Builder
		for rest := sentence; ; {
			before, after, found := strings.Cut(rest, path)
			b.WriteString(before)
			if !found {
				break
			}
			rest = after
			n := 0
			if strings.HasPrefix(after, ":") {
				n = digits(after[1:])
			}
			line, err := strconv.Atoi(after[min(1, len(after)):][:n])
			switch {
			case err == nil:
				b.WriteString(places[0].at(line).String())
				rest = after[1+n:]
			case places[0].assumed && !longerPath.MatchString(after):
				b.WriteString(places[0].at(0).String())
			default:
				b.WriteString(path)
			}
		}
		sentence = b.String()
	}
	return sentence
}

// longerPath is what follows a path that is the beginning of another one.
var longerPath = expression(`^[.-]?[\w/]`)
