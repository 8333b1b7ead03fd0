package ncclconf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	v225 = Version{2, 25, 1}
	v229 = Version{2, 29, 7}
	v230 = Version{2, 30, 7}
)

func casesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: a directory with nccl-*.conf and EXPECT.tsv")
	}
	return dir
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseVersion(t *testing.T) {
	for s, want := range map[string]Version{
		"2.26.2":          {2, 26, 2},
		"v2.30.7-1":       v230,
		"2.27.3+cuda12.9": {2, 27, 3},
	} {
		got, err := ParseVersion(s)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "2.26", "2.26.x", "2..3", "-1.2.3", "2.3.4.5", "2.3.99999999999"} {
		if got, err := ParseVersion(s); err == nil {
			t.Errorf("%q: %v without an error", s, got)
		}
	}
	if (Version{2, 30, 3}).Compare(Version{2, 4, 8}) <= 0 || (Version{}).Known() || (Version{}).String() != "unknown" {
		t.Error("order, or the zero version")
	}
}

func TestParse(t *testing.T) {
	long := strings.Repeat("x", 1100)
	tail := "NCCL_A=" + strings.Repeat("y", maxChunk-len("NCCL_A=")) + "NCCL_B=2\n"
	for _, tt := range []struct {
		name, text string
		old, mid   map[string]string
		new        map[string]string
	}{
		{name: "first wins", text: "A=1\nA=2\n", old: map[string]string{"A": "1"}, mid: map[string]string{"A": "1"}, new: map[string]string{"A": "1"}},
		{name: "comment", text: "#A=1\n #B=2", old: map[string]string{"#A": "1", " #B": "2"}, mid: map[string]string{" #B": "2"}, new: map[string]string{" #B": "2"}},
		{name: "CR", text: "A=1\r\r\nB=2\r", old: map[string]string{"A": "1\r\r", "B": "2\r"}, mid: map[string]string{"A": "1\r\r", "B": "2\r"}, new: map[string]string{"A": "1\r", "B": "2"}},
		{name: "no trimming", text: " A = 1 \n=x\nB\n\nC==y", old: map[string]string{" A ": " 1 ", "C": "=y"}, mid: map[string]string{" A ": " 1 ", "C": "=y"}, new: map[string]string{" A ": " 1 ", "C": "=y"}},
		{name: "BOM and NUL", text: "\ufeffA=1\nB=2\x003\r\nC\x00=4\n", old: map[string]string{"\ufeffA": "1", "B": "2"}, mid: map[string]string{"\ufeffA": "1", "B": "2"}, new: map[string]string{"\ufeffA": "1", "B": "2"}},
		{name: "cut", text: "A=" + long + "\n" + long + "=1", old: map[string]string{"A": long[:1023], long[:1023]: "1"}, mid: map[string]string{"A": long[:1023], long[:1023]: "1"}, new: map[string]string{"A": long[:1023], long[:1023]: "1"}},
		{name: "chunks", text: tail, old: map[string]string{"NCCL_A": tail[7:1030]}, mid: map[string]string{"NCCL_A": tail[7:1030]}, new: map[string]string{"NCCL_A": tail[7:1030], "NCCL_B": "2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for v, want := range map[Version]map[string]string{v225: tt.old, v229: tt.mid, v230: tt.new} {
				if diff := cmp.Diff(want, Parse(tt.text, v).Effective()); diff != "" {
					t.Errorf("%s: %s", v, diff)
				}
			}
		})
	}
	if diff := cmp.Diff(map[string]string{"A": "1"}, Parse("#X=1\nA=1\nB=2\r\n", Version{}).Effective()); diff != "" {
		t.Error("unknown version:", diff)
	}
	want := []Entry{{Line: 2, Key: "A", Value: "1", Raw: "A=1\r"}}
	if diff := cmp.Diff(want, Parse("\nA=1\r\n", v230).Readings[0].Entries); diff != "" {
		t.Error(diff)
	}
}

