package node

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// KernelAtLeast reports whether the kernel is of a version or a newer one. A release begins with the version, and
// what a distribution makes of the rest is its own: 5.14.0-427.13.1.el9_4.x86_64, 6.8.0-45-generic, 6.12.0+.
func (inv Inventory) KernelAtLeast(major, minor int) Value[bool] {
	release, ok := inv.Kernel.Get()
	if !ok {
		return UnknownLike[bool](inv.Kernel)
	}
	first, rest, _ := strings.Cut(release, ".")
	second := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	x, err := strconv.Atoi(first)
	y, err2 := strconv.Atoi(second)
	if err != nil || err2 != nil {
		return Unknown[bool](fmt.Sprintf("%q is no release of Linux", release), inv.Kernel.Source())
	}
	return Known(cmp.Or(cmp.Compare(x, major), cmp.Compare(y, minor)) >= 0, inv.Kernel.Source())
}
