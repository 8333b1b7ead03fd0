//go:build race

package stock_test

// alike is how many answers of a kind are taken away of a node that the profile is for, one at a time: the race detector takes
// long, and one port is like another.
const alike = 2
