package live

import (
	"bytes"
	"strings"

	"busbar/node"
)

// Where the fabric manager is, and where Debian and Ubuntu keep which packages are installed (dpkg(1)).
const (
	fabricManagerProgram = "/usr/bin/nv-fabricmanager"
	dpkgStatus           = "/var/lib/dpkg/status"
)

// fabricManager looks for the program and its package.
func (s *session) fabricManager(string) node.Value[node.FabricManagerState] {
	source := node.Source{Path: fabricManagerProgram}
	if _, err := s.stat(fabricManagerProgram); absent(err) {
		return node.Known(node.FabricManagerState{}, source)
	} else if err != nil {
		return unknown[node.FabricManagerState](err, fabricManagerProgram)
	}
	text, err := s.readBytes(dpkgStatus, maxIndex)
	state := node.FabricManagerState{Installed: true}
	switch version := debianVersion(text, isFabricManager); {
	case absent(err):
		state.Version = node.Unknown[string]("dpkg has no database here, and others are not read", node.Source{Path: dpkgStatus})
	case err != nil:
		state.Version = unknown[string](err, dpkgStatus)
	case version == "":
		state.Version = node.Unknown[string]("dpkg has installed no package of the fabric manager", node.Source{Path: dpkgStatus})
	default:
		state.Version = node.Known(version, node.Source{Path: dpkgStatus})
	}
	return node.Known(state, source)
}

// isFabricManager knows the names of the package: with the driver's branch up to 575, without it from 580 on.
func isFabricManager(name string) bool {
	branch, ok := strings.CutPrefix(name, "nvidia-fabricmanager")
	return ok && (branch == "" || strings.Trim(branch, "-0123456789") == "")
}

// debianVersion is the version, without epoch and revision, of the first installed package whose name is asked for; empty
// where there is none. text is dpkg's status file (deb-control(5), deb-version(7)).
func debianVersion(text []byte, is func(name string) bool) string {
	for paragraph := range bytes.SplitSeq(text, []byte("\n\n")) {
		rest, ok := bytes.CutPrefix(bytes.TrimLeft(paragraph, "\n"), []byte("Package: "))
		name, fields, _ := bytes.Cut(rest, []byte("\n"))
		if !ok || !is(string(name)) {
			continue
		}
		version, installed := "", false
		for line := range bytes.SplitSeq(fields, []byte("\n")) {
			switch key, value, _ := strings.Cut(string(line), ": "); key {
			case "Status":
				installed = strings.HasSuffix(value, " installed")
			case "Version":
				version = value
			}
		}
		if installed {
			if _, after, ok := strings.Cut(version, ":"); ok {
				version = after
			}
			if i := strings.LastIndexByte(version, '-'); i >= 0 {
				version = version[:i]
			}
			return version
		}
	}
	return ""
}
