package paste

import (
	"bufio"
	"bytes"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// The byte order mark of UTF-16 in either order, with which Windows begins what Notepad, or > of PowerShell, writes (RFC 2781, 3.2).
var byteOrderMarks = [][]byte{{0xff, 0xfe}, {0xfe, 0xff}}

// utf8Text is text in UTF-8 whose beginning is head: r itself, or what r holds in UTF-16 with a byte order mark. Carriage returns of that
// are dropped, since they are Windows' and no node's.
func utf8Text(r *bufio.Reader, head []byte) (text *bufio.Reader, textHead []byte) {
	for _, mark := range byteOrderMarks {
		if bytes.HasPrefix(head, mark) {
			decoder := transform.Chain(unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder(), runes.Remove(runes.Predicate(func(c rune) bool { return c == '\r' })))
			text = bufio.NewReaderSize(transform.NewReader(r, decoder), probed)
			textHead, _ = text.Peek(probed) // an error comes again where lines are read
			return text, textHead
		}
	}
	return r, head
}