func TestEffectiveCases(t *testing.T) {
	dir := casesDir(t)
	var want map[string]map[string]map[string]string
	if err := json.Unmarshal([]byte(read(t, dir, "nccl-effective-env.expected.json")), &want); err != nil {
		t.Fatal(err)
	}
	versions := map[string][]Version{
		"before_2.26.2":    {{2, 3, 5}, v225},
		"2.26.2_to_2.29.7": {{2, 26, 2}, v229},
		"2.30.3_and_later": {{2, 30, 3}, v230},
	}
	for file, bands := range want {
		text := read(t, dir, file)
		for band, effective := range bands {
			if len(versions[band]) == 0 {
				t.Fatalf("unexpected band %s", band)
			}
			for _, v := range versions[band] {
				if diff := cmp.Diff(effective, Parse(text, v).Effective()); diff != "" {
					t.Errorf("%s with %s: %s", file, v, diff)
				}
			}
		}
	}
}

func verdict(remarks []Remark) string {
	worst := "PASS"
	for _, r := range remarks {
		switch r.Severity {
		case Error:
			return "FAIL"
		case Warn:
			worst = "WARN"
		}
	}
	return worst
}

func TestLintCases(t *testing.T) {
	dir := casesDir(t)
	eighteen := Env{HCAs: strings.Fields(read(t, dir, "ibdev-18-hcas.txt"))}
	judged := 0
	for row := range strings.Lines(read(t, dir, "EXPECT.tsv")) {
		columns := strings.Split(strings.TrimSpace(row), "\t")
		file := columns[0]
		if !strings.HasPrefix(file, "nccl-") || !strings.HasSuffix(file, ".conf") {
			continue
		}
		judged++
		text := read(t, dir, file)
		want := columns[2][:4]
		for _, v := range []Version{{}, v225, v229, v230} {
			for name, env := range map[string]Env{"unknown node": {}, "18 HCAs": eighteen} {
				want := want
				switch {
				case file == "nccl-trap-empty-file.conf": // FAIL is for the wanted keys
					if len(Missing(text, []Setting{{"NCCL_DEBUG", "WARN"}}, v)) != 1 {
						t.Error("empty file: nothing is missing")
					}
					want = "PASS"
				case strings.HasPrefix(file, "nccl-trap-hca-prefix") && env.HCAs == nil:
					want = "PASS"
				case file == "nccl-coreweave-ib.conf" && env.HCAs != nil: // no ibp there
					want = "FAIL"
				case file == "nccl-trap-crlf.conf" && v == v230:
					want = "PASS"
				}
				got := Lint(text, v, env)
				if verdict(got) != want {
					t.Errorf("%s, NCCL %s, %s: %s, want %s: %+v", file, v, name, verdict(got), want, got)
				}
			}
		}
	}
	if judged < 25 {
		t.Errorf("only %d cases found", judged)
	}
}

func TestInt(t *testing.T) {
	for value, want := range map[string]struct {
		n     int64
		exact bool
	}{
		"0": {0, true}, "22": {22, true}, "-1": {-1, true}, "+5": {5, true}, "0x10": {16, true}, "0XfF": {255, true}, "007": {7, true},
		"9223372036854775807": {1<<63 - 1, true}, "-9223372036854775808": {-1 << 63, true},
		"": {0, false}, "true": {0, false}, `"3"`: {0, false}, "-": {0, false}, " 3": {3, false}, "3 # c": {3, false}, "4M": {4, false},
		"022": {18, false}, "-010": {-8, false}, "08": {0, false}, "0x": {0, false}, "0xg": {0, false}, "1.5": {1, false}, "- 1": {0, false},
		"9223372036854775808": {0, false}, "-99999999999999999999": {0, false},
	} {
		n, exact, note := Int(value)
		if n != want.n || exact != want.exact || exact != (note == "") {
			t.Errorf("%q: %d, %v, %q", value, n, exact, note)
		}
	}
}

