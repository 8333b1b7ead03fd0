package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"busbar/node"
)

// dpkgDatabase is the file of a node whose driver was upgraded without its fabric manager.
const dpkgDatabase = `Package: nvidia-driver-530
Status: install ok installed
Priority: optional
Version: 530.41.03-1

Package: nvidia-fabricmanager-dev-530
Status: install ok installed
Version: 530.99.99-1

Package: nvidia-fabricmanager-525
Status: deinstall ok config-files
Version: 525.147.05-1

Package: nvidia-fabricmanager-530
Status: install ok installed
Maintainer: cudatools <cudatools@nvidia.com>
Version: 1:530.30.02-0ubuntu0.22.04.1
Description: Fabric Manager for NVSwitch based systems.
 Version: 9.9 of something else

Package: nvidia-imex-595
Status: install ok installed
Version: 595.71.05-0ubuntu0.24.04.1
`

func TestFabricManager(t *testing.T) {
	const program, database = "usr/bin/nv-fabricmanager", "var/lib/dpkg/status"
	known(t, ask(t, tree(t, map[string]string{program: "", database: dpkgDatabase}), node.FabricManager, ""), node.FabricManagerState{Installed: true, Version: value("530.30.02")})
	known(t, ask(t, tree(t, map[string]string{database: dpkgDatabase}), node.FabricManager, ""), node.FabricManagerState{})
	for database, why := range map[string]string{"": "dpkg has no database here", "Package: bash\nStatus: install ok installed\nVersion: 5\n": "no package of the fabric manager"} {
		files := map[string]string{program: ""}
		if database != "" {
			files["var/lib/dpkg/status"] = database
		}
		s, _ := ask(t, tree(t, files), node.FabricManager, "").Get()
		unknownAs(t, s.Version, why)
	}
	known(t, get(t, New(Options{Root: tree(t, map[string]string{program: "", database: strings.Replace(dpkgDatabase, "1:530.30.02-0ubuntu0.22.04.1", "580.95.05", 1)})}), node.FabricManager, ""),
		node.FabricManagerState{Installed: true, Version: value("580.95.05")})
}

// The program is asked where rpm, or nobody, has installed it.
func TestCompanionProgram(t *testing.T) {
	for _, c := range []struct {
		companion            companion
		script, version, why string
	}{
		{fabricManager, "printf '\\n\\tFabric Manager version is : 535.161.08\\n\\n'", "535.161.08", ""},
		{fabricManager, "echo Fabric Manager version is : 580.95.05; exit 1", "580.95.05", ""},
		{fabricManager, "echo Fabric Manager version is : main", "", `nv-fabricmanager says no version: "Fabric Manager version is : main`},
		{fabricManager, "exit 3", "", "nv-fabricmanager: exit status 3"},
		{fabricManager, "exec sleep 60", "", "nv-fabricmanager: signal: killed"},
		{imex, "echo IMEX version is: 570.148.08", "570.148.08", ""},
		{imex, "echo version 570.148.08", "", `nvidia-imex says no version: "version 570.148.08`},
	} {
		name := filepath.Base(c.companion.path)
		dir := tree(t, map[string]string{name: "#!/bin/sh\n[ \"$1\" = --version ] || exit 9\n" + c.script + "\n"})
		must(t, os.Chmod(filepath.Join(dir, name), 0o755))
		s, ok := c.companion.ask(drivers{programs: []string{dir}}).Get()
		version, known := s.Version.Get()
		if !ok || !s.Installed || version != c.version || known != (c.why == "") || !strings.Contains(s.Version.Reason(), c.why) {
			t.Errorf("%s: %+v, %s", c.script, s, s.Version.Reason())
		}
	}
	s, _ := imex.ask(drivers{}).Get()
	unknownAs(t, s.Version, "cannot be run")
}

func FuzzCompanionVersion(f *testing.F) {
	f.Add([]byte("\n\tFabric Manager version is : 535.161.08\n"))
	f.Add([]byte("IMEX version is: 570.148.08\n"))
	f.Fuzz(func(t *testing.T, output []byte) {
		if m := companionVersion.FindSubmatch(output); m != nil && strings.Trim(string(m[1]), ".0123456789") != "" {
			t.Errorf("%q of %q", m[1], output)
		}
	})
}

func TestIMEX(t *testing.T) {
	const program, database = "usr/bin/nvidia-imex", "var/lib/dpkg/status"
	known(t, ask(t, tree(t, map[string]string{program: "", database: dpkgDatabase}), node.IMEX, ""), node.FabricManagerState{Installed: true, Version: value("595.71.05")})
	known(t, ask(t, tree(t, map[string]string{database: dpkgDatabase}), node.IMEX, ""), node.FabricManagerState{})
	s, _ := ask(t, tree(t, map[string]string{program: ""}), node.IMEX, "").Get()
	unknownAs(t, s.Version, "dpkg has no database here")
}

func FuzzDebianVersion(f *testing.F) {
	f.Add(dpkgDatabase)
	f.Fuzz(func(t *testing.T, text string) {
		if version := debianVersion([]byte(text), isPackage("nvidia-fabricmanager")); !strings.Contains(text, version) || strings.Contains(version, "\n") {
			t.Errorf("%q of %q", version, text)
		}
	})
}
