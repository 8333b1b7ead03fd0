// Package paste makes Facts of text that people paste: what tools print (nvidia-smi topo -m, lspci -vvv, mlnx_qos), files of a
// node (nccl.conf, /proc/modules, GRUB's defaults) and logs, also several of them in one text. A kind of text is recognised by
// its content; where a piece stood on the node, if somebody said, tells which of its files it is. Several texts are of one
// node, and what none of them says stays unknown. The package does no I/O but from the readers that it is given.
package paste

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"busbar/node"
)

// Input is a piece of text as it was recognised.
type Input struct {
	// File as whoever gave it calls it.
	File string `json:"file"`
	// Kind is what it was recognised as, "nvidia-smi topo -m"; empty for what is not known.
	Kind string `json:"kind,omitempty"`
	// Line is its first line in File, from 1, and Lines how many it has.
	Line  int `json:"line,omitempty"`
	Lines int `json:"lines"`
	// Unread is why nothing was taken from it; empty where something was.
	Unread string `json:"unread,omitempty"`
	// Doubt is why what it does not show may be wrong all the same: it is cut off, or was printed without it.
	Doubt string `json:"doubt,omitempty"`
}

// The bounds of what is kept. A log may be longer: its lines are read as they come, and none of them is kept.
const (
	// maxLine is how many bytes of a line are kept.
	maxLine = 64 << 10
	// maxKept is how many bytes of lines are kept of all texts, each line counted with lineCost more, and each input with inputCost.
	maxKept   = 48 << 20
	lineCost  = 32
	inputCost = 256
	// window is how much of a text is looked at together, as long as no section of it is longer.
	window = 4 << 20
	// probed is how much of a text is looked at to tell whether it is one.
	probed = 8 << 10
)

// Paste collects texts about one node. The zero Paste has none.
type Paste struct {
	inputs []Input
	draft  draft
	kept   int
}

// Add reads a text, in UTF-8 or as Windows writes UTF-16, also one that gzip, zstd or bzip2 compressed. file is what it is called in inputs and
// sources, path where it stood on the node ("/etc/nccl.conf"),
// empty where nobody said. An error is one of the reader.
func (p *Paste) Add(file, path string, r io.Reader) error {
	buffered := bufio.NewReaderSize(r, probed)
	head, err := buffered.Peek(probed)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	packed, buffered, head := unpack(buffered, head)
	defer packed.done()
	path = orFirst(path, Placed(file))
	if packed != nil {
		path = unpackedName(path)
	}
	if kind := archive(head); kind != "" {
		p.input(Input{File: file, Unread: "it is a " + kind + " archive: unpack it and give the directory"})
		return nil
	}
	buffered, head = utf8Text(buffered, head)
	switch {
	case len(head) == 0 && packed.why() != "":
		p.input(Input{File: file, Unread: packed.why()})
		return nil
	case len(head) == 0 && !mayBeEmpty(path):
		p.input(Input{File: file, Unread: "it is empty"})
		return nil
	case binary(head):
		p.input(Input{File: file, Unread: "it is no text"})
		return nil
	}
	t := newText(file, path, func() bool { return packed.why() != "" })
	for !t.ended {
		if err := t.fill(buffered, maxKept-p.kept); err != nil {
			return err
		}
		t.split(p)
	}
	if t.leftOut > 0 {
		p.input(Input{File: file, Line: t.count + 1, Lines: t.leftOut, Unread: fmt.Sprintf("busbar keeps %d MiB of text", maxKept>>20)})
	}
	if why := packed.why(); why != "" {
		p.input(Input{File: file, Line: t.count + t.leftOut + 1, Doubt: why})
	}
	return nil
}

// readLine is the next line without its end, cut at maxLine, and whether it has one; nil with io.EOF after the last.
func readLine(r *bufio.Reader) (line []byte, ended bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if room := maxLine - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(line) == 0:
			return nil, false, err
		case err != nil:
			return line, false, nil // the error, if it is another one than the end, comes again
		default:
			return bytes.TrimSuffix(line, []byte("\n")), true, nil
		}
	}
}

// mayBeEmpty reports a file that says something by being there.
func mayBeEmpty(path string) bool { return path != "" }

// binary reports bytes that are no text: NUL, or many that are no UTF-8. Text that was cut off may end in the middle of a character.
func binary(head []byte) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	bad := 0
	for rest := head; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			bad++
		}
		rest = rest[size:]
	}
	return bad > 8 && bad*10 > len(head)
}

// Unreadable adds an input of which nothing could be read, and why.
func (p *Paste) Unreadable(file string, err error) {
	p.inputs = append(p.inputs, Input{File: file, Unread: err.Error()})
}

// Inputs are the pieces of all texts, in the order in which they were given.
func (p *Paste) Inputs() []Input { return slices.Clone(p.inputs) }

// Reader answers what the texts say. Text that is added later is not in it.
func (p *Paste) Reader() node.Reader { return reader{p.draft.facts()} }

// reader answers from facts and says of the rest that nobody gave it.
type reader struct{ facts node.Facts }

// Inventory is what the texts say of it.
func (r reader) Inventory(context.Context) node.Inventory { return r.facts.Inventory }

// Read answers from the texts.
func (r reader) Read(context.Context, node.Inventory, []node.Query) node.Facts { return r.facts }

// notGiven is why something is unknown.
const notGiven = "no text that was given says it"

// source is where a piece says something, at a line of it from 0; -1 is the piece as a whole.
func (s section) source(line int) node.Source {
	src := node.Source{Path: s.file}
	if line >= 0 {
		src.Line = s.first + line
	}
	return src
}

var noTime time.Time
