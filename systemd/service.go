package systemd

import (
	_ "embed"
	"fmt"
	"path"
	"strings"
)

//go:embed busbar.service
var service string

// ModulesLoad is a drop-in of systemd-modules-load.service, by which a module that hangs holds up the
// boot for 80 s at most (systemd.service(5), TimeoutStartSec= and TimeoutStopSec=).
//
//go:embed modules-load.conf
var ModulesLoad string

// packaged is the program that busbar.service starts where a package brings both.
const packaged = "/usr/bin/busbar"

// plain are the characters that need no quoting in a unit (systemd.syntax(7), systemd.service(5)).
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-"

// Service is busbar.service, which enforces the node's profile at each boot, for a program at
// an absolute path.
func Service(program string) (string, error) {
	if !path.IsAbs(program) || strings.Trim(program, plain) != "" {
		return "", fmt.Errorf("%q cannot stand in a unit: letters, digits and /._+- may be in it", program)
	}
	return strings.Replace(service, "ExecStart="+packaged+" ", "ExecStart="+program+" ", 1), nil
}
