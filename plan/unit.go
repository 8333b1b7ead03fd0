package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// unitTypes are the suffixes of unit names (systemd.unit(5)).
var unitTypes = []string{".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer", ".slice", ".scope"}

// UnitName completes the name of a systemd unit as systemctl(1) does: slurmd is slurmd.service.
func UnitName(name string) string {
	if slices.Contains(unitTypes, path.Ext(name)) {
		return name
	}
	return name + ".service"
}

// CheckUnitName says why a completed name names no unit: systemd.unit(5) allows ASCII letters,
// digits and :-_.\ in it, and one @ before an instance.
func CheckUnitName(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	prefix := strings.TrimSuffix(name, path.Ext(name))
	if prefix == "" || strings.HasPrefix(prefix, "@") || strings.Trim(prefix, letters+`0123456789:-_.\@`) != "" {
		return fmt.Errorf("%q is no name of a unit: letters, digits and :-_.\\@ may stand in it", prefix)
	}
	return nil
}
