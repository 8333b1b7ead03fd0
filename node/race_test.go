//go:build race

package node_test

// cutEvery is the distance between the bytes at which a recording is cut off: the race detector takes ten times as long,
// and one goroutine reads it.
const cutEvery = 13
