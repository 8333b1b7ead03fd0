package ncclconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestApply(t *testing.T) {
	settings := []Setting{{"NCCL_IB_TC", "104"}, {"NCCL_IB_HCA", "=mlx5_0,mlx5_1"}}
	block := "# BEGIN busbar\nNCCL_IB_HCA==mlx5_0,mlx5_1\nNCCL_IB_TC=104\n# END busbar\n"
	for _, tt := range []struct {
		name, text string
		settings   []Setting
		want, err  string
	}{
		{name: "empty", settings: settings, want: block},
		{name: "put", text: "NCCL_DEBUG=WARN", settings: settings, want: block + "NCCL_DEBUG=WARN"},
		{name: "replace", text: "# BEGIN busbar\nX=1\n# END busbar\nA=\xff\r\n", settings: settings, want: block + "A=\xff\r\n"},
		{name: "replace CRLF", text: "# BEGIN busbar\r\nX=1\r\n# END busbar", settings: settings, want: block},
		{name: "remove", text: block + "#\n", want: "#\n"},
		{name: "nothing", text: "A=1", want: "A=1"},
		{name: "byte order mark", text: "\ufeffA=1\n", settings: settings, want: block + "\ufeffA=1\n"},
		{name: "no end", text: "# BEGIN busbar\nA=1\n", err: `nccl.conf line 1: "# BEGIN busbar" without "# END busbar" after it`},
		{name: "no begin", text: "A=1\n# END busbar\n", err: `nccl.conf line 2: "# END busbar" without "# BEGIN busbar" before it`},
		{name: "two", text: block + block, err: "nccl.conf line 5: a second block begins; the first ends on line 4"},
		{name: "two begins", text: "# BEGIN busbar\n# BEGIN busbar\n", err: `nccl.conf line 2: "# BEGIN busbar" again, after line 1 without "# END busbar" between`},
		{name: "two ends", text: block + "# END busbar\n", err: `nccl.conf line 5: "# END busbar" without "# BEGIN busbar" before it`},
		{name: "not at the head", text: "A=1\n" + block, err: `nccl.conf line 2: "# BEGIN busbar" is not the first line of the file`},
		{name: "newline", settings: []Setting{{"A", "1\n"}}, err: `nccl.conf setting "A": a value cannot hold a newline, a carriage return or a NUL`},
		{name: "key", settings: []Setting{{"A=B", "1"}}, err: `nccl.conf setting "A=B": the key has other characters than letters, digits and '_'`},
		{name: "no key", settings: []Setting{{"", "1"}}, err: `nccl.conf setting "": the key is empty`},
		{name: "long", settings: []Setting{{"A", strings.Repeat("x", 1024)}}, err: `nccl.conf setting "A": the value has 1024 bytes, NCCL keeps 1023`},
		{name: "twice", settings: []Setting{{"A", "1"}, {"A", "2"}}, err: "nccl.conf setting A is given twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Apply(tt.text, tt.settings)
			if text := ""; err != nil || tt.err != "" {
				if err != nil {
					text = err.Error()
				}
				if diff := cmp.Diff(tt.err, text); diff != "" {
					t.Error(diff)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	owned, hasBlock, foreign, err := Split("# BEGIN busbar\nA=1\n\nB=2\n# END busbar\nC=3\n")
	want := []Entry{{2, "A", "1", "A=1"}, {4, "B", "2", "B=2"}}
	if diff := cmp.Diff(want, owned); diff != "" || !hasBlock || foreign != "C=3\n" || err != nil {
		t.Error(diff, hasBlock, foreign, err)
	}
	owned, hasBlock, foreign, err = Split("C=3")
	if owned != nil || hasBlock || foreign != "C=3" || err != nil {
		t.Error(owned, hasBlock, foreign, err)
	}
}

func TestMissingAndShadowed(t *testing.T) {
	foreign := "A=1\nA=2\nB=x\r\nC=3\n"
	wanted := []Setting{{"A", "1"}, {"B", "x"}, {"C", "4"}, {"D", "5"}}
	for v, want := range map[Version][]Setting{
		{}:   {{"B", "x"}, {"C", "4"}, {"D", "5"}},
		v229: {{"B", "x"}, {"C", "4"}, {"D", "5"}},
		v230: {{"C", "4"}, {"D", "5"}},
	} {
		if diff := cmp.Diff(want, Missing(foreign, wanted, v)); diff != "" {
			t.Errorf("%s: %s", v, diff)
		}
	}
	text, err := Apply(foreign, Missing(foreign, wanted, v230))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Shadowed(text, []Setting{{"C", "4"}, {"D", "5"}}, v230)
	if diff := cmp.Diff([]Entry{{8, "C", "3", "C=3"}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := Shadowed("# END busbar\n", nil, v230); err == nil {
		t.Error("no error for half a block")
	}
}

func TestValidateSetting(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		v          Version
		want       []string
	}{
		{key: "NCCL_IB_TC", value: "104"},
		{key: "NCCL_IB_HCA", value: "=mlx5_0,mlx5_1"},
		{key: "NCCL_TOPO_FILE", value: "/etc/topo.xml"},
		{key: "NCCL_FASTRAK_IFNAME", value: "eth1", want: []string{"0 info nccl.plugin_key"}},
		{key: "NCCL_IB_HCAS", value: "x", want: []string{"0 warn nccl.mistyped_key"}},
		{key: "NCCL_IB_TC", value: "300", want: []string{"0 error nccl.out_of_range"}},
		{key: "NCCL_IB_TC", value: " 104", want: []string{"0 error nccl.trailing_junk"}},
		{key: "NCCL_IB_TC", value: "104 ", want: []string{"0 error nccl.trailing_junk"}},
		{key: "NCCL_IB_TC", value: "true", want: []string{"0 error nccl.word_integer"}},
		{key: "NCCL_NET_PLUGIN", value: "none ", want: []string{"0 error nccl.blank_around_equals"}},
		{key: "NCCL_FASTRAK_IFNAME", value: " eth1", want: []string{"0 info nccl.plugin_key", "0 error nccl.blank_around_equals"}},
		{key: "NCCL_DEBUG", value: "loud", want: []string{"0 warn nccl.unfit", "0 error nccl.bad_value"}},
		{key: "NCCL_IB_GID_INDEX", value: "3", want: []string{"0 warn nccl.unfit"}},
		{key: "NCCL_IB_OOO_RQ", value: "1", v: v225, want: []string{"0 warn nccl.too_new"}},
		{key: "NCCL_IB_TC", value: "1\n2", want: []string{"0 error nccl.unwritable"}},
		{key: "#NCCL_IB_TC", value: "1", want: []string{"0 error nccl.unwritable"}},
		{key: "NCCL_IB_HCA", value: strings.Repeat("a", 1024), want: []string{"0 error nccl.unwritable"}},
	} {
		got := ValidateSetting(tt.key, tt.value, tt.v)
		if diff := cmp.Diff(tt.want, ids(got)); diff != "" {
			t.Errorf("%s=%s: %s\n%+v", tt.key, tt.value, diff, got)
		}
	}
}

// checkApply holds what Apply promises for any text and settings it accepts.
func checkApply(t interface{ Fatalf(string, ...any) }, text string, settings []Setting) {
	_, _, foreign, err := Split(text)
	got, applyErr := Apply(text, settings)
	if err != nil || applyErr != nil {
		if err != nil && applyErr == nil {
			t.Fatalf("Apply accepts what Split refuses: %v", err)
		}
		return
	}
	owned, hasBlock, kept, err := Split(got)
	if err != nil || kept != foreign || hasBlock != (len(settings) > 0) || len(owned) != len(settings) {
		t.Fatalf("%q: owned %v, block %v, foreign %q, want %q: %v", got, owned, hasBlock, kept, foreign, err)
	}
	if again, err := Apply(got, settings); err != nil || again != got {
		t.Fatalf("not idempotent: %q, then %q, %v", got, again, err)
	}
	for _, v := range []Version{{}, v225, v229, v230} {
		if missing := Missing(got, settings, v); len(missing) > 0 {
			t.Fatalf("NCCL %s: %v do not take effect in %q", v, missing, got)
		}
	}
	if bare, err := Apply(got, nil); err != nil || bare != foreign {
		t.Fatalf("removed: %q, want %q: %v", bare, foreign, err)
	}
}

func TestApplyProperty(t *testing.T) {
	key := rapid.SampledFrom([]string{"NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_IB_TC", "NCCL_X", "_", "a1"})
	value := rapid.OneOf(rapid.SampledFrom([]string{"", "=mlx5_0", "#", "a=b", " x ", "\"q\"", strings.Repeat("v", 1023)}), rapid.StringMatching(`[ -~]{0,40}`))
	line := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string { return key.Draw(t, "key") + "=" + value.Draw(t, "value") }),
		rapid.SampledFrom([]string{"", "# comment", "\ufeffNCCL_X=1", "\xff\xfe", "\x00", begin, end, begin + "\r", strings.Repeat("z", 5000) + "NCCL_X=9"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, "lines") {
			text.WriteString(line.Draw(t, "line") + rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(t, "newline"))
		}
		text.WriteString(rapid.SampledFrom([]string{"", "NCCL_X=tail", begin}).Draw(t, "tail"))
		keys := rapid.SliceOfDistinct(key, func(k string) string { return k }).Draw(t, "keys")
		var settings []Setting
		for _, k := range keys {
			settings = append(settings, Setting{k, value.Draw(t, "wanted")})
		}
		checkApply(t, text.String(), settings)
	})
}

func FuzzApply(f *testing.F) {
	block := Render([]Setting{{"NCCL_IB_TC", "104"}})
	for _, seed := range []string{"", "NCCL_DEBUG=WARN", block, block + "A=1\r\n", "\ufeff" + block, block + block, begin, end + "\n", "\xff=\x00\n"} {
		f.Add(seed, "NCCL_DEBUG", "WARN")
		f.Add(seed, "", "")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		var settings []Setting
		if key != "" {
			settings = append(settings, Setting{key, value}, Setting{"NCCL_IB_TC", "104"})
		}
		checkApply(t, text, settings)
	})
}
