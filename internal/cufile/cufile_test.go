package cufile_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/cufile"
)

// vendors is the file as the CUDA toolkit brings it, shortened.
func vendors(t testing.TB) string {
	text, err := os.ReadFile("testdata/cufile.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(t testing.TB, text string) cufile.File {
	t.Helper()
	f, err := cufile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGet(t *testing.T) {
	f := parse(t, vendors(t))
	for key, want := range map[string]struct {
		value string
		line  int
		found bool
	}{
		"properties.allow_compat_mode":     {"true", 22, true},
		"properties.max_direct_io_size_kb": {"16384", 24, true},
		"properties.rdma_dev_addr_list":    {"[]", 26, true},
		"logging.level":                    {`"ERROR"`, 10, true},
		"logging.dir":                      {},
		"properties.use_pci_p2pdma":        {},
		"logging.level.deeper":             {},
	} {
		value, line, found := f.Get(key)
		if value != want.value || line != want.line || found != want.found {
			t.Errorf("%s is %s on line %d (%v), want %+v", key, value, line, found, want)
		}
	}
}

func TestSet(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		settings   []cufile.Setting
		want       string // "": what follows from old and new
		old, new   string
	}{
		{
			name: "a value in its place", text: vendors(t), settings: []cufile.Setting{{"properties.allow_compat_mode", "false"}, {"logging.level", `"INFO"`}},
			old: `"ERROR"` + "\n", new: `"INFO"` + "\n",
		},
		{
			name: "a list", text: vendors(t), settings: []cufile.Setting{{"properties.rdma_dev_addr_list", `["10.0.1.2","10.0.2.2"]`}},
			old: `"rdma_dev_addr_list": [ ]`, new: `"rdma_dev_addr_list": ["10.0.1.2","10.0.2.2"]`,
		},
		{
			name: "a member more, behind comments", text: vendors(t), settings: []cufile.Setting{{"properties.use_pci_p2pdma", "true"}},
			old: `"rdma_dev_addr_list": [ ]
                            //32-bit dc key value in hex
                            //"rdma_dc_key": "0xffeeddcc",
            }`,
			new: `"rdma_dev_addr_list": [ ],
                            //32-bit dc key value in hex
                            //"rdma_dc_key": "0xffeeddcc",
                            "use_pci_p2pdma": true
            }`,
		},
		{
			name: "a section more", text: vendors(t), settings: []cufile.Setting{{"fs.generic.posix_unaligned_writes", "false"}},
			old: `//"rdma_dc_key": "0xffeeddcc",
            }
}`,
			new: `//"rdma_dc_key": "0xffeeddcc",
            },
            "fs": {
                "generic": {
                    "posix_unaligned_writes": false
                }
            }
}`,
		},
		{name: "no file", settings: []cufile.Setting{{"properties.use_pci_p2pdma", "true"}, {"properties.allow_compat_mode", "false"}}, want: "{\n    \"properties\": {\n        \"use_pci_p2pdma\": true,\n        \"allow_compat_mode\": false\n    }\n}\n"},
		{name: "a comma behind the last one", text: "{\n  \"a\": {\n    \"b\": 1, // one\n  },\n}\n", settings: []cufile.Setting{{"a.c", "2"}}, want: "{\n  \"a\": {\n    \"b\": 1, // one\n    \"c\": 2,\n  },\n}\n"},
		{name: "a comment behind the last one", text: "{ \"a\": {\n    \"b\": 1 // one\n} }", settings: []cufile.Setting{{"a.c", "2"}}, want: "{ \"a\": {\n    \"b\": 1, // one\n    \"c\": 2\n} }"},
		{name: "on one line", text: `{"a": {"b": 1}}`, settings: []cufile.Setting{{"a.b", "2"}}, want: `{"a": {"b": 2}}`},
		{name: "nothing", text: vendors(t), old: "x", new: "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(t, tt.text).Set(tt.settings)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want == "" {
				want = strings.Replace(tt.text, tt.old, tt.new, 1)
			}
			if tt.name == "a value in its place" {
				want = strings.Replace(want, `"allow_compat_mode": true`, `"allow_compat_mode": false`, 1)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, text := range []string{"{", "[]", "1", `{"a": 1} x`, `{"a" 1}`, `{"a": {"b": 1, "\u0062": 2}}`} {
		if _, err := cufile.Parse(text); err == nil {
			t.Errorf("%q is parsed", text)
		}
	}
	if got, err := parse(t, `{"properties": 1}`).Set([]cufile.Setting{{"properties.a", "1"}}); err == nil {
		t.Errorf("through a number: %s", got)
	}
	for _, key := range []string{"", "a", "a.", ".a", "a.b/c", "a b.c"} {
		if cufile.CheckKey(key) == nil {
			t.Errorf("%q is a key", key)
		}
	}
	for _, value := range []string{"", "null", "{}", "x", "1 // one", "[1,]"} {
		if cufile.CheckValue(value) == nil {
			t.Errorf("%q is a value", value)
		}
	}
	for _, value := range []string{"true", "1", "0.5", `"x"`, `["10.0.1.2"]`} {
		if err := cufile.CheckValue(value); err != nil {
			t.Error(err)
		}
	}
	if err := cufile.CheckKey("fs.generic.posix_unaligned_writes"); err != nil {
		t.Error(err)
	}
}

func TestEqual(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{{"1", "1.0", true}, {`["a","b"]`, `[ "a", "b" ]`, true}, {"true", `"true"`, false}, {"1", "2", false}, {"x", "x", false}} {
		if cufile.Equal(tt.a, tt.b) != tt.want {
			t.Errorf("%s and %s: want %v", tt.a, tt.b, tt.want)
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add(vendors(f), "properties.use_pci_p2pdma")
	f.Add("{}", "a.b")
	f.Add(`{"a":{"b":1,},/**/}`, "a.c")
	f.Add(`{"a":{}//x`+"\n}", "a.c.d")
	f.Fuzz(func(t *testing.T, text, key string) {
		file, err := cufile.Parse(text)
		if err != nil || cufile.CheckKey(key) != nil {
			return
		}
		if same, err := file.Set(nil); err != nil || strings.TrimSpace(text) != "" && same != text {
			t.Fatalf("without settings %q becomes %q: %v", text, same, err)
		}
		edited, err := file.Set([]cufile.Setting{{key, "17"}})
		if err != nil {
			return
		}
		again, err := cufile.Parse(edited)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", text, edited, err)
		}
		if value, _, found := again.Get(key); !found || value != "17" {
			t.Fatalf("%q becomes %q, where %s is %s (%v)", text, edited, key, value, found)
		}
		for _, other := range []string{"properties.allow_compat_mode", "a.b"} {
			before, _, had := file.Get(other)
			after, _, has := again.Get(other)
			if !strings.HasPrefix(key, other) && !strings.HasPrefix(other, key) && (had != has || before != after) {
				t.Fatalf("%s was %s (%v), is %s (%v): %q becomes %q", other, before, had, after, has, text, edited)
			}
		}
	})
}
