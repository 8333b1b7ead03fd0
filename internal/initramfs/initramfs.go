// Package initramfs reads what an initramfs holds that decides how kernel modules are loaded in it: the modules, and the copy of
// modprobe.d that was made with it.
//
// An image is what the kernel unpacks (init/initramfs.c, Documentation/driver-api/early-userspace/buffer-format.rst): cpio archives
// one behind the other, with zeros between them, each as it is or compressed. Distributions put the processor's microcode
// into an uncompressed one that comes first.
package initramfs

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"busbar/internal/confdir"
	"busbar/internal/modprobe"
)

// What one image may have.
const (
	// MaxUnpacked bounds what an image unpacks to, in bytes.
	MaxUnpacked = 2 << 30
	// maxEntries bounds its files, maxText each file of modprobe.d in bytes, and maxTexts all of them.
	maxEntries = 1 << 20
	maxText    = 256 << 10
	maxTexts   = 1 << 20
	// maxWindow bounds the memory of a decompressor in bytes: what zstd --ultra -22 asks for.
	maxWindow = 128 << 20
)

// Image is what an initramfs holds.
type Image struct {
	// Modules are the paths of kernel modules in it, by normal name (modprobe.Normalize).
	Modules map[string]string
	// Files are its modprobe.d, with the paths that they have once it is unpacked, sorted by path. One that
	// leads elsewhere has that as its Reason.
	Files []confdir.File
}

// Read reads an image to its end. An error says what is wrong with it: it is cut off, broken, compressed in a way
// that is not read, or beyond a limit.
func Read(r io.Reader) (Image, error) {
	c := collector{modules: map[string]string{}, texts: map[string]confdir.File{}, linked: map[inode][]string{}, skipped: map[inode]bool{}}
	if err := c.image(bufio.NewReaderSize(r, 1<<16), true); err != nil {
		return Image{}, err
	}
	if c.entries == 0 {
		return Image{}, errors.New("it holds no archive")
	}
	image := Image{Modules: c.modules}
	for _, p := range slices.Sorted(maps.Keys(c.texts)) {
		image.Files = append(image.Files, c.texts[p])
	}
	return image, nil
}

// collector gathers what an image holds.
type collector struct {
	modules map[string]string
	texts   map[string]confdir.File
	// linked are the files of modprobe.d that are hard links, by inode: one of them has the content.
	linked map[inode][]string
	// skipped are hard links with a content that was left out.
	skipped map[inode]bool
	entries int
	texted  int64
}

// image reads archives one behind the other. Those that are compressed hold no compressed ones.
func (c *collector) image(r *bufio.Reader, outer bool) error {
	for {
		begin, err := r.Peek(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cutOff(err)
		}
		if begin[0] == 0 {
			begin, _ = r.Peek(r.Buffered())
			_, _ = r.Discard(len(begin) - len(bytes.TrimLeft(begin, "\x00"))) // they were peeked at
			continue
		}
		begin, err = r.Peek(magicLength)
		switch {
		case isArchive(begin):
			err = c.archive(r)
		case outer && len(begin) > 0:
			err = c.compressed(r, begin)
		case err == nil:
			err = fmt.Errorf("no archive begins with %x", begin)
		}
		if err != nil {
			return cutOff(err)
		}
	}
}

