package live

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"busbar/internal/confdir"
	"busbar/internal/modprobe"
	"busbar/node"

	"github.com/google/go-cmp/cmp"
)

func TestSysctl(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/sys/kernel/numa_balancing":            "2\n",
		"proc/sys/net/ipv4/conf/eth0.100/rp_filter": "1\n",
		"proc/sys/net/ipv4/tcp_rmem":                "4096\t131072\t6291456\n",
	})
	known(t, ask(t, root, node.Sysctl, "kernel.numa_balancing"), "2")
	known(t, ask(t, root, node.Sysctl, "net.ipv4.conf.eth0/100.rp_filter"), "1")
	known(t, ask(t, root, node.Sysctl, "net.ipv4.tcp_rmem"), "4096\t131072\t6291456")
	v := ask(t, root, node.Sysctl, "kernel.numa_balancing_x")
	unknownAs(t, v, "the running kernel has no such parameter")
	if want := "/proc/sys/kernel/numa_balancing_x"; v.Source().Path != want {
		t.Errorf("source %q", v.Source().Path)
	}
	unknownAs(t, ask(t, root, node.Sysctl, "..etc.passwd"), "is no name of a kernel parameter")
	unknownAs(t, ask(t, root, node.Sysctl, "kernel.//.//.hostname"), "is no name of a kernel parameter")
	unknownAs(t, ask(t, tree(t), node.Sysctl, "kernel.numa_balancing"), "no such file")
}

func TestFileLists(t *testing.T) {
	root := tree(t, map[string]string{
		"etc/sysctl.d/10-a.conf":                 "a",
		"etc/sysctl.d/20-b.conf":                 "-> /dev/null",
		"etc/sysctl.d/30-c.conf":                 "-> ../nowhere",
		"etc/sysctl.d/40-d.conf":                 "-> /opt/d",
		"opt/d":                                  "d",
		"etc/sysctl.d/.hidden.conf":              "h",
		"etc/sysctl.d/README":                    "r",
		"etc/sysctl.d/dir.conf/":                 "",
		"etc/sysctl.d/50-e.conf":                 "\xff\xfe",
		"run/sysctl.d/10-a.conf":                 "run",
		"usr/lib/sysctl.d/50-v.conf":             "vendor",
		"lib":                                    "-> usr/lib",
		"etc/modprobe.d/x.conf":                  "blacklist nouveau\n",
		"etc/security/limits.conf":               "* soft memlock unlimited\n",
		"etc/systemd/system.conf":                "[Manager]\n",
		"usr/lib/systemd/system.conf":            "[Manager]\n",
		"etc/systemd/system.conf.d/1":            "no",
		"run/systemd/system.conf.d/memlock.conf": "[Manager]\nDefaultLimitMEMLOCK=infinity\n",
	})
	known(t, ask(t, root, node.SysctlFiles, ""), []confdir.File{
		{Path: "/etc/sysctl.d/10-a.conf", Text: "a"},
		{Path: "/etc/sysctl.d/20-b.conf"},
		{Path: "/etc/sysctl.d/30-c.conf"},
		{Path: "/etc/sysctl.d/40-d.conf", Text: "d"},
		{Path: "/etc/sysctl.d/50-e.conf", Reason: "is not valid UTF-8 (byte 1)"},
		{Path: "/run/sysctl.d/10-a.conf", Text: "run"},
		{Path: "/usr/lib/sysctl.d/50-v.conf", Text: "vendor"},
	})
	known(t, ask(t, root, node.ModprobeFiles, ""), []confdir.File{{Path: "/etc/modprobe.d/x.conf", Text: "blacklist nouveau\n"}})
	known(t, ask(t, root, node.ModulesLoadFiles, ""), []confdir.File{})
	known(t, ask(t, root, node.LimitsFiles, ""), []confdir.File{{Path: "/etc/security/limits.conf", Text: "* soft memlock unlimited\n"}})
	known(t, ask(t, root, node.SystemConfFiles, ""), []confdir.File{
		{Path: "/etc/systemd/system.conf", Text: "[Manager]\n"},
		{Path: "/usr/lib/systemd/system.conf", Text: "[Manager]\n"},
		{Path: "/run/systemd/system.conf.d/memlock.conf", Text: "[Manager]\nDefaultLimitMEMLOCK=infinity\n"},
	})
}

