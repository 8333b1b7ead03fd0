//go:build !race

package profiles_test

const scale = 1