func TestLists(t *testing.T) {
	devices := []string{"mlx5_0", "mlx5_1", "mlx5_10", "mlx5_11"}
	for value, want := range map[string][]string{
		"":                 devices,
		"=":                devices,
		"^":                nil,
		"mlx5_1":           {"mlx5_1", "mlx5_10", "mlx5_11"},
		"mlx5_1:1":         {"mlx5_1", "mlx5_10", "mlx5_11"},
		"=mlx5_1,,mlx5_0":  {"mlx5_0", "mlx5_1"},
		"^mlx5_1":          {"mlx5_0"},
		"^=mlx5_1":         {"mlx5_0", "mlx5_10", "mlx5_11"},
		"=^mlx5_1":         nil,
		"=mlx5_0, mlx5_1":  {"mlx5_0"},
		"=mlx5_11:1:2:0,:": {"mlx5_11"},
	} {
		if diff := cmp.Diff(want, HCAList(value).Match(devices)); diff != "" {
			t.Errorf("%q: %s", value, diff)
		}
	}
	want := List{Exact: true, Items: []Item{{"a", 1, -1, 3}, {"b", 0, -1, -1}}}
	if diff := cmp.Diff(want, HCAList("=a:1::3:9,b:x")); diff != "" {
		t.Error(diff)
	}
	if l := HCAList("mlx5_0:2"); l.Selects("mlx5_0", 1) || !l.Selects("mlx5_0", 2) {
		t.Error("port")
	}
	if l := HCAList(strings.Repeat("a,", 40)); len(l.Items) != 32 || l.Dropped != 8 {
		t.Errorf("%d items, %d dropped", len(l.Items), l.Dropped)
	}
	if l := IfnameList("^"); !l.Selects("eth0", -1) {
		t.Error("one byte is not unset")
	}
	if got := IfnameList("^docker,lo").Match([]string{"lo", "docker0", "eth0"}); !slices.Equal(got, []string{"eth0"}) {
		t.Error(got)
	}
}

