package profiles

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format puts the text of a profile in its normal layout: indentation, aligned equals
// signs, line feeds alone, no byte order mark, one line feed at the end. A text with a
// syntax error is refused, not reformatted. Formatting twice changes nothing.
func Format(filename string, src []byte) ([]byte, Diagnostics) {
	if _, problem := parse(filename, src); problem != nil {
		r := newReport()
		r.files[filename] = sourceFile{src: src}
		r.hcl(hcl.Diagnostics{problem}, "")
		return nil, r.diagnostics()
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	lines := bytes.Split(src, []byte("\n"))
	for i, line := range lines {
		lines[i] = bytes.TrimRight(line, "\r")
	}
	src = bytes.Join(lines, []byte("\n"))
	src = bytes.TrimRight(src, " \t\r\n")
	if len(src) == 0 {
		return nil, nil
	}
	return hclwrite.Format(append(src, '\n')), nil
}
