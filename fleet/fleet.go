// Package fleet reads the recordings of many nodes, from directories and archives, and has them judged side by side: one after
// the other is read, as many as there are workers are judged at once, and results come in the order of the recordings. It does no
// I/O but to the readers and file systems that it is given, and keeps no recording.
package fleet

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"busbar/node"
)

// Recording is the text of one recording, or why it could not be read.
type Recording struct {
	// Name is the file's, below that of the directory or archive that it is in.
	Name string
	Text []byte
	Err  error
}

// The first bytes of what is not a recording by itself: gzip (RFC 1952), Zstandard (RFC 8878), xz (xz-file-format.txt of XZ Utils),
// bzip2 (bzip2.c), zip (APPNOTE.TXT of PKWARE), and at tarOffset a tar header (tar(5)).
var (
	gzipMagic  = []byte{0x1f, 0x8b}
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	xzMagic    = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	bzip2Magic = []byte("BZh")
	zipMagic   = []byte("PK\x03\x04")
	tarMagic   = []byte("ustar")
)

// unread are the kinds of archives that busbar does not read, each with what to do.
var unread = []struct {
	magic []byte
	err   error
}{
	{xzMagic, errors.New("it is compressed with xz, which busbar does not read: xz -dc FILE | busbar plan --node -")},
	{bzip2Magic, errors.New("it is compressed with bzip2, which busbar does not read: bzip2 -dc FILE | busbar plan --node -")},
	{zipMagic, errors.New("it is a zip archive, which busbar does not read: unzip FILE -d recordings && busbar plan --node recordings")},
}

const tarOffset = 257

// HeadSize is how many bytes IsArchive wants to see.
const HeadSize = 512

// bufferSize is how much of an archive is read at once.
const bufferSize = 64 << 10

// IsArchive tells by its first bytes whether a file may hold many recordings: a tar archive, or what is compressed.
func IsArchive(head []byte) bool { return isCompressed(head) || whyUnread(head) != nil || isTar(head) }

func isCompressed(head []byte) bool {
	return bytes.HasPrefix(head, gzipMagic) || bytes.HasPrefix(head, zstdMagic)
}

func whyUnread(head []byte) error {
	for _, kind := range unread {
		if bytes.HasPrefix(head, kind.magic) {
			return kind.err
		}
	}
	return nil
}

func isTar(head []byte) bool {
	return len(head) > tarOffset && bytes.HasPrefix(head[tarOffset:], tarMagic)
}

// Dir are the recordings in a file system, all files NAME.json, NAME.json.gz and NAME.json.zst at any depth, sorted by path; files and directories
// whose names begin with a dot are left out. NAME.json.xz, .bz2 and .zip are recordings that cannot be read. A file system without any is one
// that cannot be read.
func Dir(fsys fs.FS, name string) iter.Seq[Recording] {
	return func(yield func(Recording) bool) {
		found := false
		err := fs.WalkDir(fsys, ".", func(p string, entry fs.DirEntry, err error) error {
			hidden := p != "." && strings.HasPrefix(path.Base(p), ".")
			switch {
			case err != nil:
				found = true
				if !yield(Recording{Name: path.Join(name, p), Err: err}) {
					return fs.SkipAll
				}
				return nil // the rest of the tree is read
			case hidden && entry.IsDir():
				return fs.SkipDir
			case hidden, entry.IsDir(), !isRecording(p):
				return nil
			}
			found = true
			text, err := readFile(fsys, p)
			if !yield(Recording{path.Join(name, p), text, err}) {
				return fs.SkipAll
			}
			return nil
		})
		if err == nil && !found {
			yield(Recording{Name: name, Err: errors.New("there is no recording in it (NAME.json)")})
		}
	}
}

// isRecording tells by its name whether a file in a directory or an archive is a recording, also one in a form that is not read.
func isRecording(name string) bool {
	return slices.ContainsFunc([]string{"", ".gz", ".zst", ".xz", ".bz2", ".zip"}, func(compressed string) bool {
		return strings.HasSuffix(name, ".json"+compressed)
	})
}

func readFile(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // of what a link leads to
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("is no regular file")}
	}
	if err != nil {
		return nil, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, info.Size())
}

// read reads a text, which may be compressed, up to one byte more than a recording may have.
func read(r io.Reader, size int64) ([]byte, error) {
	buffered := bufio.NewReader(r)
	head, _ := buffered.Peek(HeadSize) // a shorter one is seen as it is
	if isCompressed(head) {
		size = 0
	}
	unpacked, err := unpack(buffered, head)
	if err != nil {
		return nil, err
	}
	defer unpacked.Close()
	var text bytes.Buffer
	text.Grow(int(min(max(size, 0), node.MaxRecording)) + bytes.MinRead)
	_, err = text.ReadFrom(io.LimitReader(unpacked, node.MaxRecording+1))
	return text.Bytes(), err
}

