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

// Where the fabric manager is, and where Debian and Ubuntu keep which packages are installed (dpkg(1)).
const (
	fabricManagerProgram = "/usr/bin/nv-fabricmanager"
	dpkgStatus           = "/var/lib/dpkg/status"
)

// fabricManagerWithout answers where the program is not installed, and where dpkg has installed it: its package has its version.
// Otherwise only the program itself says it: the database of rpm is one of three formats, of which none is text.
func fabricManagerWithout(f files, _ string) (node.Value[node.FabricManagerState], bool) {
	source := node.Source{Path: fabricManagerProgram}
	if _, err := f.stat(fabricManagerProgram); absent(err) {
		return node.Known(node.FabricManagerState{}, source), true
	} else if err != nil {
		return unknown[node.FabricManagerState](err, fabricManagerProgram), true
	}
	text, err := f.readBytes(dpkgStatus, maxIndex)
	state := node.FabricManagerState{Installed: true}
	switch version := debianVersion(text, isFabricManager); {
	case err != nil && !absent(err):
		state.Version = unknown[string](err, dpkgStatus)
	case version != "":
		state.Version = node.Known(version, node.Source{Path: dpkgStatus})
	case f.root != "":
		state.Version = node.Unknown[string]("dpkg has installed no package of the fabric manager here, and the program is not run", node.Source{Path: dpkgStatus})
	default:
		return node.Value[node.FabricManagerState]{}, false
	}
	return node.Known(state, source), true
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
