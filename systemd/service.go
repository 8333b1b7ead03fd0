package systemd

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed busbar.service
var service string

// packaged is the program that busbar.service starts where a package brings both.
const packaged = "/usr/bin/busbar"

// plain paths need no quoting in a unit (systemd.syntax(7), systemd.service(5)).
var plain = regexp.MustCompile(`^/[A-Za-z0-9/._+-]+$`)

// Service is busbar.service, which enforces the node's profile at each boot, for a program at
// an absolute path.
func Service(program string) (string, error) {
	if !plain.MatchString(program) {
		return "", fmt.Errorf("%q cannot stand in a unit: letters, digits and /._+- may be in it", program)
	}
	return strings.Replace(service, "ExecStart="+packaged+" ", "ExecStart="+program+" ", 1), nil
}
