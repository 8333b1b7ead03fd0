package fleet_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"busbar/fleet"
	"busbar/fleet/fleettest"
	"busbar/node"
)

// told writes recordings as NAME: TEXT or NAME: error: ERROR.
func told(recordings iter.Seq[fleet.Recording]) []string {
	var all []string
	for r := range recordings {
		if r.Err != nil {
			all = append(all, r.Name+": error: "+r.Err.Error())
			continue
		}
		all = append(all, r.Name+": "+string(r.Text))
	}
	return all
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// zstandard compresses with zstd, the window being as large as the text.
func zstandard(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return string(w.EncodeAll([]byte(text), nil))
}

// tarred is an archive of names and texts in turn; a name that ends in / is a directory.
func tarred(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		header := tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}
		if strings.HasSuffix(files[i], "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The heads of files in forms that are not read, and what is said of each.
const (
	xzHead     = "\xfd7zXZ\x00\x00\x04"
	bzip2Head  = "BZh91AY&SY"
	zipHead    = "PK\x03\x04\x14"
	xzError    = ": error: it is compressed with xz, which busbar does not read: xz -dc FILE | busbar plan --node -"
	bzip2Error = ": error: it is compressed with bzip2, which busbar does not read: bzip2 -dc FILE | busbar plan --node -"
	zipError   = ": error: it is a zip archive, which busbar does not read: unzip FILE -d recordings && busbar plan --node recordings"
)

func TestDir(t *testing.T) {
	fsys := fstest.MapFS{
		"b.json": {Data: []byte("2")}, "a.json": {Data: []byte("1")}, "rack 7/c.json.gz": {Data: []byte(zipped(t, "3"))}, "rack 7/d.json.gz": {Data: []byte("\x1f\x8bx")}, "rack 7/f.json.zst": {Data: []byte(zstandard(t, "4"))},
		"notes.txt": {Data: []byte("x")}, ".hidden.json": {Data: []byte("x")}, ".git/x.json": {Data: []byte("x")}, "z.json": {Mode: 0o644 | 1<<25}, "dir.json/e.json": {Data: []byte("5")},
		"rack 7/g.json.xz": {Data: []byte(xzHead)}, "rack 7/h.json.bz2": {Data: []byte(bzip2Head)}, "rack 7/i.json.zip": {Data: []byte(zipHead)},
	}
	want := []string{"recs/a.json: 1", "recs/b.json: 2", "recs/dir.json/e.json: 5", "recs/rack 7/c.json.gz: 3", "recs/rack 7/d.json.gz: error: unexpected EOF", "recs/rack 7/f.json.zst: 4",
		"recs/rack 7/g.json.xz" + xzError, "recs/rack 7/h.json.bz2" + bzip2Error, "recs/rack 7/i.json.zip" + zipError, "recs/z.json: error: open z.json: is no regular file"}
	if diff := cmp.Diff(want, told(fleet.Dir(fsys, "recs"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"recs: error: there is no recording in it (NAME.json)"}, told(fleet.Dir(fstest.MapFS{"x.txt": {}}, "recs"))); diff != "" {
		t.Error(diff)
	}
}

func TestFile(t *testing.T) {
	archive := tarred(t, "fleet/", "", "fleet/b.json", "2", "fleet/README", "x", "fleet/a.json", "1", "fleet/c.json.gz", zipped(t, "3"))
	several := []string{"f/fleet/b.json: 2", "f/fleet/a.json: 1", "f/fleet/c.json.gz: 3"}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"one":                 {"{}", []string{"f: {}"}},
		"empty":               {"", []string{"f: "}},
		"one, compressed":     {zipped(t, "{}"), []string{"f: {}"}},
		"archive":             {archive, several},
		"archive, compressed": {zipped(t, archive), several},
		"cut off":             {archive[:2100], []string{"f/fleet/b.json: 2", "f: error: the archive is broken behind its recording 1: unexpected EOF"}},
		"empty archive":       {tarred(t, "README", "x"), []string{"f: error: there is no recording in the archive (NAME.json)"}},
		"one, zstd":           {zstandard(t, "{}"), []string{"f: {}"}},
		"archive, zstd":       {zstandard(t, archive), several},
		"zstd in an archive":  {tarred(t, "a.json.zst", zstandard(t, "1"), "b.json.zst", "\x28\xb5\x2f\xfd\x00"), []string{"f/a.json.zst: 1", "f/b.json.zst: error: unexpected EOF"}},
		"zstd, cut off":       {zstandard(t, archive)[:100], []string{"f: error: unexpected EOF"}},
		"no zstd":             {"\x28\xb5\x2f\xfd\x00", []string{"f: error: unexpected EOF"}},
		// RFC 8878, 3.1.1.1: a frame without a content size, whose window is of 2^27 bytes (exponent 17), and an empty last block.
		"zstd, large window": {"\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00", []string{"f: error: it was compressed with zstd and takes more than 32 MiB to read: zstd -dc --long=31 FILE | busbar plan --node -"}},
		"xz":                 {xzHead, []string{"f" + xzError}},
		"bzip2":              {bzip2Head, []string{"f" + bzip2Error}},
		"zip":                {zipHead, []string{"f" + zipError}},
		"xz in an archive":   {tarred(t, "a.json.xz", xzHead, "b.json.bz2", bzip2Head, "c.json", "3"), []string{"f/a.json.xz" + xzError, "f/b.json.bz2" + bzip2Error, "f/c.json: 3"}},
		"no gzip":            {"\x1f\x8b\x00", []string{"f: error: unexpected EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, told(fleet.File(strings.NewReader(c.text), "f"))); diff != "" {
				t.Error(diff)
			}
			head := c.text[:min(len(c.text), fleet.HeadSize)]
			if got, want := fleet.IsArchive([]byte(head)), name != "one" && name != "empty"; got != want {
				t.Errorf("IsArchive is %v", got)
			}
		})
	}
}

// What is more than a recording may have is read no further than one byte more.
func TestLargeFile(t *testing.T) {
	for r := range fleet.File(io.MultiReader(strings.NewReader("{"), zeros{}), "f") {
		if len(r.Text) != node.MaxRecording+1 || r.Err != nil {
			t.Errorf("%d bytes, %v", len(r.Text), r.Err)
		}
	}
}

// What unpacks to more than that is no larger for it.
func TestBomb(t *testing.T) {
	text := strings.Repeat(" ", node.MaxRecording+1<<20)
	for name, packed := range map[string]string{
		"gzip": zipped(t, text), "zstd": zstandard(t, text), "twice": zipped(t, zipped(t, text)), "in an archive": tarred(t, "a.json.gz", zipped(t, text)),
	} {
		for r := range fleet.File(strings.NewReader(packed), "f") {
			if len(r.Text) != node.MaxRecording+1 || r.Err != nil {
				t.Errorf("%s: %d bytes, %v", name, len(r.Text), r.Err)
			}
		}
	}
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// FuzzFile: no archive, however broken, makes it hang or crash; each is one recording at least.
func FuzzFile(f *testing.F) {
	archive := tarred(f, "a.json", "1", "b.json.gz", zipped(f, "2"))
	for _, text := range []string{"", "{}", archive, archive[:700], zipped(f, archive), zipped(f, archive)[:60], "\x28\xb5\x2f\xfd", zstandard(f, archive), zstandard(f, archive)[:60]} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		for range fleet.File(bytes.NewReader(text), "f") {
			n++
		}
		if n == 0 {
			t.Error("not even an error")
		}
	})
}

