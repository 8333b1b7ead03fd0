package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/plan"
)

const (
	imageKernel = "6.1.0-31-amd64"
	imageRoot   = "root=UUID=5f0a1c9e-3d52-4c19-8f0e-6f2b9a7d1e04"
)

// image is a Debian tree that does not run, with a cloud image's fragment that replaces
// what stands in the main file, and absolute links, which lead elsewhere on this machine.
func image(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	all := map[string]string{
		"/etc/os-release":              "ID=debian\nVERSION_ID=\"12\"\n",
		"/etc/fstab":                   "# kept\n",
		defaultsPath:                   "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"\nGRUB_CMDLINE_LINUX=\"\"\n",
		imagesPath:                     "# of the image\nGRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1 console=ttyS0\"\n",
		entriesPath:                    "menuentry 'Debian GNU/Linux' --class gnu-linux {\n\tlinux\t/boot/vmlinuz-" + imageKernel + " " + imageRoot + " ro console=tty1 console=ttyS0\n}\n",
		"/boot/vmlinuz-" + imageKernel: "",
		"/usr/lib/modules/" + imageKernel + "/modules.dep":        "kernel/fake_nic.ko:\nkernel/fake_old.ko:\n",
		"/usr/lib/modules/" + imageKernel + "/kernel/fake_nic.ko": "",
		"/usr/lib/modules/" + imageKernel + "/kernel/fake_old.ko": "",
		"/usr/share/site/nccl.conf":                               foreignNCCL,
		"/usr/share/site/sysctl/10-site.conf":                     "vm.swappiness = 10\n",
		"/etc/modules-load.d/site.conf":                           "loop\n",
		"/etc/modprobe.d/a-site.conf":                             "options fake_nic depth=2\n",
		"/etc/security/limits.conf":                               "# nothing\n",
		"/usr/bin/true":                                           "",
	}
	for path, text := range files {
		all[path] = text
	}
	for path, text := range all {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, path), text)
	}
	for link, target := range map[string]string{
		"/lib": "usr/lib", "/etc/nccl.conf": "/usr/share/site/nccl.conf", "/etc/sysctl.d": "/usr/share/site/sysctl",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// updatable gives a tree an update-grub.
func updatable(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(program(t, "programs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"usr/sbin/update-grub", "usr/bin/env"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func readFile(t *testing.T, p string) string {
	t.Helper()
	text, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allBlocks write to every sink of a tree.
const allBlocks = moduleBlocks + sysctlBlocks + limitsBlock + ncclBlock + bootBlock

func TestRoot(t *testing.T) {
	for _, c := range []struct {
		name       string
		updateGRUB bool
	}{{"without update-grub", false}, {"with update-grub", true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.updateGRUB {
				needsRoot(t) // chroot(2)
			}
			dir := image(t, map[string]string{profilePath: allBlocks})
			if c.updateGRUB {
				updatable(t, dir)
			}
			before := snapshot(t, dir, false)
			o := execute(t, here(t, "plan", "--root", dir))
			want := []string{"iommu=pt is not in force at the next boot", imagesPath + ":2"}
			if !c.updateGRUB {
				want = append(want, "the fragment takes effect when update-grub runs in this root")
			}
			o.want(t, plan.ExitDrift, want...)
			for _, word := range []string{"load module", "set net.core.somaxconn"} {
				if strings.Contains(o.stdout, word) {
					t.Errorf("%q is planned in a tree: %s", word, o)
				}
			}
			wantSame(t, before, snapshot(t, dir, false))

			busbar := program(t, "busbar")
			o, calls := trace(t, []string{busbar, "apply", "--yes", "--root", dir}, busbar)
			o.want(t, plan.ExitOK)
			for _, call := range changes(calls, func(p string) bool {
				// A chrooted program and its files are called by their names inside.
				return p == "/dev/null" || p == dir || strings.HasPrefix(p, dir+"/") || c.updateGRUB && p == "/" || c.updateGRUB && strings.HasPrefix(p, "/run/busbar/grub.cfg-")
			}) {
				t.Errorf("outside the tree it did %s", call)
			}
			after := snapshot(t, dir, false, "/run")
			for p, want := range map[string]string{
				fragmentPath:                            "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt\"\n",
				"/etc/modules-load.d/busbar.conf":       "fake_nic\n",
				"/etc/modprobe.d/zz-busbar.conf":        "blacklist fake_old\noptions fake_nic depth=4\n",
				"/usr/share/site/sysctl/zz-busbar.conf": "kernel.numa_balancing = 0\nnet.core.somaxconn = 1234\n",
				"/etc/security/limits.d/zz-busbar.conf": "* - memlock unlimited\nroot - memlock unlimited\n",
			} {
				if diff := cmp.Diff(want, settings(readFile(t, filepath.Join(dir, p)))); diff != "" {
					t.Errorf("%s:\n%s", p, diff)
				}
				if !strings.HasPrefix(after[p], "-rw-r--r-- ") {
					t.Errorf("%s has %.12q", p, after[p])
				}
			}
			if nccl := readFile(t, filepath.Join(dir, "/usr/share/site/nccl.conf")); !strings.HasSuffix(nccl, "# END busbar\n"+foreignNCCL) {
				t.Errorf("nccl.conf holds %q", nccl)
			}
			expected := before.foreign()
			entries := readFile(t, filepath.Join(dir, entriesPath))
			if strings.Contains(entries, "console=ttyS0 iommu=pt") != c.updateGRUB {
				t.Errorf("grub.cfg holds %q", entries)
			}
			for _, p := range []string{entriesPath, "/usr/share/site/nccl.conf"} {
				expected[p] = strings.SplitN(expected[p], "\n", 2)[0] + "\n" + readFile(t, filepath.Join(dir, p))
			}
			expected["/etc/security/limits.d"] = after["/etc/security/limits.d"]
			delete(expected, "/run")
			wantSame(t, expected, after.foreign())

			if exists(filepath.Join(dir, "/run/busbar")) {
				t.Error("the lock was left")
			}
			identity := snapshot(t, dir, true, "/run")
			o = execute(t, here(t, "apply", "--yes", "--root", dir))
			o.want(t, plan.ExitOK)
			o.noSteps(t)
			wantSame(t, identity, snapshot(t, dir, true, "/run"))
			verified := map[bool]int{true: plan.ExitOK, false: plan.ExitOK}[c.updateGRUB]
			execute(t, here(t, "verify", "--root", dir)).want(t, verified)

			// What is dropped from the profile goes.
			writeFile(t, filepath.Join(dir, profilePath), nothingWanted)
			execute(t, here(t, "apply", "--yes", "--root", dir)).want(t, plan.ExitOK)
			for p := range snapshot(t, dir, false, "/run") {
				if base := filepath.Base(p); strings.HasPrefix(base, "zz-busbar") || base == "busbar.conf" || strings.HasPrefix(base, ".busbar") {
					t.Errorf("%s was left", p)
				}
			}
		})
	}
}

// Taking over cuts the one word, and keeps what the file was.
func TestRootTakeOver(t *testing.T) {
	needsRoot(t)
	const line = "GRUB_CMDLINE_LINUX='audit=1 pci=noacs security=apparmor' # of the site\n"
	for _, c := range []struct {
		takeOver string
		code     int
		line     string
	}{
		{"false", plan.ExitDrift, line},
		{"true", plan.ExitOK, strings.Replace(line, " pci=noacs", "", 1)},
	} {
		t.Run(c.takeOver, func(t *testing.T) {
			dir := image(t, map[string]string{
				profilePath:  "\nkernel_args {\n  absent    = [\"pci=noacs\"]\n  take_over = " + c.takeOver + "\n}\n",
				defaultsPath: "GRUB_DEFAULT=0\n" + line,
				imagesPath:   "# nothing\n",
				entriesPath:  "menuentry 'Debian' {\n\tlinux\t/boot/vmlinuz-" + imageKernel + " " + imageRoot + " ro audit=1 pci=noacs\n}\n",
			})
			updatable(t, dir)
			execute(t, here(t, "apply", "--yes", "--root", dir)).want(t, c.code)
			if got := readFile(t, filepath.Join(dir, defaultsPath)); got != "GRUB_DEFAULT=0\n"+c.line {
				t.Errorf("the defaults are %q", got)
			}
			backup := filepath.Join(dir, defaultsPath+".busbar-backup")
			if c.line == line {
				if exists(backup) {
					t.Error("there is a backup")
				}
				return
			}
			if got := readFile(t, backup); got != "GRUB_DEFAULT=0\n"+line {
				t.Errorf("the backup is %q", got)
			}
			if entries := readFile(t, filepath.Join(dir, entriesPath)); strings.Contains(entries, "noacs") || !strings.Contains(entries, "audit=1") {
				t.Errorf("grub.cfg holds %q", entries)
			}
			o := execute(t, here(t, "apply", "--yes", "--root", dir))
			o.want(t, plan.ExitOK)
			o.noSteps(t)
		})
	}
}

// Defaults that the shell cannot read are nobody's to edit. The rest is applied.
func TestRootWithBrokenDefaults(t *testing.T) {
	cases := os.Getenv("BUSBAR_CASES")
	if cases == "" {
		t.Skip("BUSBAR_CASES is not set: the directory of real cases")
	}
	dir := image(t, map[string]string{
		profilePath:  allBlocks,
		defaultsPath: readFile(t, filepath.Join(cases, "grub-missing-end-quote", defaultsPath)),
	})
	before := snapshot(t, dir, false)
	o := execute(t, here(t, "apply", "--yes", "--root", dir))
	o.want(t, plan.ExitDrift, "cannot be read by the shell", "/etc/default/grub:2")
	after := snapshot(t, dir, false)
	for p := range after {
		if strings.HasPrefix(p, "/boot") || strings.HasPrefix(p, "/etc/default") {
			if before[p] != after[p] {
				t.Errorf("%s was touched", p)
			}
		}
	}
	if !exists(filepath.Join(dir, "/etc/modprobe.d/zz-busbar.conf")) {
		t.Error("the rest was not applied")
	}
	o = execute(t, here(t, "apply", "--yes", "--root", dir))
	o.want(t, plan.ExitDrift)
	o.noSteps(t)
}

// What --root names must be a directory; / by another name is this machine.
func TestRootIsADirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFile(t, file, "")
	absent := filepath.Join(dir, "absent")
	for _, command := range [][]string{{"plan", "baseline"}, {"verify", "baseline"}, {"apply", "--yes", "baseline"}, {"capture", "--raw"}} {
		execute(t, here(t, append(command, "--root", absent)...)).want(t, plan.ExitError, absent, "no such file or directory")
		execute(t, here(t, append(command, "--root", file)...)).want(t, plan.ExitError, file, "is no directory")
		execute(t, here(t, append(command, "--root", "")...)).want(t, plan.ExitUsage, "--root is empty")
	}
	for _, root := range []string{"//", "/tmp/..", "."} {
		cmd := here(t, "capture", "--raw", "--root", root)
		cmd.Dir = "/"
		if o := execute(t, cmd); o.code != plan.ExitOK || strings.Contains(o.stdout, "not read: --root") {
			t.Errorf("--root %s is not this machine: %.2000s", root, o)
		}
	}
	if names := slices.Sorted(maps.Keys(snapshot(t, dir, false))); !slices.Equal(names, []string{"/", "/file"}) {
		t.Errorf("there are %v", names)
	}
}

// The profiles of a tree are found in it, also through links that would lead elsewhere on
// this machine.
func TestRootProfiles(t *testing.T) {
	needsRoot(t)
	elsewhere := t.TempDir()
	writeFile(t, filepath.Join(elsewhere, "node.hcl"), "not of the tree\n")
	dir := image(t, map[string]string{
		elsewhere + "/node.hcl":           "profile {\n  extends = [\"site\"]\n}\n",
		"/usr/share/profiles/linked.hcl":  validProfile,
		"/etc/busbar/profiles/direct.hcl": validProfile,
	})
	for link, target := range map[string]string{
		profilePath:                       elsewhere + "/node.hcl",
		"/etc/busbar/profiles/site.hcl":   "../../../../../../../../../../../usr/share/profiles/linked.hcl",
		"/etc/busbar/profiles.d":          "/usr/share/profiles",
		"/usr/share/profiles/escapes.hcl": "/etc/hostname",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"plan"}, {"plan", "linked"}, {"plan", "direct"}} {
		execute(t, here(t, append(args, "--root", dir)...)).want(t, plan.ExitDrift, "net.core.somaxconn is not set to 1234 at boot")
	}
	execute(t, here(t, "plan", "escapes", "--root", dir)).want(t, plan.ExitBadProfile, "escapes.hcl is a link that leads nowhere")
	if err := os.Chmod(filepath.Join(dir, "usr/share/profiles"), 0o777); err != nil {
		t.Fatal(err)
	}
	execute(t, here(t, "apply", "--yes", "--root", dir)).want(t, plan.ExitBadProfile, filepath.Join(dir, "usr/share/profiles")+" can be changed by others")
	if err := os.Chmod(filepath.Join(dir, "usr/share/profiles"), 0o755); err != nil {
		t.Fatal(err)
	}
	execute(t, here(t, "apply", "--yes", "--root", dir)).want(t, plan.ExitOK)
}

// An update-grub that fails leaves the entries as they were; the next run calls it again.
func TestUpdateGRUBFails(t *testing.T) {
	needsRoot(t)
	dir := image(t, map[string]string{profilePath: bootBlock})
	updatable(t, dir)
	kernel := filepath.Join(dir, "boot/vmlinuz-"+imageKernel)
	if err := os.Remove(kernel); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		execute(t, here(t, "apply", "--yes", "--root", dir)).want(t, plan.ExitPartial, "no kernel in /boot")
	}
	writeFile(t, kernel, "")
	execute(t, here(t, "apply", "--yes", "--root", dir)).want(t, plan.ExitOK, "run update-grub")
	o := execute(t, here(t, "apply", "--yes", "--root", dir))
	o.want(t, plan.ExitOK)
	o.noSteps(t)
}

// A relative root, also through a link, is the same tree.
func TestRootByOtherNames(t *testing.T) {
	needsRoot(t)
	dir := image(t, map[string]string{profilePath: allBlocks})
	updatable(t, dir)
	if err := os.Symlink(dir, dir+"-link"); err != nil {
		t.Fatal(err)
	}
	for i, root := range []string{"image-link", "./image/", dir + "-link/"} {
		cmd := here(t, "apply", "--yes", "--root", root)
		cmd.Dir = filepath.Dir(dir)
		o := execute(t, cmd)
		o.want(t, plan.ExitOK)
		if i > 0 {
			o.noSteps(t)
		}
	}
	if !strings.Contains(readFile(t, filepath.Join(dir, entriesPath)), "iommu=pt") {
		t.Error("update-grub did not run")
	}
}
