package initramfs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"busbar/internal/confdir"
)

// file is an entry of an archive that a test makes.
type file struct {
	name, content string
	mode          uint32 // a regular file where it is 0
	inode, links  uint32
}

// cpio makes an archive as cpio -o -H newc does.
func cpio(files ...file) []byte {
	var b bytes.Buffer
	pad := func() { b.Write(make([]byte, (align-b.Len()%align)%align)) }
	for _, f := range append(slices.Clone(files), file{name: trailer}) {
		if f.mode == 0 {
			f.mode = typeRegular | 0o644
		}
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
			f.inode, f.mode, 0, 0, max(f.links, 1), 0, len(f.content), 8, 1, 0, 0, len(f.name)+1, 0)
		b.WriteString(f.name + "\x00")
		pad()
		b.WriteString(f.content)
		pad()
	}
	b.Write(make([]byte, (512-b.Len()%512)%512))
	return b.Bytes()
}

// compressions are those that an image may have; each makes a part of it.
var compressions = map[string]func([]byte) []byte{
	"none": func(data []byte) []byte { return data },
	"gzip": func(data []byte) []byte {
		return through(data, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	},
	"zstd": func(data []byte) []byte {
		return through(data, func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			must(err)
			return z
		})
	},
	"xz": func(data []byte) []byte {
		return through(data, func(w io.Writer) io.WriteCloser {
			z, err := xz.WriterConfig{DictCap: 1 << 20, CheckSum: xz.CRC32}.NewWriter(w)
			must(err)
			return z
		})
	},
	"lz4": func(data []byte) []byte {
		return through(data, func(w io.Writer) io.WriteCloser {
			z := lz4.NewWriter(w)
			must(z.Apply(lz4.LegacyOption(true)))
			return z
		})
	},
}

