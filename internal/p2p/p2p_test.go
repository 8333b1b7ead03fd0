package p2p

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// document is what busbar probe p2p --json wrote (report's golden file).
func document(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "report", "testdata", "p2p.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestRead(t *testing.T) {
	r, err := Read(strings.NewReader(document(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.GPUs) != 3 || len(r.Pairs) != 6 || r.Size != 512<<20 || r.CUDA != "13.0" {
		t.Errorf("%+v", r)
	}
	p, ok := r.Pair("0000:1b:00.0", "0000:43:00.0")
	if !ok || p.OneWay == nil || *p.OneWay != 396.12 || p.Checks[0].Bytes != 512<<20 {
		t.Errorf("%+v", p)
	}
	if _, ok := r.Pair("0000:1b:00.0", "0000:1b:00.0"); ok {
		t.Error("a GPU is paired with itself")
	}
}

func TestReadRefuses(t *testing.T) {
	good := document(t)
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "is no JSON document of busbar probe p2p: unexpected end of JSON input"},
		{"cut off", good[:len(good)/2], "is no JSON document of busbar probe p2p"},
		{"another command", `{"format_version":"1.0","command":"topo"}`, `its command is "topo"`},
		{"a newer major version", strings.Replace(good, `"format_version": "1.0"`, `"format_version": "2.0"`, 1), `has format_version "2.0", and this busbar reads 1`},
		{"a failure", `{"format_version":"1.0","command":"probe p2p","error":"the GPUs are in use","exit_code":1}`, "has no result: the GPUs are in use"},
		{"no pair", `{"format_version":"1.0","command":"probe p2p","size_bytes":8,"pairs":[]}`, "has no pair that was measured"},
		{"too large", good + strings.Repeat(" ", maxDocument), "is larger than 16 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	newer := strings.Replace(good, `"format_version": "1.0"`, `"format_version": "1.7", "more": 1`, 1)
	if _, err := Read(strings.NewReader(newer)); err != nil {
		t.Errorf("a newer minor version: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(document(f))
	f.Add("")
	f.Add(`{"format_version":"1.0","command":"probe p2p","size_bytes":8,"pairs":[{"from":"a","to":"b"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		if r.Size <= 0 || len(r.Pairs) == 0 {
			t.Errorf("%+v", r)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 512 << 20: "512 MiB", 1 << 30: "1 GiB", 3 << 29: "1.5 GiB", 143 << 30: "143 GiB", 1000: "1000 bytes"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