// A link to a device, or in a tree into what only a running system has, is neither an absent
// file nor an empty one, whether the tree has something there or not. A mask of others is
// empty, and busbar's own file cannot be masked.
func TestLinksToDevices(t *testing.T) {
	links := map[string]string{
		"etc/nccl.conf":                 "-> /dev/null",
		"etc/zero":                      "-> ../dev/zero",
		"etc/chain":                     "-> nccl.conf",
		"etc/run":                       "-> /run/x",
		"etc/proc":                      "-> /proc/self/x",
		"etc/sysctl.d/10-mask.conf":     "-> /dev/null",
		"etc/sysctl.d/20-chain.conf":    "-> ../nccl.conf",
		"etc/sysctl.d/30-zero.conf":     "-> /dev/zero",
		"etc/sysctl.d/zz-busbar.conf":   "-> /dev/null",
		"etc/modprobe.d/zz-busbar.conf": "-> /dev/null",
		"etc/systemd/system/a.service.d/zz-busbar.conf":   "-> /dev/null",
		"etc/systemd/system/b.service":                    "-> ../../../dev/null",
		"etc/default/grub.d/zz-busbar.cfg":                "-> /dev/null",
		"etc/security/limits.d":                           "-> /dev",
		"etc/default/grub":                                "",
		"usr/sbin/update-grub":                            "",
		"etc/systemd/system/multi-user.target.wants/link": "-> /dev/null",
	}
	filled := map[string]string{"dev/null": "x", "dev/zero": "x", "run/x": "x", "proc/self/x": "x"}
	for name, root := range map[string]string{"nothing there": tree(t, links), "files there": tree(t, links, filled)} {
		t.Run(name, func(t *testing.T) {
			r := New(Options{Root: root})
			for file, target := range map[string]string{
				"/etc/nccl.conf": "/dev/null", "/etc/zero": "/dev/zero", "/etc/chain": "/dev/null", "/etc/run": "/run/x", "/etc/proc": "/proc/self/x",
			} {
				if v := get(t, r, node.File, file); v.Reason() != "is a link to "+target {
					t.Errorf("%s: %+v, %q", file, v, v.Reason())
				}
			}
			known(t, get(t, r, node.SysctlFiles, ""), []confdir.File{
				{Path: "/etc/sysctl.d/10-mask.conf"},
				{Path: "/etc/sysctl.d/20-chain.conf"},
				{Path: "/etc/sysctl.d/30-zero.conf", Reason: "is a link to /dev/zero"},
				{Path: "/etc/sysctl.d/zz-busbar.conf", Reason: "is a link to /dev/null"},
			})
			known(t, get(t, r, node.ModprobeFiles, ""), []confdir.File{{Path: "/etc/modprobe.d/zz-busbar.conf", Reason: "is a link to /dev/null"}})
			known(t, get(t, r, node.OwnedDropIns, ""), []confdir.File{{Path: "/etc/systemd/system/a.service.d/zz-busbar.conf", Reason: "is a link to /dev/null"}})
			unknownAs(t, get(t, r, node.LimitsFiles, ""), "/etc/security/limits.d: is a link to /dev")
			if unit, ok := get(t, r, node.Unit, "b.service").Get(); !ok || unit.File != "masked" {
				t.Errorf("%+v", unit)
			}
			boot, _ := get(t, r, node.Boot, "").Get()
			if want := (confdir.File{Path: "/etc/default/grub.d/zz-busbar.cfg", Reason: "is a link to /dev/null"}); len(boot.Defaults) != 2 || boot.Defaults[1] != want {
				t.Errorf("%+v", boot.Defaults)
			}
		})
	}
	// This machine has devices, and files in /run that are read through links.
	dir := t.TempDir()
	must(t, os.Symlink("/dev/null", dir+"/null"))
	must(t, os.Symlink("/dev/no-such-device", dir+"/absent"))
	must(t, os.Symlink("/proc/sys/kernel/ostype", dir+"/proc"))
	unknownAs(t, get(t, New(Options{}), node.File, dir+"/null"), "is a link to /dev/null")
	unknownAs(t, get(t, New(Options{}), node.File, dir+"/absent"), "is a link to /dev/no-such-device")
	known(t, get(t, New(Options{}), node.File, dir+"/proc"), node.FileState{Exists: true, Text: "Linux\n"})
}

