package nccltests

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func example(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func parse(t testing.TB, text string) Result {
	t.Helper()
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func one(t testing.TB, name string) Run {
	t.Helper()
	r := parse(t, example(t, name))
	if len(r.Runs) != 1 {
		t.Fatalf("%s: %d runs", name, len(r.Runs))
	}
	return r.Runs[0]
}

// The outputs are of clusters whose owners published them, versions 2.0 to 2.17, shortened; one has what mpirun and NCCL put between.
func TestParse(t *testing.T) {
	a100 := one(t, "all_reduce-2.17-a100.txt")
	devices := a100.Devices
	a100.Devices = nil
	if diff := cmp.Diff(Run{
		Collective: "all_reduce_perf",
		Rows: []Row{{
			Size: 10737418240, Count: 2684354560, Type: "float", RedOp: "sum", Root: new(-1),
			OutOfPlace: &Measure{Time: 90330, AlgBW: 118.87, BusBW: 222.88, Wrong: new(int64(0))}, InPlace: &Measure{Time: 91945, AlgBW: 116.78, BusBW: 218.96, Wrong: new(int64(0))},
		}},
		OutOfBounds: new(int64(0)), Average: new(220.921),
	}, a100); diff != "" {
		t.Error(diff)
	}
	if len(devices) != 8 || devices[7] != (Device{Rank: 7, Host: "inst-lscuv-ao-ub24", PCI: "0000:da:00", Name: "NVIDIA A100-SXM4-40GB"}) {
		t.Errorf("%+v", devices)
	}

	b200 := one(t, "all_reduce-2.17-tagged.txt")
	if len(b200.Rows) != 5 || b200.Broken != 0 || b200.Version != "2.17.6" || b200.NCCL != "22602" || b200.Rows[4].InPlace.BusBW != 683.49 {
		t.Errorf("%+v", b200)
	}
	v100 := one(t, "all_reduce-2.0-v100-error.txt")
	if len(v100.Rows) != 3 || len(v100.Devices) != 2 || v100.Devices[1].PCI != "0x50" || v100.Rows[2].OutOfPlace.Wrong != nil || v100.Rows[2].Root != nil || v100.Rows[2].InPlace.BusBW != 0.02 || !v100.Errors || v100.Name() != "nccl-tests" {
		t.Errorf("%+v", v100)
	}
	unchecked := one(t, "all_gather-unchecked.txt")
	if len(unchecked.Rows) != 3 || unchecked.Rows[2].OutOfPlace.Wrong != nil || unchecked.Rows[2].OutOfPlace.BusBW != 70.90 || unchecked.Rows[2].RedOp != "none" {
		t.Errorf("%+v", unchecked)
	}
	plain := one(t, "all_gather-no-operation.txt")
	if len(plain.Rows) != 3 || plain.Rows[1].RedOp != "" || plain.OutOfBounds != nil || plain.Errors || plain.Rows[1].InPlace.Time != 34.15 {
		t.Errorf("%+v", plain)
	}
	if alone := one(t, "all_reduce-one-rank.txt"); len(alone.Devices) != 2 || alone.Rows[1].InPlace.AlgBW != 3253763.10 {
		t.Errorf("%+v", alone)
	}
}

const head = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"

func TestParseForms(t *testing.T) {
	rows := func(text string) []Row { return parse(t, text).Runs[0].Rows }
	wrong := rows(head + "8 2 float sum -1 22.5 0.00 0.00 1.048e+06 22.5 0.00 0.00 3\n")[0]
	if *wrong.OutOfPlace.Wrong != 1048000 || *wrong.InPlace.Wrong != 3 {
		t.Errorf("%+v", wrong)
	}
	if r := rows(head + "8 2 f8e4m3 prod 3 22.5 0.00 0.00 0 22.5 0.00 0.00 0\n")[0]; r.Type != "f8e4m3" || r.RedOp != "prod" || *r.Root != 3 {
		t.Errorf("%+v", r)
	}
	if r := rows(head + "8 2 float sum -1 22.5 1.00 2.00 0\n")[0]; r.OutOfPlace != nil || r.InPlace.BusBW != 2 {
		t.Errorf("in place alone: %+v", r)
	}
	stamped := "# size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong timestamp\n8 2 float sum -1 22.5 1.00 2.00 0 22.5 1.00 3.00 0  2026-01-02 03:04:05\n"
	if r := rows(stamped)[0]; r.InPlace.BusBW != 3 || r.InPlace.Time != 22.5 {
		t.Errorf("with a time: %+v", r)
	}
	iterations := "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min i_max i_p99 i_cv%\n8 2 float sum -1 22.5 1.00 2.00 0 1 2 3 4 22.5 1.00 3.00 0 1 2 3 4\n"
	if r := rows(iterations)[0]; r.OutOfPlace.BusBW != 2 || r.InPlace.BusBW != 3 {
		t.Errorf("with iterations: %+v", r)
	}

	several := parse(t, "# nThread 1 nGpus 8 minBytes 8\n"+head+"8 2 float sum -1 22.5 0 1 0 22.5 0 1 0\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n"+
		"# nThread 1 nGpus 8 minBytes 8\n# Collective test starting: all_gather_perf\n"+head+"8 2 float none -1 22.5 0 1 0 22.5 0 1 0\ngpu-1: Test NCCL failure common.cu:1005 'unhandled cuda error'\n .. gpu-1 pid 7: Test failure common.cu:891\n").Runs
	if len(several) != 2 || several[0].Failure != "" || several[1].Failure != "Test NCCL failure common.cu:1005 'unhandled cuda error'" || several[1].Collective != "all_gather_perf" || several[1].OutOfBounds != nil {
		t.Errorf("%+v", several)
	}
	torn := parse(t, head+"8 2 float sum -1 22.5 gpu-1:7:7 [0] NCCL INFO x\n16 4 float sum -1 inf 0 0 0 22.5 0 0 0\n32 8 float sum -1 22.5 0 1 0 22.5 0 1 0\n").Runs[0]
	if torn.Broken != 2 || len(torn.Rows) != 1 {
		t.Errorf("%+v", torn)
	}
	for _, text := range []string{"", "hello", "8 2 float sum -1 22.5 0 1 0 22.5 0 1 0\n", head, "#  bytes  N  type  op  time  algbw  busbw  res  time  algbw  busbw  res\n 9 2 float sum 1 1 1 1 1 1 1 1\n"} {
		if r, err := Parse(text); err == nil {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

func TestAlike(t *testing.T) {
	r := Row{Size: 8, Type: "float", RedOp: "sum"}
	same, other := r, r
	same.Root, other.Root = new(-1), new(0)
	if !r.Alike(same) || r.Alike(other) || r.Alike(Row{Size: 16, Type: "float", RedOp: "sum"}) || r.Alike(Row{Size: 8, Type: "half", RedOp: "sum"}) {
		t.Error("rows are compared by size, type, operation and root")
	}
}

func TestRead(t *testing.T) {
	want := parse(t, example(t, "all_reduce-2.17-a100.txt"))
	raw, err := json.Marshal(struct {
		FormatVersion string `json:"format_version"`
		Command       string `json:"command"`
		Result
	}{"1.7", Command, want})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(raw), example(t, "all_reduce-2.17-a100.txt")} {
		got, err := Read(strings.NewReader(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
	for want, text := range map[string]string{
		"has no table":                          "",
		"unexpected end of JSON input":          string(raw[:len(raw)/2]),
		`its command is "topo"`:                 `{"format_version":"1.0","command":"topo"}`,
		`has format_version "2.0"`:              `{"format_version":"2.0","command":"probe nccl-tests"}`,
		"has no result: no table":               `{"format_version":"1.0","command":"probe nccl-tests","error":"no table"}`,
		"has no run":                            `{"format_version":"1.0","command":"probe nccl-tests","runs":[]}`,
		"is larger than 64 MiB":                 strings.Repeat(" ", maxInput+1),
		"is no whole JSON document, neither of": `{"runs": 7}`,
		"has no results of nccl-tests":          `{"version": 2, "args": ["all_reduce_perf"], "nccl_version": 22907}`,
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The file has what version 2.19 of src/util.cu writes of an output that was published.
func TestReadReport(t *testing.T) {
	read := func(edits ...string) Run {
		t.Helper()
		r, err := Read(strings.NewReader(strings.NewReplacer(edits...).Replace(example(t, "all_reduce-2.19.json"))))
		if err != nil || len(r.Runs) != 1 {
			t.Fatal(r, err)
		}
		return r.Runs[0]
	}
	half := func(time, algBW, busBW float64) *Measure { return &Measure{time, algBW, busBW, new(int64(0))} }
	want := Run{
		Collective: "all_reduce_perf", NCCL: "22907", OutOfBounds: new(int64(0)), Average: new(220.921),
		Devices: []Device{{0, "inst-lscuv-ao-ub24", "0000:0f:00", "NVIDIA A100-SXM4-40GB"}, {1, "inst-lscuv-ao-ub24", "0000:15:00", "NVIDIA A100-SXM4-40GB"}},
		Rows:    []Row{{10737418240, 2684354560, "float", "sum", new(-1), half(90330, 118.87, 222.88), half(91945, 116.78, 218.96)}},
	}
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Error(diff)
	}
	if r := read(`"average_bus_bandwidth"`, `"average_bus_bandwidith"`, `"bandwidth":`, `"bandwidith":`); *r.Average != 220.921 {
		t.Errorf("misspelt: %+v", r)
	}
	if r := read(`"ngpus":1`, `"ngpus":4`); r.Size() != 8 || len(r.Devices) != 2 {
		t.Errorf("four GPUs a process: %+v", r)
	}
	if r := read(`"nwrong":0.000000`, `"nwrong":null`); r.Rows[0].InPlace.Wrong != nil {
		t.Errorf("not compared: %+v", r)
	}
	if r := read(`"nwrong":0.000000`, `"nwrong":3.000000`, `"time"`, `"cpu_time"`); *r.Rows[0].InPlace.Wrong != 3 || r.Rows[0].InPlace.Time != 91945 {
		t.Errorf("wrong values: %+v", r)
	}
	if r := read(`"out_of_place":{"time":90330.000000,"alg_bw":118.870000,"bus_bw":222.880000,"nwrong":0.000000}`, `"out_of_place":null`); r.Rows[0].OutOfPlace != nil || r.Broken != 0 {
		t.Errorf("in place alone: %+v", r)
	}
	if r := read("118.870000", `"nan"`); r.Broken != 1 || len(r.Rows) != 0 {
		t.Errorf("no number: %+v", r)
	}
	if r := read(`"out_of_bounds"`, `"x"`, `"errors":[""]`, `"errors":["unhandled system error"]`); r.Failure != "unhandled system error" || r.OutOfBounds != nil {
		t.Errorf("gave up: %+v", r)
	}
}

func TestBaseline(t *testing.T) {
	good := parse(t, example(t, "all_reduce-2.17-tagged.txt"))
	if err := good.Baseline(1 << 20); err != nil {
		t.Error(err)
	}
	for want, edit := range map[string]func(*Run){
		"bus bandwidth of 0 GB/s at a size of 34359738368 bytes": func(r *Run) { r.Rows[len(r.Rows)-1].InPlace = &Measure{Time: 1} },
		"bus bandwidth of NaN GB/s":                              func(r *Run) { r.Rows[len(r.Rows)-1].OutOfPlace = &Measure{BusBW: math.NaN()} },
		"bus bandwidth of -5 GB/s":                               func(r *Run) { r.Rows[len(r.Rows)-1].OutOfPlace = &Measure{BusBW: -5} },
		"has nothing that was measured":                          func(r *Run) { r.Rows[len(r.Rows)-1] = Row{Size: 1 << 30} },
		"did not come to its end":                                func(r *Run) { r.Failure = "Test failure" },
		"rows that cannot be read":                               func(r *Run) { r.Broken = 1 },
	} {
		bad := parse(t, example(t, "all_reduce-2.17-tagged.txt"))
		edit(&bad.Runs[0])
		if err := bad.Baseline(1 << 20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		bad.Runs[0].Failure, bad.Runs[0].Broken = "", 0
		if err := bad.Baseline(1 << 40); err != nil {
			t.Errorf("small rows are not compared: %v", err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(example(f, "all_reduce-2.19.json")))
	f.Add([]byte(`{"args": [], "config": {"nthreads": 9, "ngpus": 9}, "results": [{"size": 8, "in_place": {"time": "nan", "alg_bw": 1e999}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) < 6 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		f.Add(example(f, filepath.Base(name)))
	}
	f.Add(head + "8 2 float sum -1 inf nan 1e999 0 22.5 0 1 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		for _, run := range r.Runs {
			if len(run.Rows) == 0 && run.Broken == 0 && run.Failure == "" {
				t.Errorf("%+v", run)
			}
			if slices.ContainsFunc(run.Rows, func(r Row) bool { return r.Size < 0 || r.InPlace == nil || r.InPlace.BusBW < 0 }) {
				t.Errorf("%+v", run.Rows)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}
