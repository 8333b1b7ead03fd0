// Package confdir models files read as text from directories of configuration
// fragments ("conf.d") and the rule by which one such file hides another.
package confdir

import (
	"path"
	"slices"
	"strings"
)

// File is one configuration file as it was read, path as on the node (never
// prefixed by a root directory).
type File struct {
	Path string `json:"path"`
	// Text is the whole content, byte for byte.
	Text string `json:"text,omitempty"`
	// Reason says why the file's content is not known; Text is then empty.
	Reason string `json:"reason,omitempty"`
}

// Merge orders fragments the way systemd reads them (conf-files.c,
// systemd-sysctl(8), modules-load.d(5)): dirs are given from the highest
// priority to the lowest, a file hides those of the same base name in later
// directories, and what is left is sorted by base name whatever its directory.
// Files outside dirs are dropped.
func Merge(files []File, dirs []string) []File {
	best := map[string]File{}
	rank := map[string]int{}
	for _, f := range files {
		r := slices.Index(dirs, path.Dir(f.Path))
		if r < 0 {
			continue
		}
		base := path.Base(f.Path)
		if old, seen := rank[base]; !seen || r < old {
			best[base], rank[base] = f, r
		}
	}
	merged := make([]File, 0, len(best))
	for _, f := range best {
		merged = append(merged, f)
	}
	slices.SortFunc(merged, func(a, b File) int {
		return strings.Compare(path.Base(a.Path), path.Base(b.Path))
	})
	return merged
}