func through(data []byte, writer func(io.Writer) io.WriteCloser) []byte {
	var b bytes.Buffer
	w := writer(&b)
	_, err := w.Write(data)
	must(err)
	must(w.Close())
	return b.Bytes()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

const release = "6.8.0-45-generic"

// mainFiles are what initramfs-tools puts into an image.
var mainFiles = []file{
	{name: ".", mode: 0o040755},
	{name: "etc", mode: 0o040755},
	{name: "etc/modprobe.d/nvidia.conf", content: "options nvidia NVreg_A=1\n"},
	{name: "etc/modprobe.d/notes.txt", content: "no\n"},
	{name: "lib", content: "usr/lib", mode: typeSymlink | 0o777},
	{name: "usr/lib/modprobe.d/systemd.conf", content: "options bonding max_bonds=0\n"},
	{name: "usr/lib/modprobe.d/masked.conf", content: "/dev/null", mode: typeSymlink | 0o777},
	{name: "usr/lib/modprobe.d/linked.conf", content: "../x.conf", mode: typeSymlink | 0o777},
	{name: "usr/lib/modules/" + release + "/kernel/drivers/gpu/nouveau.ko.zst", content: strings.Repeat("\x7fELF", 4000)},
	{name: "usr/lib/modules/" + release + "/updates/dkms/nvidia-drm.ko", content: "\x7fELF"},
	{name: "usr/lib/modules/" + release + "/modules.dep", content: "x"},
	{name: "conf/nvidia.ko", content: "elsewhere"},
}

var mainImage = Image{
	Modules: map[string]string{
		"nouveau":    "/usr/lib/modules/" + release + "/kernel/drivers/gpu/nouveau.ko.zst",
		"nvidia_drm": "/usr/lib/modules/" + release + "/updates/dkms/nvidia-drm.ko",
	},
	Files: []confdir.File{
		{Path: "/etc/modprobe.d/nvidia.conf", Text: "options nvidia NVreg_A=1\n"},
		{Path: "/usr/lib/modprobe.d/linked.conf", Reason: "is a link to ../x.conf"},
		{Path: "/usr/lib/modprobe.d/masked.conf"},
		{Path: "/usr/lib/modprobe.d/systemd.conf", Text: "options bonding max_bonds=0\n"},
	},
}

var microcode = cpio(file{name: "kernel/x86/microcode/GenuineIntel.bin", content: strings.Repeat("u", 70001)})

func read(t *testing.T, parts ...[]byte) (Image, error) {
	t.Helper()
	return Read(bytes.NewReader(bytes.Join(parts, nil)))
}

func TestRead(t *testing.T) {
	for name, compress := range compressions {
		for _, before := range [][]byte{nil, microcode, append(slices.Clone(microcode), make([]byte, 3000)...)} {
			got, err := read(t, before, compress(cpio(mainFiles...)))
			if err != nil {
				t.Errorf("%s behind %d bytes: %v", name, len(before), err)
			} else if diff := cmp.Diff(mainImage, got); diff != "" {
				t.Errorf("%s behind %d bytes (-want +got):\n%s", name, len(before), diff)
			}
		}
	}
}

// What comes later has the place of what came before, also from one part to the next.
func TestReadOverlay(t *testing.T) {
	const conf = "etc/modprobe.d/a.conf"
	got, err := read(t,
		cpio(file{name: "usr/lib/modules/x/a.ko.xz"}, file{name: conf, content: "blacklist a\n"}),
		compressions["gzip"](append(cpio(file{name: "./" + conf, content: "blacklist b\n"}), cpio(file{name: "lib/modules/x/extra/b_b.ko"})...)),
		compressions["gzip"](cpio(file{name: "etc/modprobe.d/c.conf", content: "\xff"})),
	)
	want := Image{
		Modules: map[string]string{"a": "/usr/lib/modules/x/a.ko.xz", "b_b": "/lib/modules/x/extra/b_b.ko"},
		Files:   []confdir.File{{Path: "/" + conf, Text: "blacklist b\n"}, {Path: "/etc/modprobe.d/c.conf", Reason: "is not valid UTF-8"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// dracut makes hard links of files with the same content, and cpio puts that with the last name, others with the first.
func TestReadHardLinks(t *testing.T) {
	link := func(name, content string) file { return file{name: name, content: content, inode: 7, links: 3} }
	for _, order := range [][]file{
		{link("etc/modprobe.d/a.conf", ""), link("etc/x", ""), link("etc/modprobe.d/b.conf", "blacklist a\n")},
		{link("etc/modprobe.d/a.conf", "blacklist a\n"), link("etc/x", ""), link("etc/modprobe.d/b.conf", "")},
		{link("etc/modprobe.d/b.conf", ""), link("etc/modprobe.d/a.conf", ""), link("etc/x", "blacklist a\n")},
	} {
		got, err := read(t, cpio(order...))
		want := []confdir.File{{Path: "/etc/modprobe.d/a.conf", Text: "blacklist a\n"}, {Path: "/etc/modprobe.d/b.conf", Text: "blacklist a\n"}}
		if diff := cmp.Diff(want, got.Files); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestReadHardLinkToElsewhere(t *testing.T) {
	got, err := read(t, cpio(file{name: "etc/x", content: "blacklist a\n", inode: 7, links: 2}, file{name: "etc/modprobe.d/a.conf", inode: 7, links: 2}))
	if err != nil || len(got.Files) != 1 || got.Files[0].Reason == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// An image that is cut off anywhere is not whole, but for zeros at its end.
func TestReadCutOff(t *testing.T) {
	archive := cpio(mainFiles...)
	for name, compress := range compressions {
		whole := compress(archive)
		end := len(bytes.TrimRight(whole, "\x00"))
		if name == "none" {
			end += 4 // the name's end and its padding
		} else {
			end = len(whole)
		}
		for cut := 1; cut < end; cut += 1 + len(whole)/300 {
			if _, err := read(t, whole[:cut]); err == nil {
				t.Errorf("%s: %d of %d bytes are whole", name, cut, end)
			}
		}
	}
}

func TestReadBroken(t *testing.T) {
	header := cpio(file{name: "a"})
	for name, test := range map[string]struct {
		data []byte
		says string
	}{
		"nothing":                        {nil, "no archive"},
		"zeros":                          {make([]byte, 512), "no archive"},
		"text":                           {[]byte("not an image"), "nothing compressed, begins with 6e6f7420616e"},
		"lzo":                            {[]byte("\x89LZO\x00\r\n\x1a\n"), "compressed with lzo, which is not read"},
		"a number":                       {append([]byte("070701xxxxxxxx"), header[14:]...), "no number"},
		"a name":                         {append(append(slices.Clone(header[:94]), "00ffffff"...), header[102:]...), "a name of 16777215 bytes"},
		"behind an archive":              {append(slices.Clone(header), "garbage"...), "begins with"},
		"compressed text":                {compressions["gzip"]([]byte("not an archive")), "gzip: no archive begins with"},
		"compressed twice":               {compressions["gzip"](compressions["gzip"](header)), "gzip: no archive begins with"},
		"a checksum":                     {damaged(compressions["zstd"](cpio(mainFiles...))), "zstd: "},
		"more configuration than is one": {cpio(file{name: "etc/modprobe.d/a.conf", content: strings.Repeat("#", maxText+1)}), "larger than what is read"},
	} {
		if _, err := read(t, test.data); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, wanted %q", name, err, test.says)
		}
	}
}

func damaged(data []byte) []byte {
	data[len(data)-1] ^= 1
	return data
}

func FuzzRead(f *testing.F) {
	small := cpio(mainFiles[:7]...)
	for _, compress := range compressions {
		f.Add(compress(small))
		f.Add(append(slices.Clone(microcode[:512]), compress(small)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		image, err := Read(bytes.NewReader(data))
		if err != nil && (len(image.Modules) > 0 || len(image.Files) > 0) {
			t.Errorf("%v, and yet %v", err, image)
		}
		for name, p := range image.Modules {
			if got, ok := moduleName(p); !ok || got != name {
				t.Errorf("%s is at %s", name, p)
			}
		}
		for _, file := range image.Files {
			if !inModprobeDir(file.Path) || file.Reason != "" && file.Text != "" {
				t.Errorf("%+v", file)
			}
		}
	})
}
