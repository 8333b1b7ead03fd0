package service_test

import (
	"testing"

	"busbar/modules/service"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
)

var types = []plan.Type{service.Type{}}

// unit is a loaded unit; an active of "?" stands for one that only files tell of.
func unit(name, file, active string) node.Answer {
	u := node.UnitState{Load: "loaded", File: file, Active: node.Known(active, node.Source{Call: "ActiveState of " + name})}
	switch {
	case file == "masked":
		u.Load = "masked"
	case file == "":
		u.Load = "not-found"
	}
	if active == "?" {
		u.Active = node.Unknown[string]("no D-Bus", node.Source{})
	}
	return node.Unit.Answer(name, node.Known(u, node.Source{Call: "Unit " + name}))
}

// queued is a unit for which systemd has a job.
func queued(name, file, active, job string) node.Answer {
	source := node.Source{Call: "Unit " + name}
	u := node.UnitState{Load: "loaded", File: file, Active: node.Known(active, node.Source{Call: "ActiveState of " + name}), Job: job}
	return node.Unit.Answer(name, node.Known(u, source))
}

func TestService(t *testing.T) {
	const fm = "nvidia-fabricmanager.service"
	wanted := `service "nvidia-fabricmanager" {
		enabled = true
		active  = true
	}`
	unmasked := `service "nvidia-fabricmanager" {
		enabled = true
		active  = true
		masked  = false
	}`
	off := `service "nvidia-imex" {
		enabled = false
		active  = false
	}`
	masked := `service "nvidia-imex" { masked = true }`
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "disabled and inactive", Blocks: wanted, Facts: plantest.Node(unit(fm, "disabled", "inactive")),
			Want: `
				!drift service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				!drift service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
				step set-unit:nvidia-fabricmanager.service
			`,
		},
		{
			Name: "about to be started", Blocks: wanted, Facts: plantest.Node(queued(fm, "enabled", "inactive", "start")),
			Want: `
				ok service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				skipped service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
			`,
		},
		{
			Name: "about to be stopped", Blocks: wanted, Facts: plantest.Node(queued(fm, "enabled", "inactive", "stop")),
			Want: `
				ok service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				!drift service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
				step set-unit:nvidia-fabricmanager.service
			`,
		},
		{
			Name: "off, its stop is queued", Blocks: off, Facts: plantest.Node(queued("nvidia-imex.service", "disabled", "active", "stop")),
			Want: `
				ok service.boot nvidia-imex.service (Unit nvidia-imex.service)
				skipped service.running nvidia-imex.service (ActiveState of nvidia-imex.service)
			`,
		},
		{
			Name: "as wanted", Blocks: wanted, Facts: plantest.Node(unit(fm, "enabled", "active")),
			Want: `
				ok service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				ok service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
			`,
		},
		{
			Name: "enabled until the reboot only", Blocks: wanted, Facts: plantest.Node(unit(fm, "enabled-runtime", "active")),
			Want: `
				!drift service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				ok service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
				step set-unit:nvidia-fabricmanager.service
			`,
		},
		{
			Name: "static", Blocks: wanted, Facts: plantest.Node(unit(fm, "static", "failed")),
			Want: `
				ok service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				!drift service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
				step set-unit:nvidia-fabricmanager.service
			`,
		},
		{
			Name: "not installed", Blocks: wanted, Facts: plantest.Node(unit(fm, "", "inactive")),
			Want: `
				skipped service.not_installed nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
			`,
		},
		{
			Name: "masked by others", Blocks: wanted, Facts: plantest.Node(unit(fm, "masked", "inactive")),
			Want: `
				conflict service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				conflict service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
			`,
		},
		{
			Name: "unmasked", Blocks: unmasked, Facts: plantest.Node(unit(fm, "masked", "inactive")),
			Want: `
				!drift service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				!drift service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
				step set-unit:nvidia-fabricmanager.service
			`,
		},
		{
			Name: "unmasked, no more", Blocks: `service "nvidia-fabricmanager" { masked = false }`, Facts: plantest.Node(unit(fm, "masked", "inactive")),
			Want: `
				!drift service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				step set-unit:nvidia-fabricmanager.service
			`,
		},
		{
			Name: "not masked as wanted", Blocks: `service "nvidia-fabricmanager" { masked = false }`, Facts: plantest.Node(unit(fm, "static", "inactive")),
			Want: `
				ok service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
			`,
		},
		{
			Name: "active, masked by others", Blocks: `service "nvidia-fabricmanager" { active = true }`, Facts: plantest.Node(unit(fm, "masked", "inactive")),
			Want: `
				conflict service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
			`,
		},
		{
			Name: "off", Blocks: off, Facts: plantest.Node(unit("nvidia-imex.service", "enabled", "active")),
			Want: `
				!drift service.boot nvidia-imex.service (Unit nvidia-imex.service)
				!drift service.running nvidia-imex.service (ActiveState of nvidia-imex.service)
				step set-unit:nvidia-imex.service
			`,
		},
		{
			Name: "off, failed", Blocks: off, Facts: plantest.Node(unit("nvidia-imex.service", "static", "failed")),
			Want: `
				ok service.boot nvidia-imex.service (Unit nvidia-imex.service)
				ok service.running nvidia-imex.service (ActiveState of nvidia-imex.service)
			`,
		},
		{
			Name: "off, masked", Blocks: off, Facts: plantest.Node(unit("nvidia-imex.service", "masked", "inactive")),
			Want: `
				ok service.boot nvidia-imex.service (Unit nvidia-imex.service)
				ok service.running nvidia-imex.service (ActiveState of nvidia-imex.service)
			`,
		},
		{
			Name: "off, generated", Blocks: off, Facts: plantest.Node(unit("nvidia-imex.service", "generated", "active")),
			Want: `
				unsupported service.boot nvidia-imex.service (Unit nvidia-imex.service)
				!drift service.running nvidia-imex.service (ActiveState of nvidia-imex.service)
				step set-unit:nvidia-imex.service
			`,
			After: `
				unsupported service.boot nvidia-imex.service (Unit nvidia-imex.service)
			`,
		},
		{
			Name: "to be masked", Blocks: masked, Facts: plantest.Node(unit("nvidia-imex.service", "disabled", "active")),
			Want: `
				!drift service.boot nvidia-imex.service (Unit nvidia-imex.service)
				!drift service.running nvidia-imex.service (ActiveState of nvidia-imex.service)
				step set-unit:nvidia-imex.service
			`,
		},
		{
			Name: "masked until the reboot only", Blocks: masked, Facts: plantest.Node(unit("nvidia-imex.service", "masked-runtime", "inactive")),
			Want: `
				!drift service.boot nvidia-imex.service (Unit nvidia-imex.service)
				ok service.running nvidia-imex.service (ActiveState of nvidia-imex.service)
				step set-unit:nvidia-imex.service
			`,
		},
		{
			Name: "masked as wanted", Blocks: masked, Facts: plantest.Node(unit("nvidia-imex.service", "masked", "inactive")),
			Want: `
				ok service.boot nvidia-imex.service (Unit nvidia-imex.service)
				ok service.running nvidia-imex.service (ActiveState of nvidia-imex.service)
			`,
		},
		{
			Name: "no D-Bus", Blocks: wanted, Facts: plantest.Node(unit(fm, "disabled", "?")),
			Want: `
				drift service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				unknown service.running nvidia-fabricmanager.service ()
			`,
		},
		{
			Name: "unknown", Blocks: wanted, Facts: plantest.Node(node.Unit.Answer(fm, node.Unknown[node.UnitState]("permission denied", node.Source{}))),
			Want: `
				unknown service.state nvidia-fabricmanager.service ()
			`,
		},
		{
			Name: "a directory tree", Blocks: wanted, Facts: root(plantest.Node(unit(fm, "disabled", "?"))),
			Want: `
				!drift service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				step set-unit:nvidia-fabricmanager.service
			`,
		},
		{
			Name: "two blocks over one unit", Blocks: `service "nvidia-fabricmanager" { enabled = true }
				service "nvidia-fabricmanager.service" { active = true }`,
			Facts: plantest.Node(unit(fm, "disabled", "inactive")),
			Want: `
				!drift service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				!drift service.running nvidia-fabricmanager.service (ActiveState of nvidia-fabricmanager.service)
				step set-unit:nvidia-fabricmanager.service
			`,
		},
		{
			Name: "two blocks that contradict each other", Blocks: `service "nvidia-fabricmanager" { enabled = true }
service "nvidia-fabricmanager.service" { enabled = false }`,
			Facts: plantest.Node(unit(fm, "disabled", "inactive")),
			Says:  []string{`unit nvidia-fabricmanager.service enabled "true" is wanted (node.hcl:1)`},
			Want: `
				conflict profile.contradiction unit nvidia-fabricmanager.service enabled (node.hcl:2)
				drift service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
				conflict profile.contradiction unit nvidia-fabricmanager.service enabled (node.hcl:1)
				ok service.boot nvidia-fabricmanager.service (Unit nvidia-fabricmanager.service)
			`,
		},
	})
}

func root(f node.Facts) node.Facts {
	inv := f.Inventory
	inv.RootDirectory = true
	return f.WithInventory(inv)
}

func TestValidate(t *testing.T) {
	for text, want := range map[string]int{
		`service "a" { enabled = true }`:                    0,
		`service "a" {}`:                                    1,
		`service "a/b" { enabled = true }`:                  1,
		"service \"a\" {\nmasked = true\nactive = true\n}":  1,
		"service \"a\" {\nmasked = true\nenabled = true\n}": 1,
		"service \"a\" {\nmasked = true\nactive = false\n}": 0,
	} {
		if problems := (service.Type{}).Validate(plantest.Blocks(t, types, text)[0]); len(problems) != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
