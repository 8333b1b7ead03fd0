package pcieacs

import (
	"fmt"
	"slices"
	"strings"

	"busbar/internal/cmdline"
	"busbar/node"
)

// spelling is the sub-option of pci= that turns redirection off at boot.
type spelling string

const (
	// disableRedirect clears ReqRedir, CmpltRedir and EgressCtrl, and not UpstreamFwd (Linux 4.20).
	disableRedirect spelling = "pci=disable_acs_redir="
	// configure sets any function (Linux 6.11).
	configure spelling = "pci=config_acs="
)

// cleared is what configure has for each port: functions from EgressCtrl down to SrcValid, of which
// those that redirect are 0 and the others as firmware left them
// (Documentation/admin-guide/kernel-parameters.txt).
const cleared = "0000xx@"

// commandLineSize is how much of its command line a kernel reads, the NUL at the end included
// (COMMAND_LINE_SIZE of x86 and arm64).
const commandLineSize = 2048

// spellingOf is how the kernel of a release is told.
//
// Commit 47c8846a49ba of Linux 6.11, which brought config_acs=, had two faults: of several ports it
// understood one alone, and it set functions instead of clearing them, by disable_acs_redir= too. 9cf8a952d57b
// of 6.15 mended it; 6.14.2, 6.13.11 and 6.12.23 took that over. A distribution that numbers its
// kernels otherwise does not tell whether it did. NVIDIA's kernels for Ubuntu took over both changes, at
// a time that the release does not tell either (NVIDIA/NV-Kernels).
func spellingOf(release string) (spelling, error) {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch); n < 2 {
		return "", fmt.Errorf("the kernel's release %q has no version", release)
	}
	before := func(x, y int) bool { return major < x || major == x && minor < y }
	mended := map[int]int{12: 23, 13: 11, 14: 2}
	at, stable := mended[minor]
	switch {
	case before(4, 20):
		return "", fmt.Errorf("there is no option for it before Linux 4.20, and this is %s", release)
	case !before(6, 15), major == 6 && stable && patch >= at:
		return configure, nil
	case strings.Contains(release, "nvidia"):
		return "", fmt.Errorf("whether pci=config_acs= and pci=disable_acs_redir= of Linux %s have their bug of 6.11 is not known", release)
	case before(6, 11):
		return disableRedirect, nil
	default:
		return "", fmt.Errorf("pci=config_acs= and pci=disable_acs_redir= of Linux %s can have a bug that turns functions on (mended in 6.15, 6.14.2, 6.13.11 and 6.12.23)", release)
	}
}

// argument names the ports at paths.
func (s spelling) argument(paths []string) string {
	entries := slices.Clone(paths)
	if s == configure {
		for i := range entries {
			entries[i] = cleared + entries[i]
		}
	}
	return string(s) + strings.Join(entries, ";")
}

// fits reports whether the argument leaves room for what a command line has besides.
func (s spelling) fits(paths []string, line string) bool {
	argument := s.argument(paths)
	length := len(argument)
	for _, a := range cmdline.Parse(line) {
		if a.Text != argument {
			length += 1 + len(a.Text)
		}
	}
	return length < commandLineSize
}

// devicePath spells a function as pci_dev_str_match_path (drivers/pci/pci.c) reads it: the address
// of the root port, then device and function of each bridge below. Other than the function's
// address it stays the same when buses are numbered anew.
func devicePath(inv node.Inventory, address string) string {
	bridges, _ := inv.BridgesAbove(address).Get() // known where the port is on the bus
	way := append([]string{address}, bridges...)
	slices.Reverse(way)
	path := strings.TrimPrefix(way[0], "0000:") // the domain where none is written
	for _, below := range way[1:] {
		path += "/" + below[strings.LastIndexByte(below, ':')+1:]
	}
	return path
}