// Results come in the order of the recordings however long each takes, and no more are held than was promised.
func TestJudge(t *testing.T) {
	const n, workers = 200, 4
	var held, most atomic.Int64
	recordings := func(yield func(fleet.Recording) bool) {
		for i := range n {
			most.Store(max(most.Load(), held.Add(1)))
			r := fleet.Recording{Name: fmt.Sprint(i), Text: []byte(`{"format_version":"1.0"}`)}
			if i%3 == 0 {
				r = fleet.Recording{Name: fmt.Sprint(i), Err: errors.New("gone")}
			}
			if !yield(r) {
				return
			}
		}
	}
	i := 0
	for got := range fleet.Judge(recordings, workers, func(name string, _ node.Facts, err error) string { return fmt.Sprint(name, " ", err) }) {
		want := fmt.Sprint(i, " <nil>")
		if i%3 == 0 {
			want = fmt.Sprint(i, " gone")
		}
		if got != want {
			t.Fatalf("result %d is %q", i, got)
		}
		held.Add(-1)
		i++
	}
	if i != n {
		t.Errorf("%d results", i)
	}
	if limit := int64(2*workers + 2); most.Load() > limit { // one is being read, one being shown
		t.Errorf("%d recordings were held at once, at most %d are promised", most.Load(), limit)
	}
}

// Whoever wants no more results gets rid of all who work on them.
func TestJudgeStops(t *testing.T) {
	endless := func(yield func(fleet.Recording) bool) {
		for yield(fleet.Recording{Err: errors.New("gone")}) {
		}
	}
	n := 0
	for range fleet.Judge(endless, 3, func(string, node.Facts, error) int { return 0 }) {
		if n++; n == 10 {
			break
		}
	}
	if n != 10 {
		t.Errorf("%d results", n)
	}
}

// The recordings that tests make are the same every time, and those of an archive are those.
func TestMadeRecordings(t *testing.T) {
	var archive bytes.Buffer
	if err := fleettest.Archive(&archive, 12); err != nil {
		t.Fatal(err)
	}
	i := 0
	recordings := fleet.File(&archive, "f.tar.gz")
	next, stop := iter.Pull(recordings)
	defer stop()
	for _, text := range fleettest.Recordings(12) {
		r, ok := next()
		if !ok || r.Err != nil || !bytes.Equal(r.Text, text) || r.Name != "f.tar.gz/fleet/"+fleettest.Host(i)+".json" {
			t.Errorf("recording %d is %s, %v", i, r.Name, r.Err)
		}
		if _, err := node.DecodeRecording(text); err != nil {
			t.Errorf("recording %d: %v", i, err)
		}
		i++
	}
}
