package live

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"time"

	"busbar/node"
)

// Where the fabric manager and IMEX are, and where Debian and Ubuntu keep which packages are installed (dpkg(1)).
const (
	fabricManagerProgram = "/usr/bin/nv-fabricmanager"
	imexProgram          = "/usr/bin/nvidia-imex"
	dpkgStatus           = "/var/lib/dpkg/status"
)

// fabricManagerWithout answers where the program is not installed, and where dpkg has installed it: its package has its version.
// Otherwise only the program itself says it: the database of rpm is one of three formats, of which none is text.
func fabricManagerWithout(f files, _ string) (node.Value[node.FabricManagerState], bool) {
	v, decided := f.packaged(fabricManagerProgram, "the fabric manager", "nvidia-fabricmanager")
	if decided || f.root != "" {
		return v, true
	}
	return node.Value[node.FabricManagerState]{}, false
}

func (s *session) imex(string) node.Value[node.FabricManagerState] {
	v, _ := s.packaged(imexProgram, "IMEX", "nvidia-imex")
	return v
}

// packaged looks for a program of NVIDIA's and its package; decided: the program is not there, or its version is known, or
// cannot be read.
func (f files) packaged(program, words, name string) (v node.Value[node.FabricManagerState], decided bool) {
	source := node.Source{Path: program}
	if _, err := f.stat(program); absent(err) {
		return node.Known(node.FabricManagerState{}, source), true
	} else if err != nil {
		return unknown[node.FabricManagerState](err, program), true
	}
	text, err := f.readBytes(dpkgStatus, maxIndex)
	state := node.FabricManagerState{Installed: true}
	switch version := debianVersion(text, isPackage(name)); {
	case absent(err):
		state.Version = node.Unknown[string]("dpkg has no database here, and others are not read", node.Source{Path: dpkgStatus})
	case err != nil:
		state.Version, decided = unknown[string](err, dpkgStatus), true
	case version == "":
		state.Version = node.Unknown[string]("dpkg has installed no package of "+words, node.Source{Path: dpkgStatus})
	default:
		state.Version, decided = node.Known(version, node.Source{Path: dpkgStatus}), true
	}
	return node.Known(state, source), decided
}

// managerVersion is what the program prints with --version (Fabric Manager User Guide, "Fabric Manager Startup Options"):
// "Fabric Manager version is : 580.95.05".
var managerVersion = regexp.MustCompile(`(?m)^\s*Fabric Manager version is\s*:\s*([0-9]+(?:\.[0-9]+)+)\s*$`)

// managerPatience is how long the program may take to say its version.
const managerPatience = 3 * time.Second

// fabricManager asks the program, which says its version and ends.
func (d drivers) fabricManager(string) node.Value[node.FabricManagerState] {
	source := node.Source{Call: "nv-fabricmanager --version"}
	state := node.FabricManagerState{Installed: true}
	name, file := d.program([]string{path.Base(fabricManagerProgram)})
	if file == "" {
		state.Version = node.Unknown[string]("the program cannot be run", source)
		return node.Known(state, node.Source{Path: fabricManagerProgram})
	}
	ctx, cancel := context.WithTimeout(context.Background(), managerPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "--version")
	cmd.Env = []string{"LC_ALL=C", "PATH=" + strings.Join(programDirs(), ":")}
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	switch m := managerVersion.FindSubmatch(output); {
	case m != nil:
		state.Version = node.Known(string(m[1]), source)
	case err != nil:
		state.Version = node.Unknown[string](fmt.Sprintf("%s: %s", name, err), source)
	default:
		state.Version = node.Unknown[string](fmt.Sprintf("%s says no version: %.80q", name, output), source)
	}
	return node.Known(state, node.Source{Path: fabricManagerProgram})
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
