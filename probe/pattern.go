package probe

import "encoding/binary"

// word is the i-th of the 64-bit little-endian words that a buffer is filled with. Words of one
// seed differ from each other, and none is 0 as long as seed + i does not wrap around. The
// kernels in kernels.ptx compute the same.
func word(seed, i uint64) uint64 {
	x := (seed + i) * 0x9E3779B97F4A7C15 // odd, so that this is a bijection (2^64 divided by the golden ratio)
	return x ^ x>>32
}

// seedOf differs for each ordered pair of GPUs and each kind of transfer by more than a buffer has words.
func seedOf(from, to, transfer int) uint64 {
	return uint64(from+1)<<56 | uint64(to+1)<<48 | uint64(transfer+1)<<40 | 0x5bd1e995 // so that word 0 has no zeros at its end
}

// mismatch is what differs in a buffer.
type mismatch struct {
	// bytes and words of 8 bytes that differ.
	bytes, words int64
	// first is the offset of the first byte that differs, where one does.
	first int64
}

// compare compares what stands in a buffer from a word on.
func compare(data []byte, seed, from uint64) mismatch {
	var m mismatch
	for at := 0; at < len(data); at += 8 {
		var want [8]byte
		binary.LittleEndian.PutUint64(want[:], word(seed, from+uint64(at/8)))
		if [8]byte(data[at:at+8]) == want {
			continue
		}
		m.words++
		for i, b := range want {
			if data[at+i] == b {
				continue
			}
			if m.bytes == 0 {
				m.first = int64(from)*8 + int64(at+i)
			}
			m.bytes++
		}
	}
	return m
}
