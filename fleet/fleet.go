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
	"strings"
	"sync"

	"busbar/node"
)

// Recording is the text of one recording, or why it could not be read.
type Recording struct {
	// Name is the file's, below that of the directory or archive that it is in.
	Name string
	Text []byte
	Err  error
}

// The first bytes of what is not a recording by itself: gzip (RFC 1952), Zstandard (RFC 8878), and at tarOffset a tar header (tar(5)).
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	tarMagic  = []byte("ustar")
)

const tarOffset = 257

// HeadSize is how many bytes IsArchive wants to see.
const HeadSize = 512

// bufferSize is how much of an archive is read at once.
const bufferSize = 64 << 10

// IsArchive tells by its first bytes whether a file may hold many recordings: a tar archive, or what is compressed.
func IsArchive(head []byte) bool {
	return bytes.HasPrefix(head, gzipMagic) || bytes.HasPrefix(head, zstdMagic) || isTar(head)
}

func isTar(head []byte) bool {
	return len(head) > tarOffset && bytes.HasPrefix(head[tarOffset:], tarMagic)
}

// Dir are the recordings in a file system, all files NAME.json and NAME.json.gz at any depth, sorted by path; files and directories
// whose names begin with a dot are left out. A file system without any is one that cannot be read.
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

// isRecording tells by its name whether a file in a directory or an archive is a recording.
func isRecording(name string) bool {
	return strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".json.gz")
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
	head, _ := buffered.Peek(len(zstdMagic)) // too short is not compressed
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		r, size = unzipped, 0
	case bytes.HasPrefix(head, zstdMagic):
		return nil, errZstd
	default:
		r = buffered
	}
	var text bytes.Buffer
	text.Grow(int(min(max(size, 0), node.MaxRecording)) + bytes.MinRead)
	_, err := text.ReadFrom(io.LimitReader(r, node.MaxRecording+1))
	return text.Bytes(), err
}

var errZstd = errors.New("it is compressed with zstd, which busbar does not read: zstd -dc FILE | busbar plan --node -")

// File are the recordings in a file: one, or those of a tar archive (NAME.json and NAME.json.gz) in its order, either of which may be
// compressed with gzip. What comes behind a place where an archive is broken is lost, and told as one that cannot be read.
func File(r io.Reader, name string) iter.Seq[Recording] {
	return func(yield func(Recording) bool) {
		buffered := bufio.NewReaderSize(r, bufferSize)
		head, _ := buffered.Peek(HeadSize)
		if bytes.HasPrefix(head, gzipMagic) {
			unzipped, err := gzip.NewReader(buffered)
			if err != nil {
				yield(Recording{Name: name, Err: err})
				return
			}
			buffered = bufio.NewReaderSize(unzipped, bufferSize)
			head, _ = buffered.Peek(HeadSize)
		}
		if !isTar(head) {
			text, err := read(buffered, 0)
			yield(Recording{name, text, err})
			return
		}
		members(&trailer{r: buffered}, name, yield)
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
		jobs, results, stop := make(chan job), make(chan chan R, workers), make(chan struct{})
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				for j := range jobs {
					facts, err := j.facts()
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

func (r Recording) facts() (node.Facts, error) {
	if r.Err != nil {
		return node.Facts{}, r.Err
	}
	return node.DecodeRecording(r.Text)
}
