package live

import (
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
