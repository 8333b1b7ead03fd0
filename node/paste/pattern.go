package paste

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first asked: a command that reads no text pays nothing for it.
type pattern struct {
	compile func() *regexp.Regexp
}

// expression is the pattern of a regular expression (package regexp). One that begins with ^ alone is tried at the beginning of a text alone:
// of ^a|^b regexp does not see that.
func expression(text string) *pattern {
	return &pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// MatchString is that of regexp.Regexp.
func (p *pattern) MatchString(s string) bool { return p.compile().MatchString(s) }

// FindString is that of regexp.Regexp.
func (p *pattern) FindString(s string) string { return p.compile().FindString(s) }

// FindStringSubmatch is that of regexp.Regexp.
func (p *pattern) FindStringSubmatch(s string) []string { return p.compile().FindStringSubmatch(s) }