func TestNCCLUserFiles(t *testing.T) {
	files := map[string]string{
		"root/.nccl.conf":   "NCCL_DEBUG=INFO\n",
		"home/a/.nccl.conf": "A=1\n",
		"home/b/x":          "",
		"etc/environment":   "PATH=/bin\n",
	}
	known(t, ask(t, tree(t, files), node.NCCLUserFiles, ""), []confdir.File{
		{Path: "/root/.nccl.conf", Text: "NCCL_DEBUG=INFO\n"},
		{Path: "/home/a/.nccl.conf", Text: "A=1\n"},
		{Path: "/etc/environment", Text: "PATH=/bin\n"},
	})
	for i := range 210 {
		files[fmt.Sprintf("home/u%03d/.nccl.conf", i)] = "X=1\n"
	}
	list, _ := ask(t, tree(t, files), node.NCCLUserFiles, "").Get()
	if list[1].Reason != "only 200 of 212 home directories were read" || len(list) != 1+1+199+1 {
		t.Errorf("%d files, %+v", len(list), list[1])
	}
}

// What stands in a tree may be anything; reading it neither hangs nor opens it.
func TestHostile(t *testing.T) {
	root := tree(t, map[string]string{
		"etc/loop":             "-> loop",
		"etc/a":                "-> b",
		"etc/b":                "-> /etc/a",
		"etc/out":              "-> ../../../../../../../etc/hostname",
		"etc/dangling":         "-> /none",
		"etc/dir/":             "",
		"etc/utf8":             "ok \xc3\x28",
		"etc/nul":              "a\x00b",
		"etc/big":              strings.Repeat("x", 10<<20),
		"etc/full":             strings.Repeat("x", 1<<20),
		"etc/file":             "x",
		"etc/hostname":         "node1\n",
		"etc/crlf":             "\ufeffa\r\n",
		"etc/sysctl.d/ok.conf": "ok\n",
	})
	for _, fifo := range []string{"etc/fifo", "etc/sysctl.d/fifo.conf"} {
		must(t, syscall.Mkfifo(filepath.Join(root, fifo), 0o644))
	}
	type state = node.FileState
	for p, want := range map[string]any{
		"/etc/loop":     "symbolic links form a loop",
		"/etc/a":        "symbolic links form a loop",
		"/etc/out":      state{Exists: true, Text: "node1\n"}, // the root is the end of the way up
		"/etc/dangling": state{},
		"/etc/none":     state{},
		"/etc/file/x":   state{},
		"/etc/dir":      "is a directory",
		"/etc/utf8":     "is not valid UTF-8 (byte 4)",
		"/etc/nul":      state{Exists: true, Text: "a\x00b"},
		"/etc/crlf":     state{Exists: true, Text: "\ufeffa\r\n"},
		"/etc/big":      "larger than 1 MiB",
		"/etc/full":     state{Exists: true, Text: strings.Repeat("x", 1<<20)},
		"/etc/fifo":     "is a fifo, not a regular file",
	} {
		v := ask(t, root, node.File, p)
		switch want := want.(type) {
		case string:
			t.Run(p, func(t *testing.T) { unknownAs(t, v, want) })
		case state:
			t.Run(p, func(t *testing.T) { known(t, v, want) })
		}
	}
	known(t, ask(t, root, node.SysctlFiles, ""), []confdir.File{
		{Path: "/etc/sysctl.d/fifo.conf", Reason: "is a fifo, not a regular file"},
		{Path: "/etc/sysctl.d/ok.conf", Text: "ok\n"},
	})
}

