//go:build !race

package paste

const scale = 1
