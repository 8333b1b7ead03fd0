package unitfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/confdir"
	"busbar/internal/unitfile"
)

const (
	openibd = "/usr/lib/systemd/system/openibd.service"
	// unit is that of MLNX_OFED 5.8.
	unit = `[Unit]
Description=openibd - configure Mellanox devices
Documentation=file:/etc/infiniband/openib.conf
After=wickedd.service wickedd-nanny.service local-fs.target sysinit.target
Before=network.target network.service networking.service remote-fs-pre.target
RefuseManualStop=false
DefaultDependencies=false

[Service]
Type=oneshot
TimeoutSec=180
RemainAfterExit=yes
ExecStart=/etc/init.d/openibd start bootid=%b
ExecStop=/etc/init.d/openibd stop
ExecReload=/etc/init.d/openibd restart bootid=%b

[Install]
WantedBy=sysinit.target
`
)

func TestCommands(t *testing.T) {
	const dropIn = openibd + ".d/override.conf"
	for _, tt := range []struct {
		name, key string
		files     []confdir.File
		want      []unitfile.Command
	}{
		{"a unit", "ExecStop", []confdir.File{{Path: openibd, Text: unit}}, []unitfile.Command{{Line: "/etc/init.d/openibd stop", File: openibd, Number: 14}}},
		{"none", "ExecStartPost", []confdir.File{{Path: openibd, Text: unit}}, nil},
		{
			"a drop-in", "ExecStartPost", []confdir.File{{Path: openibd, Text: unit}, {Path: dropIn, Text: "[Service]\nExecStartPost=/sbin/modprobe nvidia-peermem\n"}},
			[]unitfile.Command{{Line: "/sbin/modprobe nvidia-peermem", File: dropIn, Number: 2}},
		},
		{
			"taken back", "ExecStartPost", []confdir.File{{Path: openibd, Text: "[Service]\nExecStartPost=a\nExecStartPost=b"}, {Path: dropIn, Text: "[Service]\r\nExecStartPost=\r\nExecStartPost = c \r\n"}},
			[]unitfile.Command{{Line: "c", File: dropIn, Number: 3}},
		},
		{
			"on several lines", "ExecStart", []confdir.File{{Path: openibd, Text: "[Service]\nExecStart=/bin/a \\\n# a comment\n  b\\\\\n; another\nExecStart=c \\"}},
			[]unitfile.Command{{Line: `/bin/a    b\\`, File: openibd, Number: 2}, {Line: "c", File: openibd, Number: 6}},
		},
		{"another section", "ExecStart", []confdir.File{{Path: openibd, Text: "ExecStart=a\n[Socket]\nExecStart=b\n#[Service]\nExecStart=c\n"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, unitfile.Commands(tt.files, tt.key)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSame(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"-/sbin/modprobe nvidia-peermem", "/usr/sbin/modprobe  nvidia_peermem", true},
		{"-/sbin/modprobe nvidia-peermem", "/sbin/modprobe nvidia-fs", false},
		{"-/sbin/modprobe nvidia-peermem", "/sbin/rmmod nvidia-peermem", false},
		{"", "-", true},
	} {
		if got := unitfile.Same(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q are the same: %v", tt.a, tt.b, got)
		}
	}
}

func FuzzCommands(f *testing.F) {
	f.Add(unit)
	f.Add("[Service]\nExecStartPost=a \\\n\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, c := range unitfile.Commands([]confdir.File{{Path: openibd, Text: text}}, "ExecStartPost") {
			if c.Line == "" || c.Number < 1 || c.Number > lines {
				t.Errorf("%+v", c)
			}
			written := unitfile.Commands([]confdir.File{{Text: "[Service]\nExecStartPost=" + c.Line + "\n"}}, "ExecStartPost")
			if len(written) == 1 && !unitfile.Same(written[0].Line, c.Line) {
				t.Errorf("%q is read as %q when it is written again", c.Line, written[0].Line)
			}
		}
	})
}

func TestSetting(t *testing.T) {
	main := confdir.File{Path: "/etc/systemd/logind.conf", Text: "[Manager]\nRemoveIPC=x\n[Login]\n#RemoveIPC=yes\n RemoveIPC = no \nRemoveIPCs=a\n"}
	if got, ok := unitfile.Setting([]confdir.File{main}, "Login", "RemoveIPC"); !ok || got != (unitfile.Command{Line: "no", File: main.Path, Number: 5}) {
		t.Errorf("%+v, %v", got, ok)
	}
	taken := confdir.File{Path: "/etc/systemd/logind.conf.d/a.conf", Text: "[Login]\nRemoveIPC=\n"}
	if got, ok := unitfile.Setting([]confdir.File{main, taken}, "Login", "RemoveIPC"); ok {
		t.Errorf("%+v", got)
	}
}
