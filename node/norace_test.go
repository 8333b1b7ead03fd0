//go:build !race

package node_test

// cutEvery is the distance between the bytes at which a recording is cut off.
const cutEvery = 1
