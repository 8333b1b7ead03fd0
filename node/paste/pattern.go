package paste

import "busbar/internal/lazyregexp"

// pattern is a regular expression that is compiled when it is first asked: a command that reads no text pays nothing for it.
type pattern = lazyregexp.Regexp

// expression is the pattern of a regular expression. One that begins with ^ alone is tried at the beginning of a text alone: of ^a|^b regexp
// does not see that.
func expression(text string) *pattern { return lazyregexp.New(text) }
