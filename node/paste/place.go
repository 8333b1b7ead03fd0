package paste

import (
	"strings"
)

// roots are the directories at the root of a node in which files stand that text is about.
var roots = []string{"/etc/", "/proc/", "/sys/", "/boot/", "/run/", "/usr/lib/", "/usr/local/lib/", "/usr/share/", "/lib/", "/var/log/", "/dev/"}

// portFile is a file of /sys/class/infiniband, of which people copy the directory.
var portFile = expression(`/([A-Za-z0-9_]{3,32}/(?:ports/\d{1,3}/[\w/]+|fw_ver|board_id|hca_type|node_guid|tc/\d{1,3}/traffic_class))$`)

// Placed is where a file stands on its node, as far as the name by which it was given tells: behind the first of its directories
// that are at a node's root, "/tmp/case/etc/nccl.conf" at /etc/nccl.conf. It is empty where the name tells nothing.
func Placed(name string) string {
	first := -1
	if !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	for _, root := range roots {
		if i := strings.Index(name, root); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		return name[first:]
	}
	if m := portFile.FindStringSubmatch(name); m != nil {
		return infinibandClass + m[1]
	}
	return ""
}

const infinibandClass = "/sys/class/infiniband/"
