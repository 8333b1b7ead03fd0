// Package ncclconf knows NCCL's configuration file, /etc/nccl.conf: how each
// version of NCCL reads it, what its keys mean, what is wrong with a given
// file, and how busbar's own block at its head is written.
//
// NCCL reads the file with setEnvFile (src/misc/param.cc): every KEY=VALUE line
// becomes an environment variable unless a variable of that name is there
// already. So the first definition wins, the process environment wins over the
// file, and any variable can be set, not NCCL's alone. Nothing is trimmed and
// nothing is unquoted.
//
// The package does no I/O.
package ncclconf

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is an NCCL release. The zero Version means "not known".
type Version struct{ Major, Minor, Patch int }

// ParseVersion reads a release as NCCL and its packages write it: "2.26.2",
// "v2.26.2-1", "2.26.2+cuda12.8". All three numbers are needed, because the
// grammar of the file changed in patch releases.
func ParseVersion(s string) (Version, error) {
	number, _, _ := strings.Cut(strings.TrimPrefix(s, "v"), "-")
	number, _, _ = strings.Cut(number, "+")
	parts := strings.Split(number, ".")
	if len(parts) != 3 {
		return Version{}, fmt.Errorf("NCCL version %q is not MAJOR.MINOR.PATCH", s)
	}
	var n [3]int
	for i, part := range parts {
		u, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return Version{}, fmt.Errorf("NCCL version %q: %q is not a number", s, part)
		}
		n[i] = int(u)
	}
	return Version{n[0], n[1], n[2]}, nil
}

// Known says whether v is a release and not the zero Version.
func (v Version) Known() bool { return v != Version{} }

// Compare is negative if v is older than w, zero if they are the same release,
// positive if v is newer.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// String is "2.26.2", or "unknown" for the zero Version.
func (v Version) String() string {
	if !v.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Band is a range of NCCL versions which read the file alike.
type Band int

// The bands, from src/misc/param.cc at the tags 2.3.5 to 2.30.7.
const (
	// Before2262 reads whole lines and knows no comments: "#A=b" sets a
	// variable called "#A".
	Before2262 Band = iota
	// From2262 skips lines that begin with '#'.
	From2262
	// From2303 also strips one carriage return before the newline, and reads
	// at most 4095 bytes at a time: the rest of a longer line is a line of its
	// own.
	From2303
)

// String names the versions of the band.
func (b Band) String() string {
	return [...]string{"before 2.26.2", "2.26.2 to 2.30.2", "2.30.3 and later"}[b]
}

// Bands lists the bands v may belong to: one, or all three if v is not known.
func (v Version) Bands() []Band {
	switch {
	case !v.Known():
		return []Band{Before2262, From2262, From2303}
	case v.Compare(Version{2, 26, 2}) < 0:
		return []Band{Before2262}
	case v.Compare(Version{2, 30, 3}) < 0:
		return []Band{From2262}
	}
	return []Band{From2303}
}

const (
	// maxText is the most bytes NCCL keeps of a key and of a value.
	maxText = 1023
	// maxChunk is the most bytes that NCCL reads at a time from 2.30.3 on.
	maxChunk = 4095
)

// Entry is one line that NCCL turns into a variable.
type Entry struct {
	// Line counts from 1. The tail of an overlong line, which is read as a
	// line of its own from 2.30.3 on, carries the number of the line it is on.
	Line int
	// Key and Value are what NCCL keeps: cut at 1023 bytes, nothing trimmed.
	Key, Value string
	// Raw is the line as it stands in the file, without its newline.
	Raw string
}

// Reading is the file as the versions of one band read it.
type Reading struct {
	Band    Band
	Entries []Entry
}

// Effective maps each key to the value that takes effect: that of its first
// line.
func (r Reading) Effective() map[string]string {
	effective := make(map[string]string, len(r.Entries))
	for _, e := range r.Entries {
		if _, seen := effective[e.Key]; !seen {
			effective[e.Key] = e.Value
		}
	}
	return effective
}

// File is a configuration file, read in every way in which the NCCL at hand may
// read it: one reading if its version is known, else one for each band, the
// oldest first.
type File struct{ Readings []Reading }

// Parse reads text as NCCL v does. It accepts any bytes.
func Parse(text string, v Version) File {
	var f File
	for _, band := range v.Bands() {
		f.Readings = append(f.Readings, Reading{band, band.read(text)})
	}
	return f
}

// Effective maps each key to the value that takes effect. With an unknown
// version only what holds in every band is there.
func (f File) Effective() map[string]string {
	effective := f.Readings[0].Effective()
	for _, r := range f.Readings[1:] {
		other := r.Effective()
		for key, value := range effective {
			if got, ok := other[key]; !ok || got != value {
				delete(effective, key)
			}
		}
	}
	return effective
}

func (b Band) read(text string) []Entry {
	var entries []Entry
	n := 0
	for line := range strings.Lines(text) {
		n++
		raw := strings.TrimSuffix(line, "\n")
		for rest := line; rest != ""; {
			chunk := rest
			if b == From2303 && len(chunk) > maxChunk {
				chunk = chunk[:maxChunk]
			}
			rest = rest[len(chunk):]
			if key, value, ok := b.split(chunk); ok {
				entries = append(entries, Entry{Line: n, Key: key, Value: value, Raw: raw})
			}
		}
	}
	return entries
}

// split takes one line, or one chunk of it, apart. A NUL ends it, as in every C
// string. An empty key is refused by setenv(3).
func (b Band) split(chunk string) (key, value string, ok bool) {
	line := strings.TrimSuffix(chunk, "\n")
	line, _, _ = strings.Cut(line, "\x00")
	if b == From2303 {
		line = strings.TrimSuffix(line, "\r")
	}
	if b != Before2262 && strings.HasPrefix(line, "#") {
		return "", "", false
	}
	key, value, ok = strings.Cut(line, "=")
	return key[:min(len(key), maxText)], value[:min(len(value), maxText)], ok && key != ""
}
