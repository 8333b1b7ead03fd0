//go:build race

package profiles_test

// scale makes large profiles smaller: the race detector takes ten times as long, and a profile
// is worked on by one goroutine.
const scale = 8

// again is how often a profile is loaded once more, to see the same diagnostics.
const again = 1
