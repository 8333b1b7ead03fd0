package live

import (
	"bytes"
	"strings"

	"busbar/node"
)

// Where the fabric manager and IMEX are, and where Debian and Ubuntu keep which packages are installed (dpkg(1)).
const (
	fabricManagerProgram = "/usr/bin/nv-fabricmanager"
	imexProgram          = "/usr/bin/nvidia-imex"
	dpkgStatus           = "/var/lib/dpkg/status"
)

func (s *session) fabricManager(string) node.Value[node.FabricManagerState] {
	return s.packaged(fabricManagerProgram, "the fabric manager", "nvidia-fabricmanager")
}

func (s *session) imex(string) node.Value[node.FabricManagerState] {
	return s.packaged(imexProgram, "IMEX", "nvidia-imex")
}

// packaged looks for a program of NVIDIA's and its package.
func (s *session) packaged(program, words, name string) node.Value[node.FabricManagerState] {
	source := node.Source{Path: program}
	if _, err := s.stat(program); absent(err) {
		return node.Known(node.FabricManagerState{}, source)
	} else if err != nil {
		return unknown[node.FabricManagerState](err, program)
	}
	text, err := s.readBytes(dpkgStatus, maxIndex)
	state := node.FabricManagerState{Installed: true}
	switch version := debianVersion(text, isPackage(name)); {
	case absent(err):
		state.Version = node.Unknown[string]("dpkg has no database here, and others are not read", node.Source{Path: dpkgStatus})
	case err != nil:
		state.Version = unknown[string](err, dpkgStatus)
	case version == "":
		state.Version = node.Unknown[string]("dpkg has installed no package of "+words, node.Source{Path: dpkgStatus})
	default:
		state.Version = node.Known(version, node.Source{Path: dpkgStatus})
	}
	return node.Known(state, source)
}

// isPackage knows the names of a package of NVIDIA's: with the driver's branch up to 575, without it from 580 on.
func isPackage(name string) func(string) bool {
	return func(installed string) bool {
		branch, ok := strings.CutPrefix(installed, name)
		return ok && (branch == "" || strings.Trim(branch, "-0123456789") == "")
	}
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