// The same on this machine's own paths.
func TestHostileMachine(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(dir+"/fifo", 0o644))
	must(t, os.Symlink("loop", dir+"/loop"))
	r := New(Options{})
	unknownAs(t, get(t, r, node.File, dir+"/fifo"), "is a fifo")
	unknownAs(t, get(t, r, node.File, dir+"/loop"), "symbolic links form a loop")
	unknownAs(t, get(t, r, node.File, "/dev/zero"), "is a character device, not a regular file")
	known(t, get(t, r, node.Path, "/dev/null"), node.PathState{Exists: true, Type: "character-device", Mode: "0666"})
	known(t, get(t, r, node.Path, dir+"/fifo"), node.PathState{Exists: true, Type: "fifo", Mode: "0644"})
}

func TestUnreadable(t *testing.T) {
	if !asUser(t, "TestUnreadable") {
		return
	}
	root := tree(t, map[string]string{"etc/secret": "x", "etc/sysctl.d/a.conf": "a", "etc/modprobe.d/a.conf": "a"})
	must(t, os.Chmod(filepath.Join(root, "etc/secret"), 0))
	must(t, os.Chmod(filepath.Join(root, "etc/sysctl.d/a.conf"), 0))
	closed := filepath.Join(root, "etc/modprobe.d")
	must(t, os.Chmod(closed, 0))
	t.Cleanup(func() { must(t, os.Chmod(closed, 0o755)) })
	unknownAs(t, ask(t, root, node.File, "/etc/secret"), "permission denied: run as root")
	known(t, ask(t, root, node.SysctlFiles, ""), []confdir.File{{Path: "/etc/sysctl.d/a.conf", Reason: "permission denied: run as root"}})
	unknownAs(t, ask(t, root, node.ModprobeFiles, ""), "/etc/modprobe.d: permission denied: run as root")
}

func TestPath(t *testing.T) {
	root := tree(t, map[string]string{
		"dev/infiniband/": "", "etc/f": "x", "etc/l": "-> /etc/f", "etc/dangling": "-> none", "etc/loop": "-> loop",
	})
	must(t, os.Chmod(filepath.Join(root, "etc/f"), 0o640))
	known(t, ask(t, root, node.Path, "/etc/f"), node.PathState{Exists: true, Type: "file", Mode: "0640"})
	known(t, ask(t, root, node.Path, "/etc/l"), node.PathState{Exists: true, Type: "file", Mode: "0640"})
	known(t, ask(t, root, node.Path, "/etc/dangling"), node.PathState{Exists: true, Type: "symlink", Mode: "0777"})
	known(t, ask(t, root, node.Path, "/etc/loop"), node.PathState{Exists: true, Type: "symlink", Mode: "0777"})
	known(t, ask(t, root, node.Path, "/dev/infiniband"), node.PathState{Exists: true, Type: "directory", Mode: "0755"})
	known(t, ask(t, root, node.Path, "/dev/nvidiactl"), node.PathState{})
}