// compressed reads what one compressed part holds.
func (c *collector) compressed(r *bufio.Reader, begin []byte) error {
	name, unpack := "", (func(*bufio.Reader) (io.Reader, error))(nil)
	for _, f := range formats {
		if bytes.HasPrefix(begin, f.magic) {
			name, unpack = f.name, f.unpack
		}
	}
	switch {
	case name == "":
		return fmt.Errorf("no archive, and nothing compressed, begins with %x", begin)
	case unpack == nil:
		return fmt.Errorf("it is compressed with %s, which is not read", name)
	}
	inner, err := unpack(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if closer, ok := inner.(*zstd.Decoder); ok {
		defer closer.Close()
	}
	limited := &io.LimitedReader{R: inner, N: MaxUnpacked}
	if err := c.image(bufio.NewReaderSize(limited, 1<<16), false); err != nil {
		if limited.N <= 0 {
			return fmt.Errorf("it unpacks to more than %d bytes", int64(MaxUnpacked))
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// formats are what the kernel knows by its first bytes (lib/decompress.c), and Zstandard by those of its frames (RFC 8878).
var formats = []struct {
	name   string
	magic  []byte
	unpack func(*bufio.Reader) (io.Reader, error)
}{
	{"gzip", []byte{0x1f, 0x8b}, func(r *bufio.Reader) (io.Reader, error) {
		z, err := gzip.NewReader(r)
		if err == nil {
			z.Multistream(false) // what follows is looked at anew
		}
		return z, err
	}},
	{"bzip2", []byte("BZh"), func(r *bufio.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"lzma", []byte{0x5d, 0, 0}, nil},
	{"xz", []byte{0xfd, '7', 'z', 'X', 'Z', 0}, func(r *bufio.Reader) (io.Reader, error) { return xz.NewReader(r) }},
	{"lzo", []byte{0x89, 'L', 'Z', 'O', 0}, nil},
	{"lz4", []byte{0x02, 0x21, 0x4c, 0x18}, func(r *bufio.Reader) (io.Reader, error) { return lz4.NewReader(r), nil }},
	{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd}, func(r *bufio.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	}},
}

// archive reads one archive to its end.
func (c *collector) archive(r *bufio.Reader) error {
	a := &archive{r: r}
	clear(c.linked)
	clear(c.skipped)
	for {
		e, done, err := a.next()
		if err != nil || done {
			return err
		}
		if c.entries++; c.entries > maxEntries {
			return fmt.Errorf("it has more than %d files", maxEntries)
		}
		if err := c.entry(a, e); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
}

// entry reads one file. What comes later has the place of what came before under its name, as when the kernel unpacks it.
func (c *collector) entry(a *archive, e entry) error {
	p := path.Clean("/" + e.name)
	regular, link := e.mode&typeMask == typeRegular, e.mode&typeMask == typeSymlink
	if name, ok := moduleName(p); ok && (regular || link) {
		c.modules[name] = p
	}
	configuration := inModprobeDir(p)
	if regular && e.links > 1 {
		if configuration {
			c.linked[e.inode] = append(c.linked[e.inode], p)
		}
		configuration = len(c.linked[e.inode]) > 0
		c.skipped[e.inode] = c.skipped[e.inode] || !configuration && e.size > 0
	}
	if !configuration || !regular && !link {
		return a.skip(e)
	}
	if c.texted += e.size; e.size > maxText || c.texted > maxTexts {
		return errors.New("its modprobe.d is larger than what is read")
	}
	content, err := a.content(e)
	if err != nil {
		return err
	}
	switch target := string(content); {
	case link && target == "/dev/null": // hides its namesakes
		c.texts[p] = confdir.File{Path: p}
	case link:
		c.texts[p] = confdir.File{Path: p, Reason: "is a link to " + target}
	case e.links <= 1:
		c.texts[p] = textOf(p, content)
	case e.size > 0:
		for _, name := range c.linked[e.inode] {
			c.texts[name] = textOf(name, content)
		}
	case c.skipped[e.inode]:
		c.texts[p] = confdir.File{Path: p, Reason: "is a hard link to a file of another directory"}
	case inModprobeDir(p): // its content stands with another name
		c.texts[p] = confdir.File{Path: p, Text: c.texts[c.linked[e.inode][0]].Text}
	}
	return nil
}

// textOf is a file with its content, which JSON can carry.
func textOf(p string, content []byte) confdir.File {
	if text := string(content); strings.ToValidUTF8(text, "") == text {
		return confdir.File{Path: p, Text: text}
	}
	return confdir.File{Path: p, Reason: "is not valid UTF-8"}
}

// inModprobeDir reports whether kmod in the initramfs reads a file.
func inModprobeDir(p string) bool {
	return slices.Contains(modprobe.ModprobeDirs, path.Dir(p)) && strings.HasSuffix(p, ".conf")
}

// moduleName is the normal name of a kernel module's file (kmod's extensions: .ko, and .ko.gz, .ko.xz, .ko.zst).
func moduleName(p string) (name string, ok bool) {
	dir, base := path.Split(p)
	name, suffix, ok := strings.Cut(base, ".ko")
	ok = ok && name != "" && slices.Contains([]string{"", ".gz", ".xz", ".zst"}, suffix) && strings.Contains(dir, "lib/modules/")
	return modprobe.Normalize(name), ok
}
