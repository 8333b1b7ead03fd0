package paste

import (
	"slices"
	"strings"

	"busbar/internal/nccltests"
)

// Lines of all_reduce_perf and its siblings (nccl-tests): what they begin with and end with, and a row of the table.
var (
	perfWords = expression(`^ *# *(?:nccl-tests version \d|Collective test (?:starting|concluded): |nThreads?:? \d+ nGpus:? \d+ |Using devices$|Rank +\d+ (?:Group +\d+ )?Pid +\d+ on |size +count +type |Out of bounds values : |Avg bus bandwidth +: )`)
	perfRow   = expression(`^ *\d+ +\d+ +[a-z]\w*(?: +[a-z]\w*)?(?: +-?\d+)? +[\d.]+ +[\d.]+ +[\d.]+ +\S+`)
	perfEnds  = expression(`^ *Test (?:NCCL |CUDA |MPI )?(?:failure|timeout)\b|: Test (?:NCCL |CUDA |MPI )?failure\b`)
)

// perfLine reports a line that says what a run is or measured.
func perfLine(line string) bool { return perfWords.MatchString(line) || perfRow.MatchString(line) }

var ncclTestsKind = kind{
	name: "NCCL tests",
	scan: func(p piece) match {
		if !perfLine(p.lines[0]) {
			return match{}
		}
		words, rows := 0, 0
		n := while(p.lines, func(line string) bool {
			said, row := perfWords.MatchString(line), perfRow.MatchString(line)
			words += one(said)
			rows += one(row)
			return said || row || strings.HasPrefix(strings.TrimLeft(line, " "), "#") || perfEnds.MatchString(line)
		})
		return match{n, one(words > 0) + one(words > 1) + one(rows > 0) + one(rows > 2)}
	},
	read: func(d *draft, s section) string {
		i := slices.IndexFunc(d.collectives, func(c collectives) bool { return c.file == s.file })
		if i < 0 {
			i = len(d.collectives)
			d.collectives = append(d.collectives, collectives{file: s.file, text: &strings.Builder{}})
		}
		d.collectives[i].text.WriteString(s.text())
		return ""
	},
}

// collectives are what programs of nccl-tests printed into a text, which may be in pieces.
type collectives struct {
	file string
	text *strings.Builder
}

// Collectives are the runs of nccl-tests that a text shows.
type Collectives struct {
	// File is the text, as whoever gave it calls it.
	File   string
	Result nccltests.Result
}

// Collectives are the runs of nccl-tests in all texts that have some, in the order in which they were given. They are measurements, and
// no facts about a node.
func (p *Paste) Collectives() []Collectives {
	var all []Collectives
	for _, c := range p.draft.collectives {
		if r, err := nccltests.Parse(c.text.String()); err == nil {
			all = append(all, Collectives{c.file, r})
		}
	}
	return all
}
