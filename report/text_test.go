package report

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		name, text string
		width      int
		want       []string
	}{
		{"no terminal", "a b c", 0, []string{"a b c"}},
		{"fits", "ab cd", 5, []string{"ab cd"}},
		{"breaks", "ab cd ef", 5, []string{"ab cd", "ef"}},
		{"long word", "a /very/long/path b", 6, []string{"a", "/very/long/path", "b"}},
		{"glue", "1" + glue + "ok, 2" + glue + "drift", 8, []string{"1 ok,", "2 drift"}},
		{"runes, not bytes", "äöü äöü", 7, []string{"äöü äöü"}},
		{"empty", "", 5, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, wrap(c.text, c.width)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x1b[2J", "a\r\nb\tc", "\xff\xfe", "\u202egnp.exe", "\u009b2J", "\ufeffx", "a\x00b", "\ufffd", "\U000e0001", glue} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := printable(s)
		if strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 || !utf8.ValidString(got) {
			t.Errorf("printable(%q) = %q", s, got)
		}
		if printable(got) != got {
			t.Errorf("printable(%q) is not stable: %q, %q", s, got, printable(got))
		}
		for _, line := range wrap(got, 20) {
			if strings.Contains(line, "\n") {
				t.Errorf("a line holds a line break: %q", line)
			}
		}
	})
}
