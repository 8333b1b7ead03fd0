package paste

import (
	"strings"

	"busbar/node"
)

// Lists of packages: rows of dpkg -l with the five lines above them, and the names that rpm -qa prints.
var (
	dpkgHead = expression(`^(?:Desired=Unknown/Install/|\| Status=Not/Inst/|\|/ Err\?=\(none\)|\|\|/ Name +Version|\+\+\+-=+-=+)`)
	dpkgRow  = expression(`^[uihrp][ncHUFWti][ R] ?([a-z0-9][a-z0-9+.:-]+) +(\S+) +([\w-]+|<none>) +\S`)
	rpmName  = expression(`^([A-Za-z0-9][\w.+-]*)-([^-\s]+)-([^-\s]+)\.(?:x86_64|aarch64|noarch|i[3-6]86)$`)
)

var dpkgKind = kind{
	name: "dpkg -l",
	scan: func(p piece) match {
		head := dpkgHead.MatchString(p.lines[0])
		if !head && !dpkgRow.MatchString(p.lines[0]) {
			return match{}
		}
		rows := 0
		n := while(p.lines, func(line string) bool {
			row := dpkgRow.MatchString(line)
			rows += one(row)
			return row || dpkgHead.MatchString(line)
		})
		return match{n, one(head) + 2*one(rows > 0)} // the letters of the status, and the columns
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			m := dpkgRow.FindStringSubmatch(line)
			if m == nil || !strings.HasPrefix(line, "ii") && !strings.HasPrefix(line, "hi") {
				continue
			}
			name, _, _ := strings.Cut(m[1], ":")
			_, version, epoch := strings.Cut(m[2], ":")
			if !epoch {
				version = m[2]
			}
			version, _, _ = strings.Cut(version, "-")
			d.installed(name, version, s.source(i))
		}
		return ""
	},
}

var rpmKind = kind{
	name: "rpm -qa",
	scan: func(p piece) match {
		const key = "gpg-pubkey-" // which has no architecture
		if !rpmName.MatchString(p.lines[0]) && !strings.HasPrefix(p.lines[0], key) {
			return match{}
		}
		known := 0
		n := while(p.lines, func(line string) bool {
			m := rpmName.FindStringSubmatch(line)
			known += one(m != nil && packageOf(m[1]) != otherPackage)
			return m != nil || strings.HasPrefix(line, key)
		})
		return match{n, one(n > 0) + one(n > 2) + one(known > 0) + one(p.typed("rpm"))}
	},
	read: func(d *draft, s section) string {
		for i, line := range s.lines {
			if m := rpmName.FindStringSubmatch(line); m != nil {
				d.installed(m[1], m[2], s.source(i))
			}
		}
		return ""
	},
}

// What packages hold that facts are about.
const (
	otherPackage = iota
	managerPackage
	imexPackage
	libraryPackage
	subnetManagerPackage
)

// Names of packages, as NVIDIA's repositories and Ubuntu have them: nvidia-fabricmanager, nvidia-fabricmanager-580, nvidia-fabric-manager of the
// RPMs until 565; nvidia-imex; those with libnvidia-ml.so.1 (libnvidia-compute-580-server, nvidia-driver-cuda-libs, libnvidia-ml).
var (
	managerName = expression(`^(?:nvidia-fabricmanager(?:-\d+)?|nvidia-fabric-manager)$`)
	imexName    = expression(`^nvidia-imex(?:-\d+)?$`)
	libraryName = expression(`^(?:libnvidia-compute(?:-\d+)?(?:-server)?|nvidia-driver-cuda-libs|libnvidia-ml)$`)
)

func packageOf(name string) int {
	switch {
	case managerName.MatchString(name):
		return managerPackage
	case imexName.MatchString(name):
		return imexPackage
	case libraryName.MatchString(name):
		return libraryPackage
	case name == "nvlsm":
		return subnetManagerPackage
	}
	return otherPackage
}

// subnetManager is the program in the package nvlsm.
const subnetManager = "/opt/nvidia/nvlsm/sbin/nvlsm"

// installed takes what a package is, of which the version has neither epoch nor revision. A package tells nothing of the driver that runs,
// which may be an older one.
func (d *draft) installed(name, version string, source node.Source) {
	state := node.Known(node.FabricManagerState{Installed: true, Version: node.Known(version, source)}, source)
	switch packageOf(name) {
	case managerPackage:
		say(d, node.FabricManager, "", state)
	case imexPackage:
		say(d, node.IMEX, "", state)
	case libraryPackage:
		say(d, node.NVML, "", node.Known(node.NVMLState{Version: node.PackagedNVML(version)}, source))
	case subnetManagerPackage:
		say(d, node.Path, subnetManager, node.Known(node.PathState{Exists: true, Type: "file"}, source))
	}
}
