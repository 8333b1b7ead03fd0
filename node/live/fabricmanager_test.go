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
func TestFabricManagerProgram(t *testing.T) {
	for _, c := range []struct{ script, version, why string }{
		{"printf '\\n\\tFabric Manager version is : 535.161.08\\n\\n'", "535.161.08", ""},
		{"echo Fabric Manager version is : 580.95.05; exit 1", "580.95.05", ""},
		{"echo Fabric Manager version is : main", "", `nv-fabricmanager says no version: "Fabric Manager version is : main`},
		{"exit 3", "", "nv-fabricmanager: exit status 3"},
		{"exec sleep 60", "", "nv-fabricmanager: signal: killed"},
	} {
		dir := tree(t, map[string]string{"nv-fabricmanager": "#!/bin/sh\n[ \"$1\" = --version ] || exit 9\n" + c.script + "\n"})
		must(t, os.Chmod(filepath.Join(dir, "nv-fabricmanager"), 0o755))
		s, ok := drivers{programs: []string{dir}}.fabricManager("").Get()
		version, known := s.Version.Get()
		if !ok || !s.Installed || version != c.version || known != (c.why == "") || !strings.Contains(s.Version.Reason(), c.why) {
			t.Errorf("%s: %+v, %s", c.script, s, s.Version.Reason())
		}
	}
	s, _ := drivers{}.fabricManager("").Get()
	unknownAs(t, s.Version, "cannot be run")
}

func FuzzManagerVersion(f *testing.F) {
	f.Add([]byte("\n\tFabric Manager version is : 535.161.08\n"))
	f.Fuzz(func(t *testing.T, output []byte) {
		if m := managerVersion.FindSubmatch(output); m != nil && strings.Trim(string(m[1]), ".0123456789") != "" {
			t.Errorf("%q of %q", m[1], output)
		}
	})
}

func TestIMEX(t *testing.T) {
	const program, database = "usr/bin/nvidia-imex", "var/lib/dpkg/status"
	known(t, ask(t, tree(t, map[string]string{program: "", database: dpkgDatabase}), node.IMEX, ""), node.FabricManagerState{Installed: true, Version: value("595.71.05")})
	known(t, ask(t, tree(t, map[string]string{database: dpkgDatabase}), node.IMEX, ""), node.FabricManagerState{})
}

func FuzzDebianVersion(f *testing.F) {
	f.Add(dpkgDatabase)
	f.Fuzz(func(t *testing.T, text string) {
		if version := debianVersion([]byte(text), isPackage("nvidia-fabricmanager")); !strings.Contains(text, version) || strings.Contains(version, "\n") {
			t.Errorf("%q of %q", version, text)
		}
	})
}