// maxWindow is how far back what zstd compressed may refer, which is held in memory: 8 MiB are what every reader takes (RFC 8878,
// 3.1.1.1.2), and zstd(1) makes more than this of level 21 on or with --long.
const maxWindow = 32 << 20

// unpack is what is in a compressed input, of which head are the first bytes, and the input itself where it is not compressed.
func unpack(r io.Reader, head []byte) (io.ReadCloser, error) {
	if err := whyUnread(head); err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		return gzip.NewReader(r)
	case bytes.HasPrefix(head, zstdMagic):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return unzstd{d}, nil
	}
	return io.NopCloser(r), nil
}

// unzstd reads what zstd compressed.
type unzstd struct{ *zstd.Decoder }

// Read reads.
func (u unzstd) Read(p []byte) (int, error) {
	n, err := u.Decoder.Read(p)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = fmt.Errorf("it was compressed with zstd and takes more than %d MiB to read: zstd -dc --long=31 FILE | busbar plan --node -", maxWindow>>20)
	}
	return n, err
}

// Close closes.
func (u unzstd) Close() error {
	u.Decoder.Close()
	return nil
}

// File are the recordings in a file: one, or those of a tar archive (files as in Dir) in its order, either of which may be
// compressed with gzip or zstd. What comes behind a place where an archive is broken is lost, and told as one that cannot be read.
func File(r io.Reader, name string) iter.Seq[Recording] {
	return func(yield func(Recording) bool) {
		buffered := bufio.NewReaderSize(r, bufferSize)
		head, _ := buffered.Peek(HeadSize)
		unpacked, err := unpack(buffered, head)
		if err != nil {
			yield(Recording{Name: name, Err: err})
			return
		}
		defer unpacked.Close()
		if isCompressed(head) {
			buffered = bufio.NewReaderSize(unpacked, bufferSize)
			head, err = buffered.Peek(HeadSize)
		}
		switch {
		case isTar(head):
			members(&trailer{r: buffered}, name, yield)
		case err != nil && !errors.Is(err, io.EOF): // what is inside cannot be read
			yield(Recording{Name: name, Err: err})
		default:
			text, err := read(buffered, 0)
			yield(Recording{name, text, err})
		}
	}
}

// trailer counts the zeros at the end of what was read: a tar archive ends with two blocks of them, and archive/tar takes one
// that was cut off between two files for whole.
type trailer struct {
	r     io.Reader
	zeros int
}

const endOfArchive = 2 * 512

// Read reads.
func (t *trailer) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if last := len(bytes.TrimRight(p[:n], "\x00")); last > 0 {
		t.zeros = n - last
	} else {
		t.zeros += n
	}
	return n, err
}

func members(file *trailer, name string, yield func(Recording) bool) {
	archive := tar.NewReader(file)
	for n := 0; ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && file.zeros < endOfArchive {
			err = io.ErrUnexpectedEOF
		}
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			yield(Recording{Name: name, Err: errors.New("there is no recording in the archive (NAME.json)")})
			return
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			yield(Recording{Name: name, Err: fmt.Errorf("the archive is broken behind its recording %d: %w", n, err)})
			return
		case header.Typeflag != tar.TypeReg || !isRecording(header.Name):
			continue
		}
		n++
		text, err := read(archive, header.Size)
		if !yield(Recording{path.Join(name, header.Name), text, err}) {
			return
		}
	}
}

// Join are several sequences, one after the other.
func Join(all ...iter.Seq[Recording]) iter.Seq[Recording] {
	return func(yield func(Recording) bool) {
		for _, recordings := range all {
			for r := range recordings {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Judge decodes recordings and has each judged, workers at once, of which there is one at least. Results come in the order
// of the recordings; no more than twice as many recordings as workers are held. judge gets the name, and the facts or why there are none.
func Judge[R any](recordings iter.Seq[Recording], workers int, judge func(name string, facts node.Facts, err error) R) iter.Seq[R] {
	workers = max(workers, 1)
	type job struct {
		Recording
		result chan R
	}
	return func(yield func(R) bool) {
		var decoder node.Decoder
		jobs, results, stop := make(chan job), make(chan chan R, workers), make(chan struct{})
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				for j := range jobs {
					facts, err := j.facts(&decoder)
					j.result <- judge(j.Name, facts, err)
				}
			})
		}
		running.Go(func() {
			defer close(results)
			defer close(jobs)
			for r := range recordings {
				j := job{r, make(chan R, 1)}
				select {
				case results <- j.result:
				case <-stop:
					return
				}
				jobs <- j // the next free worker takes it
			}
		})
		defer running.Wait()
		defer close(stop)
		for result := range results {
			if !yield(<-result) {
				return
			}
		}
	}
}

func (r Recording) facts(decoder *node.Decoder) (node.Facts, error) {
	if r.Err != nil {
		return node.Facts{}, r.Err
	}
	return decoder.Decode(r.Text)
}
