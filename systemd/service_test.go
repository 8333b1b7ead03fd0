package systemd

import (
	"strings"
	"testing"
)

func TestService(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/bin/busbar":            "ExecStart=/usr/bin/busbar apply --boot ",
		"/opt/busbar-1.2/bin/busbar": "ExecStart=/opt/busbar-1.2/bin/busbar apply --boot ",
		"/opt/my tools/busbar":       "",
		"/opt/100%/busbar":           "",
		"busbar":                     "",
		"":                           "",
	} {
		text, err := Service(program)
		if (err == nil) != (want != "") || !strings.Contains(text, want) || strings.Count(text, "ExecStart=") != min(1, len(want)) {
			t.Errorf("%q: error %v\n%s", program, err, text)
		}
	}
}