func TestKeys(t *testing.T) {
	for name, table := range map[string][]Key{"documented": documented, "undocumented": undocumented} {
		if !slices.IsSortedFunc(table, func(a, b Key) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s is not sorted", name)
		}
	}
	seen := map[string]bool{}
	for _, k := range slices.Concat(documented, undocumented) {
		if seen[k.Name] || !strings.HasPrefix(k.Name, prefix) || k.Kind == "" || k.Min > k.Max {
			t.Errorf("%+v", k)
		}
		seen[k.Name] = true
		words := k.Kind == Enum || k.Kind == Tokens || k.Kind == Tuning || k.Kind == Level
		if words != (len(k.Values) > 0) {
			t.Errorf("%s: kind %s, values %v", k.Name, k.Kind, k.Values)
		}
	}
	if k, ok := LookupKey("NCCL_IB_TIMEOUT"); !ok || k.Max != 31 || k.Doc == "" {
		t.Errorf("%+v", k)
	}
	for name, want := range map[string]string{
		"NCCL_IB_HCAS":        "NCCL_IB_HCA",
		"NCCL_SOCKETIFNAME":   "NCCL_SOCKET_IFNAME",
		"nccl_debug":          "NCCL_DEBUG",
		"NCLL_DEBUG":          "NCCL_DEBUG",
		"NCCL_DEBUG":          "",
		"NCCL_FASTRAK_IFNAME": "",
		"NCCL_TUNER_PLUGIN":   "",
		"NCCL_FOO":            "",
		"":                    "",
	} {
		if got := Suggest(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// ids lists the remarks as "line severity id".
func ids(remarks []Remark) []string {
	var all []string
	for _, r := range remarks {
		all = append(all, string(rune('0'+r.Line))+" "+string(r.Severity)+" "+r.ID)
	}
	return all
}

func TestLint(t *testing.T) {
	hcas := Env{HCAs: []string{"mlx5_0", "mlx5_1", "mlx5_10"}}
	nics := Env{Interfaces: []string{"lo", "docker0", "bond0", "bond0.7", "eth0"}}
	files := func(exists bool) Env {
		return Env{FileExists: func(string) (bool, bool) { return exists, true }}
	}
	for _, tt := range []struct {
		name, text string
		v          Version
		env        Env
		want       []string
	}{
		{name: "nothing to say", text: "# plain\n\nNCCL_IB_HCA==mlx5_0,mlx5_1\nNCCL_IB_TIMEOUT=22\nNCCL_DEBUG=WARN\nNCCL_P2P_DISABLE=0\nNCCL_NETDEVS_POLICY=max:2\nNCCL_ALGO=\nNCCL_NCCL_ALLOC_P2P_NET_LL_BUFFERS=1\n", env: hcas,
			want: []string{"8 info nccl.empty_value", "9 info nccl.plugin_key"}},
		{name: "quotes", text: "NCCL_IB_TIMEOUT=\"22\"\nNCCL_IB_HCA='mlx5_0'\nNCCL_SOCKET_IFNAME=\"eth0\n", want: []string{"1 error nccl.quoted_integer", "2 error nccl.quoted_string", "3 error nccl.quoted_string"}},
		{name: "integers", text: "NCCL_IB_TIMEOUT=099\nNCCL_IB_SL=3 # sl\nNCCL_CROSS_NIC=yes\nNCCL_IB_ECE_ENABLE=off\nNCCL_NSOCKS_PERTHREAD=4x\nNCCL_IB_TC= 106\nNCCL_IB_PKEY=0x1\nNCCL_IB_RETRY_CNT=99999999999999999999\nNCCL_SOCKET_NTHREADS=many\n",
			want: []string{"1 error nccl.octal", "2 warn nccl.inline_comment", "3 error nccl.word_integer", "4 warn nccl.word_integer", "5 error nccl.trailing_junk", "6 info nccl.blank_around_equals", "8 error nccl.overflow", "9 error nccl.not_integer"}},
		{name: "ranges", text: "NCCL_IB_TIMEOUT=32\nNCCL_IGNORE_CPU_AFFINITY=2\nNCCL_IB_QPS_PER_CONNECTION=0\n", want: []string{"1 error nccl.out_of_range", "2 warn nccl.out_of_range", "3 error nccl.out_of_range"}},
		{name: "words", text: "NCCL_DEBUG=warning\nNCCL_SOCKET_FAMILY=af_inet\nNCCL_NETDEVS_POLICY=MAX:N\nNCCL_DEBUG_SUBSYS=^INIT, NET\nNCCL_CTA_POLICY=zero|default\nNCCL_IB_ADDR_RANGE=10.0.0.0\n",
			want: []string{"1 info nccl.unfit", "1 error nccl.bad_value", "2 error nccl.bad_value", "3 error nccl.bad_value", "4 error nccl.list_blank", "6 error nccl.bad_value"}},
		{name: "tuning", text: "NCCL_ALGO=^tree,Rings\nNCCL_PROTO=LL;allreduce:simple;alltoall:LL\n", v: v230,
			want: []string{"1 info nccl.unfit", "1 error nccl.bad_value", "2 info nccl.unfit", "2 error nccl.bad_value"}},
		{name: "tuning per collective is new", text: "NCCL_PROTO=allreduce:simple\n", v: Version{2, 23, 4}, want: []string{"1 info nccl.unfit", "1 error nccl.bad_value"}},
		{name: "levels", text: "NCCL_P2P_LEVEL=LOC\nNCCL_NET_GDR_LEVEL=2\n", want: []string{"1 warn nccl.p2p-disabled", "2 info nccl.unfit", "2 info nccl.old_level"}},
		{name: "switched off", text: "NCCL_P2P_DISABLE=1\nNCCL_SHM_DISABLE=0x1\nNCCL_IB_DISABLE=1\nNCCL_NET=socket\nNCCL_DEBUG=trace\n",
			want: []string{"1 warn nccl.p2p-disabled", "2 warn nccl.shm_disabled", "3 warn nccl.ib_disabled", "4 warn nccl.ib_disabled", "5 warn nccl.debug_trace"}},
		{name: "keys", text: "export NCCL_DEBUG=INFO\n NCCL_A=1\nNCCL_DEBUG =INFO\n  # NCCL_B=1\nFOO=1\nLD_PRELOAD=x\nNCCL_IB_TIMOUT=22\n=1\n",
			want: []string{"1 error nccl.export", "2 error nccl.leading_blank", "3 error nccl.blank_around_equals", "4 info nccl.comment", "5 info nccl.foreign_variable", "6 warn nccl.no_effect", "7 warn nccl.mistyped_key", "8 warn nccl.empty_key"}},
		{name: "odd keys", text: "\ufeffNCCL_DEBUG=WARN\n-x NCCL_DEBUG=WARN\nNCCL_DEBUG: WARN\nhello\nNCCL_A NCCL_B=1\nNCCL_CONF_FILE=/x\nexport FOO=1\n", v: v230,
			want: []string{"1 error nccl.bom", "2 error nccl.odd_key", "3 error nccl.no_equals", "4 info nccl.no_equals", "5 error nccl.odd_key", "6 warn nccl.no_effect", "7 warn nccl.export"}},
		{name: "duplicates", text: "NCCL_IB_SL=1\nNCCL_IB_SL=1\nNCCL_IB_SL=2\n", want: []string{"2 info nccl.repeated", "3 error nccl.duplicate"}},
		{name: "block wins", text: begin + "\nNCCL_IB_SL=1\n" + end + "\nNCCL_IB_SL=2\n", want: []string{"4 warn nccl.shadowed"}},
		{name: "half a block", text: begin + "\nNCCL_IB_SL=1\n", want: []string{"1 error nccl.block"}},
		{name: "comment before 2.26.2", text: "#A=1\n#B=1\n", v: v225, want: []string{"1 info nccl.comment"}},
		{name: "comment", text: "#A=1\n", v: v229},
		{name: "CRLF on integers", text: "\r\nNCCL_IB_SL=1\r\n", v: v229, want: []string{"2 warn nccl.crlf"}},
		{name: "CRLF", text: "NCCL_IB_SL=1\r\nNCCL_SOCKET_IFNAME=eth0\r\n", want: []string{"1 error nccl.crlf"}},
		{name: "CRLF from 2.30.3", text: "NCCL_SOCKET_IFNAME=eth0\r\n", v: v230},
		{name: "NUL", text: "NCCL_SOCKET_IFNAME=eth0\x00\n", want: []string{"1 error nccl.nul"}},
		{name: "too long", text: "NCCL_NET_PLUGIN=" + strings.Repeat("a", 1024), want: []string{"1 error nccl.too_long"}},
		{name: "long line", text: "#" + strings.Repeat("a", 5000) + "=", want: []string{"1 error nccl.long_line", "1 info nccl.comment"}},
		{name: "glued", text: "NCCL_TOPO_FILE=/aNCCL_NCCL_NET=IB", want: []string{"1 error nccl.glued"}},
		{name: "empty values that are not unset", text: "NCCL_HOSTID=\nNCCL_GRAPH_FILE=\n", want: []string{"1 error nccl.empty_value", "2 error nccl.empty_value"}},
		{name: "files", text: "NCCL_TOPO_FILE=/a\nNCCL_NET_PLUGIN=none\nNCCL_GRAPH_FILE=~/g\nNCCL_DEBUG_FILE=/var/log/nccl.%h.%p\n", env: files(false), want: []string{"1 error nccl.file_missing", "3 error nccl.not_expanded", "4 info nccl.unfit"}},
		{name: "file is there", text: "NCCL_TOPO_FILE=/a\n", env: files(true)},
		{name: "file not known", text: "NCCL_TOPO_FILE=/a\nNCCL_NET_PLUGIN=/b.so\n", want: []string{"1 info nccl.file", "2 info nccl.file"}},
		{name: "too new", text: "NCCL_IB_OOO_RQ=1\nNCCL_IB_HCA==mlx5_0:1:2\n", v: v225, want: []string{"1 warn nccl.too_new", "2 warn nccl.too_new"}},
		{name: "HCAs", text: "NCCL_IB_HCA=mlx5_1\n", env: hcas, want: []string{"1 warn nccl.hca_prefix"}},
		{name: "HCAs excluded", text: "NCCL_IB_HCA=^mlx5_1,qib0\n", env: hcas, want: []string{"1 info nccl.hca_missing", "1 warn nccl.hca_prefix"}},
		{name: "HCA missing", text: "NCCL_IB_HCA==mlx5_0,mlx5_2\n", env: hcas, want: []string{"1 error nccl.hca_missing"}},
		{name: "no HCA at all", text: "NCCL_IB_HCA=mlx5\n", env: Env{HCAs: []string{}}, want: []string{"1 error nccl.hca_missing"}},
		{name: "HCA prefix that is no device", text: "NCCL_IB_HCA=mlx5\n", env: hcas},
		{name: "HCAs not known", text: "NCCL_IB_HCA=mlx5_1\n", want: []string{"1 info nccl.hca_prefix"}},
		{name: "HCA port", text: "NCCL_IB_HCA==mlx5_0:a\n", want: []string{"1 error nccl.hca_port"}},
		{name: "every HCA", text: "NCCL_IB_HCA==\nNCCL_SOCKET_IFNAME=^\nNCCL_OOB_NET_IFNAME=^=", want: []string{"1 error nccl.empty_list", "2 warn nccl.empty_list", "3 error nccl.empty_list"}},
		{name: "second prefix", text: "NCCL_IB_HCA==mlx5_0,=mlx5_1\n", want: []string{"1 error nccl.repeated_prefix"}},
		{name: "truncated", text: "NCCL_IB_HCA==mlx5_0,mlx", want: []string{"1 error nccl.truncated"}},
		{name: "not truncated", text: "NCCL_IB_HCA==mlx5_0,mlx\nNCCL_SOCKET_IFNAME=eth,bond"},
		{name: "loopback", text: "NCCL_SOCKET_IFNAME=^docker0\n", want: []string{"1 error nccl.loopback_eligible"}},
		{name: "loopback excluded", text: "NCCL_SOCKET_IFNAME=^docker,lo\n", env: nics},
		{name: "loopback chosen", text: "NCCL_SOCKET_IFNAME==lo\n", want: []string{"1 error nccl.loopback_eligible"}},
		{name: "bridge", text: "NCCL_SOCKET_IFNAME=^lo\n", env: nics, want: []string{"1 warn nccl.bridge_eligible"}},
		{name: "interface prefix", text: "NCCL_SOCKET_IFNAME=bond0,ens3\n", env: nics, want: []string{"1 warn nccl.interface_missing", "1 warn nccl.interface_prefix"}},
		{name: "interface exact", text: "NCCL_SOCKET_IFNAME==bond0\n", env: nics},
		{name: "no such interface", text: "NCCL_SOCKET_IFNAME=ens\n", env: nics, want: []string{"1 error nccl.interface_missing"}},
		{name: "strict flag", text: "NCCL_SET_THREAD_NAME=TRUE\n", v: v230},
		{name: "strict flag before", text: "NCCL_SET_THREAD_NAME=TRUE\n", v: v229, want: []string{"1 error nccl.word_integer"}},
		{name: "strict flag wrong", text: "NCCL_SET_THREAD_NAME=yes\n", v: v230, want: []string{"1 error nccl.bad_value"}},
		{name: "plugin value", text: "NCCL_FASTRAK_IFNAME=\"eth1\"\n", want: []string{"1 info nccl.plugin_key", "1 warn nccl.quoted_string"}},
		{name: "ras", text: "NCCL_RAS_ADDR=0.0.0.0:28028\n", want: []string{"1 warn nccl.ras_exposed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Lint(tt.text, tt.v, tt.env)
			if diff := cmp.Diff(tt.want, ids(got)); diff != "" {
				t.Errorf("%s\n%+v", diff, got)
			}
		})
	}
}

func TestLintTexts(t *testing.T) {
	want := []Remark{
		{1, "NCCL_IB_TIMEOUT", "nccl.quoted_integer", Error, `the quotes are part of the value: NCCL reads '"22"' as 0`, "write NCCL_IB_TIMEOUT=22"},
		{2, "NCCL_IB_HCA", "nccl.hca_prefix", Warn, "a name is a prefix: mlx5_1 takes mlx5_1, mlx5_10; a port does not make it exact", "write NCCL_IB_HCA==mlx5_1:1"},
		{3, "NCCL_IB_TIMEOUT", "nccl.duplicate", Error, `the first line wins: NCCL uses '"22"' of line 1 and ignores "20"`, "delete this line, or line 1"},
		{4, "NCCL_SOCKET_IFNAME", "nccl.inline_comment", Error, `NCCL has no comments after a value: it uses "eth0 # mgmt"`, "write NCCL_SOCKET_IFNAME=eth0"},
	}
	got := Lint("NCCL_IB_TIMEOUT=\"22\"\nNCCL_IB_HCA=mlx5_1:1\nNCCL_IB_TIMEOUT=20\nNCCL_SOCKET_IFNAME=eth0 # mgmt\n", v230, Env{HCAs: []string{"mlx5_1", "mlx5_10"}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Ten megabytes of anything are judged, and not at length.
func TestLintBounded(t *testing.T) {
	for name, text := range map[string]string{
		"plugin keys": strings.Repeat("NCCL_QQQQQQQQQQQQQQ=1\n", 500_000),
		"one line":    "NCCL_IB_HCA=" + strings.Repeat("m,", 5<<20),
		"one name":    strings.Repeat("N", 10<<20),
		"blank lines": strings.Repeat("\n", 10<<20),
		"comments":    strings.Repeat("#a=b\n", 2<<20),
		"CRLF":        strings.Repeat("\r\n", 5<<20),
		"NUL":         strings.Repeat("\x00", 10<<20),
		"equals":      strings.Repeat("=", 10<<20),
		"prefixes":    "A=" + strings.Repeat("NCCL_", 2<<20),
	} {
		if remarks := Lint(text, Version{}, Env{}); len(remarks) > maxRemarks+10 {
			t.Errorf("%s: %d remarks", name, len(remarks))
		}
	}
	last := Lint(strings.Repeat("hello\n", 5000), Version{}, Env{})
	if r := last[len(last)-1]; r.ID != "nccl.too_many" || r.Line != maxRemarks || r.Severity != Error {
		t.Errorf("%+v", r)
	}
}

func FuzzLint(f *testing.F) {
	for _, seed := range []string{
		"", "NCCL_DEBUG=WARN", "\ufeffNCCL_IB_HCA==mlx5_0, ^mlx5_1:1:2\r\n", "#A=1\nA==\x00\n=\n", "NCCL_ALGO=^ring;allreduce:tree\nNCCL_CROSS_NIC=\" 0x\"\n",
		"NCCL_SOCKET_IFNAME=^=docker, lo # x", "export NCCL_IB_TIMEOUT = 022\nNCCL_P2P_LEVEL=\xff5", begin + "\nA=1\n" + end + "\nA=2",
		"NCCL_TOPO_FILE=~/$x NCCL_NET=IB", "NCCL_NETDEVS_POLICY=MAX:3\nNCCL_SET_THREAD_NAME=T", " %!=",
	} {
		f.Add(seed, uint8(0))
		f.Add(seed, uint8(3))
	}
	env := Env{HCAs: []string{"mlx5_0", "mlx5_1", "mlx5_10"}, Interfaces: []string{"lo", "eth0", "docker0"}, FileExists: func(path string) (bool, bool) { return path == "/a", path != "" }}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		v := []Version{{}, v225, v229, v230}[which%4]
		lines := strings.Count(text, "\n") + 1
		for _, r := range Parse(text, v).Readings {
			for _, e := range r.Entries {
				if e.Key == "" || len(e.Key) > maxText || len(e.Value) > maxText || e.Line < 1 || e.Line > lines {
					t.Fatalf("%+v", e)
				}
				ValidateSetting(e.Key, e.Value, v)
			}
		}
		for _, env := range []Env{{}, env} {
			remarks := Lint(text, v, env)
			if !slices.IsSortedFunc(remarks, func(a, b Remark) int { return a.Line - b.Line }) {
				t.Fatal("not sorted")
			}
			for _, r := range remarks {
				if r.Line < 1 || r.Line > lines || r.ID == "" || r.Text == "" || strings.Contains(r.Text+r.Fix, "%!") && !strings.Contains(text, "%!") {
					t.Fatalf("%+v", r)
				}
			}
		}
	})
}