func TestMount(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/self/mountinfo": `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
30 22 0:30 / /run rw,nosuid - tmpfs none rw,mode=755
31 22 8:3 / /var/lib\040x ro,relatime - xfs /dev/sdb1 rw
32 22 8:4 / /nix/store rw,relatime - ext4 /dev/sda2 ro
33 22 8:5 / /opt rw - ext4 /dev/sdc rw
34 33 8:6 / /opt rw - xfs /dev/sdd rw
short line
`,
		"etc/modprobe.d": "-> /nix/store/abc",
	})
	known(t, ask(t, root, node.Mount, "/etc/x"), node.MountState{Point: "/", Type: "ext4"})
	known(t, ask(t, root, node.Mount, "/run"), node.MountState{Point: "/run", Type: "tmpfs"})
	known(t, ask(t, root, node.Mount, "/running"), node.MountState{Point: "/", Type: "ext4"})
	known(t, ask(t, root, node.Mount, "/var/lib x/f"), node.MountState{Point: "/var/lib x", Type: "xfs", ReadOnly: true})
	known(t, ask(t, root, node.Mount, "/etc/modprobe.d/zz-busbar.conf"), node.MountState{Point: "/nix/store", Type: "ext4", ReadOnly: true})
	known(t, ask(t, root, node.Mount, "/opt/x"), node.MountState{Point: "/opt", Type: "xfs"})
	unknownAs(t, ask(t, tree(t), node.Mount, "/etc"), "no such file")
	if v := get(t, New(Options{}), node.Mount, "/proc/self"); v.IsKnown() {
		known(t, v, node.MountState{Point: "/proc", Type: "proc"})
	}
}

// With --root running state is not read, persistent files are.
func TestRootDirectory(t *testing.T) {
	root := tree(t, map[string]string{
		"etc/sysctl.d/a.conf": "a", "run/sysctl.d/b.conf": "b", "proc/cmdline": "x", "proc/sys/kernel/osrelease": "6.1\n",
		"sys/module/nvidia/initstate": "live", "etc/os-release": "ID=ubuntu\n", "etc/hostname": "image\n",
		"lib/modules/6.8.0/modules.dep": "kernel/nvidia.ko.zst:\n", "lib64/ld-linux-x86-64.so.2": "",
		"usr/lib/systemd/system/slurmd.service":          "[Service]\n[Install]\nWantedBy=multi-user.target\n",
		"sys/class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n",
	})
	r := New(Options{Root: root})
	const why = "not read: --root"
	unknownAs(t, get(t, r, node.CommandLine, ""), why)
	unknownAs(t, get(t, r, node.Sysctl, "kernel.osrelease"), why)
	unknownAs(t, get(t, r, node.IOMMU, ""), why)
	unknownAs(t, get(t, r, node.ModuleSigning, ""), why)
	unknownAs(t, get(t, r, node.ProcLimits, "slurmd.service"), why)
	unknownAs(t, get(t, r, node.RDMAPort, "mlx5_0/1"), why)
	unknownAs(t, get(t, r, node.File, "/proc/cmdline"), why)
	unknownAs(t, get(t, r, node.Path, "/dev/nvidiactl"), why)
	known(t, get(t, r, node.SysctlFiles, ""), []confdir.File{{Path: "/etc/sysctl.d/a.conf", Text: "a"}})
	known(t, get(t, r, node.Module, "nvidia"), node.ModuleState{Kernels: []node.ModuleOnDisk{{
		Release: "6.8.0", Path: "/lib/modules/6.8.0/kernel/nvidia.ko.zst", Signed: node.Unknown[bool]("the file is compressed", node.Source{}),
	}}})
	unit, _ := get(t, r, node.Unit, "slurmd.service").Get()
	if unit.Load != "loaded" || unit.File != "disabled" || unit.Active.Reason() != why {
		t.Errorf("%+v", unit)
	}
	if m, ok := get(t, r, node.Mount, "/etc").Get(); ok && !strings.HasPrefix(m.Point, "/") {
		t.Errorf("%+v", m)
	}
	inv := r.Inventory(context.Background())
	if !inv.RootDirectory || inv.Hostname != "image" {
		t.Errorf("%+v", inv)
	}
	known(t, inv.Arch, "x86_64")
	known(t, inv.Marker, node.Marker{})
	if os, _ := inv.OS.Get(); os.ID != "ubuntu" {
		t.Errorf("%+v", os)
	}
	for name, reason := range map[string]string{
		"kernel": inv.Kernel.Reason(), "dmi": inv.DMI.Reason(), "virtualization": inv.Virtualization.Reason(), "pci": inv.PCI.Reason(),
		"netdevs": inv.Netdevs.Reason(), "rdma": inv.RDMA.Reason(), "routes": inv.Routes.Reason(), "protected": inv.Protected.Reason(),
		"boot id": inv.BootID.Reason(), "uptime": inv.Uptime.Reason(),
	} {
		if !strings.Contains(reason, why) {
			t.Errorf("%s: %q", name, reason)
		}
	}
}

func TestCases(t *testing.T) {
	dir := casesDir(t)
	t.Run("modload-vs-blacklist", func(t *testing.T) {
		root := filepath.Join(dir, t.Name()[len("TestCases/"):])
		load, _ := ask(t, root, node.ModulesLoadFiles, "").Get()
		entries, problems := modprobe.ParseModulesLoad(load)
		if len(entries) != 1 || len(problems) != 0 {
			t.Errorf("%+v %+v", entries, problems)
		}
		conf, _ := ask(t, root, node.ModprobeFiles, "").Get()
		config, _ := modprobe.ParseModprobe(conf)
		if len(config.Blacklisted("nvidia_peermem")) != 1 {
			t.Errorf("%+v", conf)
		}
	})
	t.Run("modload-appended-thrice", func(t *testing.T) {
		known(t, ask(t, filepath.Join(dir, "modload-appended-thrice"), node.ModulesLoadFiles, ""), []confdir.File{
			{Path: "/etc/modules-load.d/nvidia-peermem.conf", Text: strings.Repeat("nvidia_peermem\n", 3)},
		})
	})
	t.Run("limits", func(t *testing.T) {
		list, _ := ask(t, filepath.Join(dir, "limits-conf-ok"), node.LimitsFiles, "").Get()
		if len(list) != 1 || list[0].Path != "/etc/security/limits.conf" || list[0].Reason != "" {
			t.Errorf("%+v", list)
		}
		known(t, ask(t, filepath.Join(dir, "limits-dropin-ok"), node.UnitFiles, "containerd.service"), []confdir.File{
			{Path: "/etc/systemd/system/containerd.service.d/10-memlock.conf", Text: "[Service]\nLimitMEMLOCK=infinity\n"},
		})
	})
	t.Run("nixos-readonly-etc", func(t *testing.T) {
		known(t, ask(t, filepath.Join(dir, "nixos-readonly-etc"), node.Mount, "/etc/modprobe.d/zz-busbar.conf"),
			node.MountState{Point: "/", Type: "ext4", Immutable: "NixOS"})
	})
	grubs, err := filepath.Glob(filepath.Join(dir, "grub-*/etc/default/grub"))
	if err != nil || len(grubs) == 0 {
		t.Fatal("no grub cases", err)
	}
	for _, g := range grubs {
		root := strings.TrimSuffix(g, "/etc/default/grub")
		name := filepath.Base(root)
		t.Run(name, func(t *testing.T) {
			b, ok := ask(t, root, node.Boot, "").Get()
			want := node.LoaderGRUBDebian
			if strings.HasPrefix(name, "grub-rhel") {
				want = node.LoaderGRUBBLS
			}
			if !ok || b.Loader != want || len(b.Defaults) == 0 || b.Defaults[0].Path != "/etc/default/grub" {
				t.Errorf("%+v", b)
			}
			if name == "grub-tuned-double-path" {
				text, err := os.ReadFile(filepath.Join(root, "etc/tuned/bootcmdline"))
				must(t, err)
				want := []node.Reference{{Path: "/etc/tuned/bootcmdline", Exists: true, Text: string(text)}}
				if diff := cmp.Diff(want, b.References); diff != "" {
					t.Error(diff)
				}
			}
			if _, err := os.Stat(root + "/proc/cmdline"); err == nil {
				if line, ok := ask(t, root, node.CommandLine, "").Get(); !ok || line == "" {
					t.Error("no command line")
				}
			}
		})
	}
}

// A reader that is asked in vain answers when its time is over.
func TestReadEndsInTime(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(context.DeadlineExceeded)
	facts := New(Options{Root: tree(t), Running: true}).Read(ctx, node.Inventory{}, []node.Query{node.CommandLine.Query("")})
	unknownAs(t, node.CommandLine.Get(facts, ""), "")
	if facts.ObservedAt.IsZero() || facts.ObservedAt.Location() != time.UTC {
		t.Error(facts.ObservedAt)
	}
}
