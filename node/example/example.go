// Package example holds recordings of nodes that do not exist: a healthy and a drifted HGX H100, an HGX A100 with eight NUMA
// nodes, an HGX H200 on InfiniBand, an HGX B200, a GB200 tray, a virtual machine, an EPYC server, a workstation. They let everybody
// try a profile, and tests plan a whole node. Builders in this package's tests write them.
package example

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.json
var recordings embed.FS

// Names lists the recordings, sorted.
func Names() []string {
	// The pattern is well formed, and an embedded file system has no other errors.
	files, _ := fs.Glob(recordings, "*.json")
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".json"))
	}
	slices.Sort(names) // "." sorts behind "-"
	return names
}

// Open opens a recording for node.ReadRecording. A name that is not among Names is an
// error that lists them.
func Open(name string) (io.ReadCloser, error) {
	f, err := recordings.Open(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("there is no built-in recording %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return f, nil
}
