// Package lazyregexp has regular expressions that are compiled when they are first asked: a command pays for those that it uses.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression (package regexp), compiled once. It may be used concurrently.
type Regexp struct {
	compile func() *regexp.Regexp
}

// New is the expression that is written so. Where it is none, the first use panics.
func New(text string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// MatchString is that of regexp.Regexp.
func (r *Regexp) MatchString(s string) bool { return r.compile().MatchString(s) }

// FindString is that of regexp.Regexp.
func (r *Regexp) FindString(s string) string { return r.compile().FindString(s) }

// FindStringSubmatch is that of regexp.Regexp.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compile().FindStringSubmatch(s) }

// ReplaceAllString is that of regexp.Regexp.
func (r *Regexp) ReplaceAllString(s, with string) string {
	return r.compile().ReplaceAllString(s, with)
}

// ReplaceAllStringFunc is that of regexp.Regexp.
func (r *Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return r.compile().ReplaceAllStringFunc(s, with)
}

// FindSubmatch is that of regexp.Regexp.
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compile().FindSubmatch(b) }
