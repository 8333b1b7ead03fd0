package lazyregexp_test

import (
	"strings"
	"testing"

	"busbar/internal/lazyregexp"
)

func TestRegexp(t *testing.T) {
	r := lazyregexp.New(`(\d+)x`)
	if !r.MatchString("a 12x") || r.MatchString("12") {
		t.Error("MatchString is wrong")
	}
	if got := r.FindString("a 12x"); got != "12x" {
		t.Errorf("FindString = %q", got)
	}
	if m := r.FindStringSubmatch("a 12x"); len(m) != 2 || m[1] != "12" {
		t.Errorf("FindStringSubmatch = %q", m)
	}
	if m := r.FindSubmatch([]byte("a 12x")); len(m) != 2 || string(m[1]) != "12" {
		t.Errorf("FindSubmatch = %q", m)
	}
	if got := r.ReplaceAllString("a 12x", "<$1>"); got != "a <12>" {
		t.Errorf("ReplaceAllString = %q", got)
	}
	if got := r.ReplaceAllStringFunc("a 12x", strings.ToUpper); got != "a 12X" {
		t.Errorf("ReplaceAllStringFunc = %q", got)
	}
}

func TestBrokenExpression(t *testing.T) {
	r := lazyregexp.New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a broken expression matched")
		}
	}()
	r.MatchString("")
}
