package paste

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// The first bytes of compressed text: gzip (RFC 1952), Zstandard (RFC 8878), bzip2, and xz (xz-file-format.txt of XZ Utils).
const (
	gzipMagic  = "\x1f\x8b"
	zstdMagic  = "\x28\xb5\x2f\xfd"
	bzip2Magic = "BZh"
	xzMagic    = "\xfd7zXZ\x00"
)

// suffixes of the names of compressed files.
var suffixes = []string{".gz", ".zst", ".bz2", ".xz"}

// Of what holds many files: zip (APPNOTE.TXT of PKWARE), and tar, which has its magic in the first header at tarOffset (tar(5)).
const (
	zipMagic  = "PK\x03\x04"
	tarMagic  = "ustar"
	tarOffset = 257
)

// archive is the kind of archive that begins with head; empty for none.
func archive(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte(zipMagic)):
		return "zip"
	case len(head) > tarOffset && bytes.HasPrefix(head[tarOffset:], []byte(tarMagic)):
		return "tar"
	}
	return ""
}

// unpackedName is the name of what a compressed file holds.
func unpackedName(name string) string {
	for _, s := range suffixes {
		if rest, ok := strings.CutSuffix(name, s); ok {
			return rest
		}
	}
	return name
}

// errXZ says what to do about xz, of which the standard library and that of Zstandard have nothing.
var errXZ = errors.New("it is compressed with xz, which busbar does not unpack: xz -dc FILE | busbar diagnose -")

const (
	// maxUnpacked is how many bytes of one compressed text are read.
	maxUnpacked = 1 << 30
	// maxWindow is how far back compressed text may refer: what zstd -19 makes needs 8 MiB, zstd --ultra -22 up to 128.
	maxWindow = 32 << 20
)

// unpack gives the text in a compressed one, of which it returns head too; nil for one that is not compressed.
func unpack(r *bufio.Reader, head []byte) (u *unpacker, text *bufio.Reader, textHead []byte) {
	u = &unpacker{left: maxUnpacked}
	switch is := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }; {
	case is(gzipMagic):
		u.r, u.err = gzip.NewReader(r)
	case is(zstdMagic):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		u.r, u.err = d, err
		if err == nil {
			u.close = d.Close
		}
	case is(bzip2Magic) && len(head) > 3 && head[3] >= '1' && head[3] <= '9':
		u.r = bzip2.NewReader(r)
	case is(xzMagic):
		u.err = errXZ
	default:
		return nil, r, head
	}
	text = bufio.NewReaderSize(u, probed)
	textHead, _ = text.Peek(probed) // the unpacker has no errors
	return u, text, textHead
}

// unpacker reads what a decompressor gives. It ends where that fails, and keeps the error.
type unpacker struct {
	r     io.Reader
	left  int
	err   error
	close func()
}

// Read is that of the decompressor.
func (u *unpacker) Read(p []byte) (int, error) {
	switch {
	case u.err != nil:
		return 0, io.EOF
	case u.left == 0:
		u.err = fmt.Errorf("busbar unpacks %d MiB of a text", maxUnpacked>>20)
		return 0, io.EOF
	}
	n, err := u.r.Read(p[:min(len(p), u.left)])
	u.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
		err = io.EOF
	}
	return n, err
}

// why the rest, or all of it, could not be unpacked; empty where all was.
func (u *unpacker) why() string {
	switch {
	case u == nil || u.err == nil:
		return ""
	case errors.Is(u.err, errXZ):
		return u.err.Error()
	case errors.Is(u.err, zstd.ErrWindowSizeExceeded):
		return fmt.Sprintf("it needs more memory than the %d MiB that busbar gives: zstd -dc --long=31 FILE | busbar diagnose -", maxWindow>>20)
	case u.left == maxUnpacked:
		return "it cannot be unpacked: " + u.err.Error()
	default:
		return "what follows cannot be unpacked: " + u.err.Error()
	}
}

// done frees what the decompressor holds.
func (u *unpacker) done() {
	if u != nil && u.close != nil {
		u.close()
	}
}
