package live

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"strings"
	"time"

	"busbar/internal/lazyregexp"
	"busbar/node"
)

// dpkgStatus is where Debian and Ubuntu keep which packages are installed (dpkg(1)).
const dpkgStatus = "/var/lib/dpkg/status"

// companion is a program of NVIDIA's that works with the driver of its own version alone.
type companion struct {
	kind node.Kind[node.FabricManagerState]
	// path of the program, words for it, and the name of its package.
	path, words, pkg string
}

var (
	fabricManager = companion{node.FabricManager, "/usr/bin/nv-fabricmanager", "the fabric manager", "nvidia-fabricmanager"}
	imex          = companion{node.IMEX, "/usr/bin/nvidia-imex", "IMEX", "nvidia-imex"}
)

// companionVersion is what they print with --version: "Fabric Manager version is : 580.95.05" (Fabric Manager User Guide, "Fabric
// Manager Startup Options") and "IMEX version is: 570.148.08" (bottlerocket-kernel-kit pull request 204).
var companionVersion = lazyregexp.New(`(?m)^\s*(?:Fabric Manager|IMEX) version is\s*:\s*([0-9]+(?:\.[0-9]+)+)\s*$`)

// reader says how it is read.
func (c companion) reader() kindReader { return readsByChild(c.kind, c.without) }

// without answers where the program is not installed, and where dpkg has installed it: its package has its version.
// Otherwise only the program itself says it: the database of rpm is one of three formats, of which none is text.
func (c companion) without(f files, _ string) (node.Value[node.FabricManagerState], bool) {
	v, decided := c.packaged(f)
	if decided || f.root != "" {
		return v, true
	}
	return node.Value[node.FabricManagerState]{}, false
}

// packaged looks for the program and its package; decided: the program is not there, or its version is known, or
// cannot be read.
func (c companion) packaged(f files) (v node.Value[node.FabricManagerState], decided bool) {
	source := node.Source{Path: c.path}
	if _, err := f.stat(c.path); absent(err) {
		return node.Known(node.FabricManagerState{}, source), true
	} else if err != nil {
		return unknown[node.FabricManagerState](err, c.path), true
	}
	text, err := f.readBytes(dpkgStatus, maxIndex)
	state := node.FabricManagerState{Installed: true}
	switch version := debianVersion(text, isPackage(c.pkg)); {
	case absent(err):
		state.Version = node.Unknown[string]("dpkg has no database here, and others are not read", node.Source{Path: dpkgStatus})
	case err != nil:
		state.Version, decided = unknown[string](err, dpkgStatus), true
	case version == "":
		state.Version = node.Unknown[string]("dpkg has installed no package of "+c.words, node.Source{Path: dpkgStatus})
	default:
		state.Version, decided = node.Known(version, node.Source{Path: dpkgStatus}), true
	}
	return node.Known(state, source), decided
}

// companionPatience is how long the program may take to say its version.
const companionPatience = 3 * time.Second

// ask has the program say its version and end.
func (c companion) ask(d drivers) node.Value[node.FabricManagerState] {
	name := path.Base(c.path)
	source := node.Source{Call: name + " --version"}
	state := node.FabricManagerState{Installed: true}
	name, file := d.program([]string{name})
	if file == "" {
		state.Version = node.Unknown[string]("the program cannot be run", source)
		return node.Known(state, node.Source{Path: c.path})
	}
	ctx, cancel := context.WithTimeout(context.Background(), companionPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "--version")
	cmd.Env = []string{"LC_ALL=C", "PATH=" + strings.Join(programDirs(), ":")}
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	switch m := companionVersion.FindSubmatch(output); {
	case m != nil:
		state.Version = node.Known(string(m[1]), source)
	case err != nil:
		state.Version = node.Unknown[string](fmt.Sprintf("%s: %s", name, err), source)
	default:
		state.Version = node.Unknown[string](fmt.Sprintf("%s says no version: %.80q", name, output), source)
	}
	return node.Known(state, node.Source{Path: c.path})
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
