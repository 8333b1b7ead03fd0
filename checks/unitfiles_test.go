package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/internal/confdir"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestUnitFiles(t *testing.T) {
	const unit = "nvidia-mig-manager.service"
	files := func(texts ...string) node.Facts {
		var list []confdir.File
		for i, text := range texts {
			list = append(list, confdir.File{Path: []string{"/etc/systemd/system/" + unit, "/etc/systemd/system/" + unit + ".d/x.conf"}[i], Text: text})
		}
		return plantest.Node(node.UnitFiles.Answer(unit, node.Known(list, node.Source{Path: "/etc/systemd/system/" + unit})))
	}
	c := func(name, want string, facts node.Facts, says ...string) plantest.Case {
		return plantest.Case{Name: name, Blocks: `check "unit_files" "all" { units = ["` + unit + `"] }`, Facts: facts, Want: want, Says: says}
	}
	const (
		fine  = "ok unit_files.order " + unit + " ()\n"
		after = "drift unit_files.order " + unit + " (/etc/systemd/system/" + unit + ":2)\n"
		owner = "conflict warn unit_files.owner " + unit + " (/etc/systemd/system/" + unit + ":3)\n"
		start = "[Service]\nType=oneshot\nExecStart=/usr/bin/cp /opt/nccl.conf /etc/nccl.conf\n"
	)
	plantest.Run(t, checks.All(), []plantest.Case{
		c("not known", "unknown unit_files.order "+unit+" ()", plantest.Node(), "the files of "+unit+" is unknown"),
		c("an order that can be kept", fine, files("[Unit]\nAfter=network.target\n[Install]\nWantedBy=multi-user.target\n")),
		c("after the target that wants it", after, files("[Unit]\nAfter=network.target multi-user.target\n[Install]\nWantedBy=multi-user.target\n"), "is wanted by multi-user.target and waits for it (After=)"),
		c("after the target that requires it", after, files("[Unit]\nAfter=basic.target\n[Install]\nRequiredBy=basic.target\n")),
		c("wanted in one file, after it in another", "drift unit_files.order "+unit+" (/etc/systemd/system/"+unit+".d/x.conf:2)", files("[Install]\nWantedBy=multi-user.target\n", "[Unit]\nAfter=multi-user.target\n")),
		c("a comment is none", fine, files("[Unit]\n#After=multi-user.target\n; After=multi-user.target\n[Install]\nWantedBy=multi-user.target\n")),
		c("wanted by a service", fine, files("[Unit]\nAfter=a.service\n[Install]\nWantedBy=a.service\n")),
		c("it writes NCCL's file and empties it", fine+owner, files(start+"ExecStop=/usr/bin/truncate -s 0 /etc/nccl.conf\n"), "writes /etc/nccl.conf when it starts, and takes it back when it stops"),
		c("it writes the file and leaves it", fine, files(start)),
		c("it writes another file", fine, files("[Service]\nExecStart=/bin/x /etc/nccl.conf.d\nExecStop=/bin/y /etc/nccl.confs\n")),
	})
	for name, problems := range map[string]int{unit: 0, "a@b.service": 0, "": 1, "a/b.service": 1, "no suffix": 1} {
		b := plantest.Blocks(t, checks.All(), `check "unit_files" "all" { units = ["`+name+`"] }`)[0]
		if got := (checks.UnitFiles{}).Validate(b); len(got) != problems {
			t.Errorf("%q: %+v", name, got)
		}
	}
}
