package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"busbar/plan"
)

// A run of each that judges, traced on this machine with a profile that asks for
// everything, must change nothing and open no socket that loads a module.
func TestReadingHurtsNobody(t *testing.T) {
	needs(t, "strace")
	profile := filepath.Join(t.TempDir(), "all.hcl")
	writeFile(t, profile, "profile {\n  extends = [\"hgx-h100-roce\"]\n}\n"+moduleBlocks+sysctlBlocks+limitsBlock+bootBlock)
	open(t, profile)
	for _, c := range []struct {
		name string
		as   []string
	}{
		{"as this user", nil},
		{"as nobody", []string{"setpriv", "--reuid", strconv.Itoa(nobody), "--regid", strconv.Itoa(nobody), "--clear-groups", "--"}},
	} {
		for _, args := range [][]string{{"plan", profile}, {"verify", profile, "--json"}, {"capture", "--raw"}} {
			t.Run(c.name+"/"+args[0], func(t *testing.T) {
				if c.as != nil {
					needsRoot(t)
					needs(t, c.as[0])
				}
				busbar := program(t, "busbar")
				o, calls := trace(t, slices.Concat(c.as, []string{busbar}, args), busbar)
				if want := map[string][]int{"plan": {plan.ExitDrift}, "verify": {plan.ExitDrift}, "capture": {plan.ExitOK}}[args[0]]; !slices.Contains(want, o.code) {
					t.Errorf("want one of %v, got %s", want, o)
				}
				readsOnly(t, calls)
			})
		}
	}
}

// Where nothing can be written plan says so of each file, and apply does the rest.
func TestReadOnlyRoot(t *testing.T) {
	files := drifted()
	files[profilePath] = limitsBlock + ncclBlock + "\nsysctl \"net.core.somaxconn\" {\n  value = 1234\n  apply = \"running\"\n}\n"
	files[readOnlyMark] = ""
	m := newMachine(t, files)
	before := m.files(true)
	texts := []string{"/etc/security/limits.d/zz-busbar.conf cannot be written: / is mounted read-only", "/etc/nccl.conf cannot be written: / is mounted read-only"}
	m.busbar("plan").want(t, plan.ExitDrift, texts...)
	m.busbar("verify", "--json").want(t, plan.ExitDrift, texts...)
	m.busbar("apply", "--yes").want(t, plan.ExitDrift, append(texts, "set net.core.somaxconn to 1234 ... done")...)
	wantSame(t, before, m.files(true))
}

// What somebody without rights may not read is not judged as right.
func TestUnreadable(t *testing.T) {
	for _, c := range []struct {
		name    string
		profile string
		file    string
		code    int
	}{
		{"sysctl.d", sysctlBlocks, "/etc/sysctl.d/90-secret.conf", plan.ExitUnknown},
		{"modprobe.d", "\nkernel_module \"fake_nic\" {\n  options = { depth = \"4\" }\n}\n", "/etc/modprobe.d/secret.conf", plan.ExitUnknown},
		{"modules-load.d", "\nkernel_module \"fake_nic\" {\n  boot = \"loaded\"\n}\n", "/etc/modules-load.d/secret.conf", plan.ExitUnknown},
		{"limits.d", limitsBlock, "/etc/security/limits.d/90-secret.conf", plan.ExitUnknown},
		{"nccl.conf", ncclBlock, "/etc/nccl.conf", plan.ExitUnknown},
		{"grub.d", bootBlock, "/etc/default/grub.d/90-secret.cfg", plan.ExitUnknown},
		{"grub.cfg", bootBlock, entriesPath, plan.ExitUnknown},
		{"sysctl.d itself", sysctlBlocks, "/etc/sysctl.d", plan.ExitUnknown},
		{"modprobe.d itself", "\nkernel_module \"fake_nic\" {\n  options = { depth = \"4\" }\n}\n", "/etc/modprobe.d", plan.ExitUnknown},
		{"limits.d itself", limitsBlock, "/etc/security/limits.d", plan.ExitUnknown},
		{"units", "\nlimits \"rdma\" {\n  memlock  = \"unlimited\"\n  users    = []\n  services = [\"slurmd\"]\n}\n", "/etc/systemd/system", plan.ExitUnknown},
		{"grub.d itself", bootBlock, "/etc/default/grub.d", plan.ExitUnknown},
		{"boot", bootBlock, "/boot", plan.ExitUnknown},
		{"modules", "\nkernel_module \"fake_nic\" {\n  boot = \"loaded\"\n}\n", "/usr/lib/modules", plan.ExitUnknown},
		{"profile", nothingWanted, profilePath, plan.ExitBadProfile},
		{"directory of profiles", "profile {\n  extends = [\"site\"]\n}\n", "/etc/busbar/profiles", plan.ExitBadProfile},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, bootable(map[string]string{}))
			m.link("programs", "/usr/sbin/update-grub")
			modules := "/usr/lib/modules/" + kernelRelease()
			m.write(modules+"/modules.dep", "kernel/fake_nic.ko:\n")
			m.write(modules+"/kernel/fake_nic.ko", "")
			m.write("/etc/busbar/profiles/site.hcl", nothingWanted)
			m.write(profilePath, c.profile)
			m.busbar("apply", "--yes")
			m.write("/srv/cmdline", "root=UUID=5f0a1c9e-3d52-4c19-8f0e-6f2b9a7d1e04 ro iommu=pt\n")
			execute(t, m.commandAs(nobody, "verify")).want(t, plan.ExitOK)
			if !m.exists(c.file) {
				m.write(c.file, "")
			}
			if err := unix.Chmod(m.path(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			execute(t, m.commandAs(0, "verify")).want(t, plan.ExitOK)
			o := execute(t, m.commandAs(nobody, "verify"))
			o.want(t, c.code, c.file, "permission denied")
			execute(t, m.commandAs(nobody, "plan")).want(t, c.code, "permission denied")
		})
	}
}

