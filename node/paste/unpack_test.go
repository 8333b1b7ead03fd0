package paste

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"busbar/node"
)

func packed(t testing.TB, text string, writer func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := writer(&b)
	// In two writes and with what is between them, so that a writer does not know how much comes.
	_, err := io.WriteString(w, text[:len(text)/2])
	if f, ok := w.(interface{ Flush() error }); ok && err == nil {
		err = f.Flush()
	}
	if err == nil {
		_, err = io.WriteString(w, text[len(text)/2:])
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipped(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }

func zstandard(window int) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		e, err := zstd.NewWriter(w, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		return e
	}
}

// bzipped is conf of TestUnpack as bzip2 makes it.
const bzipped = "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\xa9\xbb\x86\x41\x00\x00\x0b\xcf\x80\x00\x10\x42\x02\x3f\xe5\x82\x00\x80\x06\x00\x40\x20\x00\x21\xa8\x13\x34\x86\x7a\x9e\xa3\x42\x81\xa6\x86\x46\x4c\x48\x94\xf8\x6f\x7f\x25\x0a\x06\x33\xdc\xc1\xf0\x64\x32\x4b\x72\x8b\xb3\xf4\x5d\xc9\x14\xe1\x42\x42\xa6\xee\x19\x04"

func TestUnpack(t *testing.T) {
	const conf = "NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0\n"
	long := strings.Repeat(conf, 2000)
	tarred := "nccl.conf" + strings.Repeat("\x00", tarOffset-9) + "ustar\x0000" + strings.Repeat("\x00", 247)
	for name, tt := range map[string]struct{ text, kind, unread, doubt string }{
		"gzip":                 {packed(t, conf, gzipped), "nccl.conf", "", ""},
		"two members of gzip":  {packed(t, conf, gzipped) + packed(t, conf, gzipped), "nccl.conf", "", ""},
		"zstd":                 {packed(t, conf, zstandard(1<<20)), "nccl.conf", "", ""},
		"bzip2":                {bzipped, "nccl.conf", "", ""},
		"cut off":              {packed(t, long, gzipped)[:120], "nccl.conf", "", "what follows cannot be unpacked: unexpected EOF"},
		"damaged":              {"\x1f\x8bno more", "", "it cannot be unpacked: unexpected EOF", ""},
		"a window too large":   {packed(t, conf, zstandard(64<<20)), "", "it needs more memory than the 32 MiB that busbar gives", ""},
		"xz":                   {"\xfd7zXZ\x00\x00\x04", "", "it is compressed with xz", ""},
		"nothing, by gzip":     {packed(t, "", gzipped), "", "it is empty", ""},
		"a program, by gzip":   {packed(t, "\x7fELF\x02\x01\x01\x00\x00", gzipped), "", "it is no text", ""},
		"zip":                  {"PK\x03\x04\x14\x00", "", "it is a zip archive: unpack it and give the directory", ""},
		"tar":                  {tarred, "", "it is a tar archive: unpack it and give the directory", ""},
		"tar, by gzip":         {packed(t, tarred, gzipped), "", "it is a tar archive: unpack it and give the directory", ""},
		"a text of that title": {"BZh is what it begins with\n", "", "busbar does not know what this is", ""},
	} {
		var p Paste
		if err := p.Add("nccl.conf.gz", "", strings.NewReader(tt.text)); err != nil {
			t.Fatal(err)
		}
		first, last := p.Inputs()[0], p.Inputs()[len(p.Inputs())-1]
		if first.Kind != tt.kind || !strings.HasPrefix(first.Unread, tt.unread) || (first.Unread == "") != (tt.unread == "") || last.Doubt != tt.doubt {
			t.Errorf("%s: inputs are %+v", name, p.Inputs())
		}
	}
}

// A compressed file stands where the one that it holds does.
func TestUnpackedPath(t *testing.T) {
	var p Paste
	for _, name := range []string{"case/etc/modules-load.d/rdma.conf.zst", "case/proc/cmdline.gz"} {
		text := map[bool]string{true: "ib_umad\n", false: "quiet\n"}[strings.Contains(name, "modules")]
		if err := p.Add(name, "", strings.NewReader(packed(t, text, gzipped))); err != nil {
			t.Fatal(err)
		}
	}
	f := p.Reader().Read(t.Context(), node.Inventory{}, nil)
	files, _ := node.ModulesLoadFiles.Get(f, "").Get()
	if len(files) != 1 || files[0].Path != "/etc/modules-load.d/rdma.conf" {
		t.Errorf("files are %v of %+v", files, p.Inputs())
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(packed(f, "NCCL_DEBUG=INFO\n", gzipped))
	f.Add(packed(f, "NCCL_DEBUG=INFO\n", zstandard(1<<20)))
	f.Add("BZh9")
	f.Fuzz(func(t *testing.T, text string) {
		var p Paste
		if err := p.Add("x", "", io.LimitReader(strings.NewReader(text), 1<<16)); err != nil {
			t.Fatal(err)
		}
		if n := len(p.Inputs()); n == 0 && strings.Trim(text, " \t\r\n") != "" && binary([]byte(text)) {
			t.Error("no input")
		}
	})
}

// The last line of what ends in the middle is not all of it, and says nothing.
func TestUnpackBrokenLine(t *testing.T) {
	text := strings.Repeat("vm.zone_reclaim_mode = 0\n", 2) + "kernel.numa_balancing = 10"
	whole := packed(t, text, gzipped)
	f, _ := pasted(t, [2]string{"whole.gz", whole})
	known1(t, "of the whole", node.Sysctl.Get(f, "kernel.numa_balancing"), "10")
	f, _ = pasted(t, [2]string{"cut.gz", whole[:len(whole)-8]}) // without its checksum and length
	if v := node.Sysctl.Get(f, "kernel.numa_balancing"); v.IsKnown() {
		t.Errorf("a broken line says %v", v)
	}
}
