//go:build race

package paste

// scale makes large texts smaller: the race detector takes ten times as long, and a text is worked on by one goroutine.
const scale = 8