// judged are a document's findings: address, id and target's summary, status.
func judged(t *testing.T, asJSON string) []string {
	t.Helper()
	var doc struct {
		Findings []map[string]any `json:"findings"`
	}
	if err := json.Unmarshal([]byte(asJSON), &doc); err != nil {
		t.Fatalf("%v in %.200q", err, asJSON)
	}
	var all []string
	for _, f := range doc.Findings {
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

// A recording tells what the machine told.
func TestCaptureAndPlan(t *testing.T) {
	m := newMachine(t, bootable(drifted()))
	m.write(profilePath, m.read(profilePath)+bootBlock)
	for _, profile := range []string{profilePath, "baseline", "bare-metal", "hgx-h100-roce", "vm-guest"} {
		t.Run(filepath.Base(profile), func(t *testing.T) {
			m.t = t
			m.busbar("capture", "--raw", "--output", "/tmp/node.json", profile).want(t, plan.ExitOK)
			live := m.busbar("plan", "--json", profile)
			recorded := m.busbar("plan", "--json", "--node", "/tmp/node.json", profile)
			if live.code != recorded.code {
				t.Errorf("exit code %d live, %d recorded", live.code, recorded.code)
			}
			findings := judged(t, live.stdout)
			if len(findings) == 0 {
				t.Errorf("no findings: %s", live)
			}
			if diff := cmp.Diff(findings, judged(t, recorded.stdout)); diff != "" {
				t.Error(diff)
			}
			if got := m.files(false)["/tmp/node.json"]; !strings.HasPrefix(got, "-rw------- 0:0") {
				t.Errorf("the recording has %.20q", got)
			}
		})
	}
}

// A driver that gives no answer costs its deadline, once, and is named.
func TestWedgedDriver(t *testing.T) {
	needsRoot(t)
	if !exists("/dev/fuse") {
		t.Skip("needs FUSE")
	}
	files := map[string]string{}
	var wedged []string
	for _, device := range []string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"} {
		file := "/sys/class/infiniband/" + device + "/ports/1/link_layer"
		files[file] = ""
		wedged = append(wedged, file)
	}
	files[wedgedMark] = strings.Join(wedged, "\n")
	m := newMachine(t, files)
	began := time.Now()
	o := m.busbar("capture", "--raw")
	took := time.Since(began)
	o.want(t, plan.ExitOK, "no answer within 5s from the driver of RDMA port mlx5_0/1")
	if took < 2*time.Second || took > 6*time.Second {
		t.Errorf("it took %s", took)
	}
}
