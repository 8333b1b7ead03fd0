package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"busbar/plan"
)

const unitPath = "/etc/systemd/system/busbar.service"

// TestInstall installs into a tree, twice, and undoes it.
func TestInstall(t *testing.T) {
	needs(t, "systemctl")
	dir := image(t, nil)
	busbar := func(args ...string) outcome { return execute(t, here(t, append(args, "--root", dir)...)) }
	at := func(p string) string { return filepath.Join(dir, p) }
	before := snapshot(t, dir, false, "/run")

	busbar("install", "baseline").want(t, plan.ExitError, "copy this program to "+at("/usr/local/bin/busbar"))
	wantSame(t, before, snapshot(t, dir, false, "/run"))

	if err := os.MkdirAll(at("/usr/local/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("/usr/local/bin/busbar"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	before = snapshot(t, dir, false, "/run")
	busbar("install").want(t, plan.ExitUsage, "which profile?", at(profilePath))
	busbar("install", "basline").want(t, plan.ExitBadProfile, "baseline")
	broken := filepath.Join(t.TempDir(), "broken.hcl")
	writeFile(t, broken, "sysctl {\n")
	busbar("install", broken).want(t, plan.ExitBadProfile, broken+":1")
	open := filepath.Join(t.TempDir(), "open.hcl")
	writeFile(t, open, "variable \"size\" {\n  type = number\n}\nsysctl \"kernel.pid_max\" {\n  value = var.size\n}\n")
	busbar("install", open).want(t, plan.ExitBadProfile, "size")
	wantSame(t, before, snapshot(t, dir, false, "/run"))

	busbar("install", "baseline").want(t, plan.ExitOK, "enable busbar.service", "4 done")
	if text := readFile(t, at(unitPath)); !strings.Contains(text, "\nExecStart=/usr/local/bin/busbar apply --boot ") {
		t.Errorf("the unit is %s", text)
	}
	if _, err := os.Lstat(at("/etc/systemd/system/multi-user.target.wants/busbar.service")); err != nil {
		t.Error(err)
	}
	if text := readFile(t, at(profilePath)); !strings.Contains(text, `extends = ["baseline"]`) {
		t.Errorf("the profile is %s", text)
	}
	installed := snapshot(t, dir, true, "/run")
	busbar("install").want(t, plan.ExitOK, "no step needed")
	busbar("install", "baseline").want(t, plan.ExitOK, "no step needed")
	busbar("install", "bare-metal").want(t, plan.ExitDrift, profilePath+" is there and says something else")
	wantSame(t, installed, snapshot(t, dir, true, "/run"))
	if err := os.Chmod(at("/usr/local/bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		busbar("install").want(t, plan.ExitError, at("/usr/local/bin")+" can be changed by others than root")
	}
	if err := os.Chmod(at("/usr/local/bin"), 0o755); err != nil {
		t.Fatal(err)
	}

	busbar("uninstall").want(t, plan.ExitOK, "4 done")
	after := snapshot(t, dir, false, "/run")
	for _, left := range []string{"/etc/busbar", "/etc/systemd", "/etc/systemd/system", "/etc/systemd/system/multi-user.target.wants", "/etc/systemd/system/systemd-modules-load.service.d"} {
		delete(after, left) // directories stay
	}
	delete(before, "/etc/systemd")
	delete(after, "/etc")
	delete(before, "/etc")
	wantSame(t, before, after)
	busbar("uninstall").want(t, plan.ExitOK, "no step needed")
}

// TestInstallFile installs a profile of the site, which uninstall leaves.
func TestInstallFile(t *testing.T) {
	needs(t, "systemctl")
	const site = "# ours\nsysctl \"kernel.numa_balancing\" {\n  value = 0\n}\n"
	dir := image(t, map[string]string{"/usr/bin/busbar": ""})
	if err := os.Chmod(filepath.Join(dir, "/usr/bin/busbar"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := here(t, "install", "--root", dir, "-")
	cmd.Stdin = strings.NewReader(site)
	execute(t, cmd).want(t, plan.ExitOK)
	if text := readFile(t, filepath.Join(dir, profilePath)); text != site {
		t.Errorf("the profile is %s", text)
	}
	if text := readFile(t, filepath.Join(dir, unitPath)); !strings.Contains(text, "\nExecStart=/usr/bin/busbar apply --boot ") {
		t.Errorf("the unit is %s", text)
	}
	execute(t, here(t, "uninstall", "--root", dir)).want(t, plan.ExitOK, "3 done", "1 note", profilePath+" is the site's own and stays")
	if text := readFile(t, filepath.Join(dir, profilePath)); text != site {
		t.Errorf("the profile is %s", text)
	}
}

// TestInstallUnsafe: a program that others could change is not started as root at boot.
func TestInstallUnsafe(t *testing.T) {
	m := newMachine(t, nil)
	if err := os.Chmod(m.path("/usr/bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	m.busbar("install", "baseline").want(t, plan.ExitError, "/usr/bin can be changed by others than root")
	if m.exists(unitPath) {
		t.Error("the unit was written")
	}
}
