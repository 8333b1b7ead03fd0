package initramfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The new ASCII format of cpio (Documentation/driver-api/early-userspace/buffer-format.rst): a header of 13 hexadecimal
// numbers of 8 digits behind a magic of 6, the name, and the content, each padded to 4 bytes from the archive's start.
const (
	magicLength  = 6
	headerLength = magicLength + 13*8
	align        = 4
	trailer      = "TRAILER!!!"
	// maxName is PATH_MAX of linux/limits.h, beyond which the kernel takes no entry (do_header in init/initramfs.c).
	maxName = 4096
)

// File types of a mode (inode(7)).
const (
	typeMask    = 0o170000
	typeRegular = 0o100000
	typeSymlink = 0o120000
)

// entry is the header of one file in an archive, and its name.
type entry struct {
	name  string
	mode  uint32
	size  int64
	links uint32
	inode inode
}

// inode tells apart the files of an archive: entries that share one are hard links to each other.
type inode struct{ number, major, minor uint32 }

// isArchive reports whether an archive of the kind that the kernel takes begins with these bytes. Entries of 070702 have a
// checksum besides, which is not looked at.
func isArchive(begin []byte) bool {
	return len(begin) >= magicLength && (string(begin[:magicLength]) == "070701" || string(begin[:magicLength]) == "070702")
}

// archive reads the entries of one archive.
type archive struct {
	r *bufio.Reader
	// at is how many bytes of the archive were read.
	at int64
}

var errCutOff = errors.New("it is cut off")

// next reads the header and name of the next entry; done where the archive has ended.
func (a *archive) next() (e entry, done bool, err error) {
	var header [headerLength]byte
	if err := a.full(header[:]); err != nil {
		return e, false, err
	}
	if !isArchive(header[:]) {
		return e, false, fmt.Errorf("no entry of an archive begins with %q", header[:magicLength])
	}
	var fields [13]uint32
	for i := range fields {
		at := magicLength + 8*i
		n, err := strconv.ParseUint(string(header[at:at+8]), 16, 32)
		if err != nil {
			return e, false, fmt.Errorf("%q is no number of an entry's header", header[at:at+8])
		}
		fields[i] = uint32(n)
	}
	length := fields[11]
	if length == 0 || length > maxName {
		return e, false, fmt.Errorf("a name of %d bytes", length)
	}
	name := make([]byte, length)
	if err := a.full(name); err != nil {
		return e, false, err
	}
	e = entry{
		name: strings.TrimRight(string(name), "\x00"), mode: fields[1], links: fields[4], size: int64(fields[6]),
		inode: inode{fields[0], fields[7], fields[8]},
	}
	return e, e.name == trailer, a.pad()
}

// content reads the content of an entry.
func (a *archive) content(e entry) ([]byte, error) {
	content := make([]byte, e.size)
	if err := a.full(content); err != nil {
		return nil, err
	}
	return content, a.pad()
}

// skip leaves the content of an entry out.
func (a *archive) skip(e entry) error {
	n, err := io.CopyN(io.Discard, a.r, e.size)
	a.at += n
	if err != nil {
		return cutOff(err)
	}
	return a.pad()
}

func (a *archive) full(b []byte) error {
	n, err := io.ReadFull(a.r, b)
	a.at += int64(n)
	return cutOff(err)
}

func (a *archive) pad() error {
	n, err := a.r.Discard(int((align - a.at%align) % align))
	a.at += int64(n)
	return cutOff(err)
}

// cutOff names the end of what was to go on.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutOff
	}
	return err
}
