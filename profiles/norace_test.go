//go:build !race

package profiles_test

const scale = 1

// again is how often a profile is loaded once more, to see the same diagnostics.
const again = 5
