//go:build linux

package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"busbar/internal/confdir"
	"busbar/internal/limits"
	"busbar/internal/nextboot"
	"busbar/internal/pciregs"
	"busbar/internal/pciregs/pciregstest"
	"busbar/node"
	"busbar/plan"
)

// machine is a small node below a directory: files, modules (/sys/module/NAME),
// parameters (/proc/sys), PCI functions, units (/units/NAME: file state and active state), a boot
// loader and the programs modprobe and update-grub. It is a Reader.
type machine struct {
	root string
	// onRead is called before every answer.
	onRead func()
	// blind: its systemd does not notice new drop-ins.
	blind bool
	// virtualization and nicDriver are those of the inventory where they are not the usual ones.
	virtualization, nicDriver string
	// gpuDriver is the driver of its GPU; it has none where it is empty. usage is who uses it.
	gpuDriver string
	usage     node.GPUUsage
	// rdma: it has an RDMA device. connections is who uses it, and jobs are Slurm's.
	rdma        bool
	connections node.RDMAUsage
	jobs        []string
	// netnsError is what its kernel answers when the network namespace mode of RDMA devices is to be set.
	netnsError error
}

// The PCI functions of a machine: a port that redirects, and a NIC below it.
const (
	port       = "0000:17:01.0"
	nic        = "0000:19:00.0"
	gpu        = "0000:1b:00.0"
	image      = "/boot/initrd.img-6.8.0"
	portConfig = "/sys/bus/pci/devices/" + port + "/config"
	nicConfig  = "/sys/bus/pci/devices/" + nic + "/config"
)

// redirecting is the configuration space of a port as Linux sets it under an IOMMU.
func redirecting(t *testing.T) []byte {
	config := pciregstest.Config(t, "pex9716-port")
	config[0xf2a] = 0x1d
	return config
}

// newMachine is a machine with nothing done to it.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{root: t.TempDir()}
	m.write("/etc/nccl.conf", "NCCL_IB_HCA==mlx5_0\n")
	m.write("/etc/modules-load.d/busbar.conf", "left_over\n")
	m.write("/etc/default/grub.d/50-cloudimg.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n")
	m.write("/proc/sys/kernel/numa_balancing", "1\n")
	m.write("/sys/module/ib_core/initstate", "live\n")
	m.write("/sys/module/ib_core/parameters/netns_mode", "Y\n")
	must(os.MkdirAll(filepath.Join(m.root, "/sys/class/infiniband"), 0o755))
	m.write("/units/slurmd.service", "enabled active 65536")
	m.write("/units/nvidia-fabricmanager.service", "disabled inactive 0")
	m.write("/units/loaded-slurmd.service", "65536")
	m.write("/units/loaded-nvidia-fabricmanager.service", "65536")
	m.write("/run/utmp", "")
	m.write(portConfig, string(redirecting(t)))
	m.write(nicConfig, string(pciregstest.Config(t, "connectx3-endpoint")))
	m.program("modprobe", `
if [ "$1" = -r ]; then rm -r "$root/sys/module/$2"; exit; fi
mkdir -p "$root/sys/module/$1"`)
	m.program("update-grub", `
for file in "$root"/etc/default/grub.d/*.cfg; do . "$file"; done
printf "menuentry 'Linux' {\n\tlinux /vmlinuz-6.8.0 root=/dev/sda1 ro %s\n}\n" "$GRUB_CMDLINE_LINUX_DEFAULT" > "$2.new"
cat "$2.new" > "$2"
rm "$2.new"`)
	m.write(image, "nvme nvidia\nEND\n")
	m.program("update-initramfs", `
[ "$1 $2 $3" = "-u -k 6.8.0" ]
{ echo nvme nvidia; cat "$root/etc/modprobe.d/zz-busbar.conf"; echo END; } > "$root/boot/initrd.img-6.8.0.new"
mv "$root/boot/initrd.img-6.8.0.new" "$root/boot/initrd.img-6.8.0"`)
	m.write("/boot/grub/grub.cfg", "menuentry 'Linux' {\n\tlinux /vmlinuz-6.8.0 root=/dev/sda1 ro quiet\n}\n")
	return m
}

func (m *machine) write(name, text string) {
	file := filepath.Join(m.root, name)
	must(os.MkdirAll(filepath.Dir(file), 0o755))
	must(os.WriteFile(file, []byte(text), 0o644))
}

func (m *machine) text(name string) string {
	text, err := os.ReadFile(filepath.Join(m.root, name))
	if err != nil {
		return "(" + errors.Unwrap(err).Error() + ")"
	}
	return string(text)
}

// program puts a shell script into the machine's own directory of programs.
func (m *machine) program(name, script string) {
	m.write("/bin/"+name, "#!/bin/sh\nset -e\nroot='"+m.root+"'\n"+script+"\n")
	must(os.Chmod(filepath.Join(m.root, "/bin", name), 0o755))
}

// options run what is planned on the machine.
func (m *machine) options(planned func(context.Context) (Planned, error)) Options {
	return Options{
		Root: m.root, Reader: m, Plan: planned, Path: m.root + "/bin:/usr/bin:/bin",
		Units: func(context.Context) (Units, error) { return unitControl{m}, nil },
		RDMANetns: func(mode string) error {
			if m.netnsError != nil {
				return m.netnsError
			}
			m.write("/sys/module/ib_core/parameters/netns_mode", map[string]string{plan.RDMAShared: "Y\n", plan.RDMAExclusive: "N\n"}[mode])
			return nil
		},
	}
}

func (m *machine) Inventory(context.Context) node.Inventory {
	inv := node.Inventory{
		BootID: node.Known("boot-1", node.Source{}), Marker: node.Known(node.Marker{}, node.Source{}), SavedProtected: node.Known([]string{}, node.Source{}),
		Virtualization: node.Known(cmp.Or(m.virtualization, "none"), node.Source{}),
		PCI: node.Known([]node.PCIFunction{
			{Address: port, Vendor: "10b5", Device: "9716", Class: "060400", Driver: "pcieport"},
			{Address: nic, Vendor: "15b3", Device: "1007", Class: "020000", Driver: cmp.Or(m.nicDriver, "mlx4_core"), Parent: port},
		}, node.Source{}),
	}
	if m.rdma {
		inv.RDMA = node.Known([]node.RDMADevice{{Name: "mlx5_0"}}, node.Source{})
	}
	if functions, _ := inv.PCI.Get(); m.gpuDriver != "" {
		inv.PCI = node.Known(append(functions, node.PCIFunction{Address: gpu, Vendor: "10de", Device: "2330", Class: "030200", Driver: m.gpuDriver}), node.Source{})
	}
	if text, err := os.ReadFile(m.root + node.MarkerPath); err == nil {
		inv.Marker = node.Known(node.Marker{BootID: "boot-1", Args: []string{strings.TrimSpace(string(text))}}, node.Source{})
		if strings.Contains(string(text), "iommu=pt") {
			inv.Marker = node.Known(node.Marker{BootID: "boot-1", Args: []string{"iommu=pt"}}, node.Source{})
		}
	}
	if text, err := os.ReadFile(m.root + node.ProtectedPath); err == nil {
		var saved []string
		must(json.Unmarshal(text, &saved))
		inv.SavedProtected = node.Known(saved, node.Source{})
	}
	return inv
}

func (m *machine) Read(_ context.Context, inv node.Inventory, queries []node.Query) node.Facts {
	if m.onRead != nil {
		m.onRead()
	}
	var answers []node.Answer
	for _, q := range queries {
		answers = append(answers, m.answer(q))
	}
	return node.NewFacts(inv, time.Time{}, answers)
}

func (m *machine) answer(q node.Query) node.Answer {
	name := filepath.Join(m.root, q.Key)
	switch q.Kind {
	case node.File.Name():
		text, err := os.ReadFile(name)
		return node.File.Answer(q.Key, node.Known(node.FileState{Exists: err == nil, Text: string(text)}, node.Source{}))
	case node.Path.Name():
		state := node.PathState{}
		if info, err := os.Lstat(name); err == nil {
			state = node.PathState{Exists: true, Mode: fmt.Sprintf("%04o", info.Mode().Perm())}
		}
		return node.Path.Answer(q.Key, node.Known(state, node.Source{}))
	case node.SysctlFiles.Name():
		return node.SysctlFiles.Answer("", node.Known(m.list("/etc/sysctl.d"), node.Source{}))
	case node.Sysctl.Name():
		text, err := os.ReadFile(filepath.Join(m.root, "/proc/sys", strings.ReplaceAll(q.Key, ".", "/")))
		if err != nil {
			return node.Sysctl.Answer(q.Key, node.Unknown[string]("the kernel has no such parameter", node.Source{}))
		}
		return node.Sysctl.Answer(q.Key, node.Known(strings.TrimSpace(string(text)), node.Source{}))
	case node.Module.Name():
		_, err := os.Stat(filepath.Join(m.root, "/sys/module", q.Key))
		state := node.ModuleState{Loaded: err == nil, Parameters: map[string]string{}}
		parameters, _ := filepath.Glob(filepath.Join(m.root, "/sys/module", q.Key, "parameters/*"))
		for _, file := range parameters {
			state.Parameters[filepath.Base(file)] = strings.TrimSpace(m.text(strings.TrimPrefix(file, m.root)))
		}
		return node.Module.Answer(q.Key, node.Known(state, node.Source{}))
	case node.Unit.Name():
		file, active, _ := m.unit(q.Key)
		return node.Unit.Answer(q.Key, node.Known(node.UnitState{
			Load: "loaded", File: file, Active: node.Known(active, node.Source{}),
			NeedReload: !m.blind && m.text("/units/loaded-"+q.Key) != m.configuredLimit(q.Key), Job: m.job(q.Key),
		}, node.Source{}))
	case node.ProcLimits.Name():
		_, active, limit := m.unit(q.Key)
		return node.ProcLimits.Answer(q.Key, node.Known(node.ProcessLimits{
			Running: active == "active", PID: 1, Text: "Max locked memory " + limit + " " + limit + " bytes\n",
		}, node.Source{}))
	case node.GPUUsers.Name():
		return node.GPUUsers.Answer("", node.Known(m.usage, node.Source{Path: "/proc"}))
	case node.RDMAUsers.Name():
		return node.RDMAUsers.Answer("", node.Known(m.connections, node.Source{Call: "netlink"}))
	case node.SlurmJobs.Name():
		return node.SlurmJobs.Answer("", node.Known(m.jobs, node.Source{Path: "/proc"}))
	case node.Boot.Name():
		boot := node.BootConfig{Loader: node.LoaderGRUBDebian, Defaults: m.list("/etc/default/grub.d"), UpdateGrub: true, Generated: m.text(nextboot.GeneratedPath)}
		return node.Boot.Answer("", node.Known(boot, node.Source{}))
	case node.Initramfs.Name():
		return node.Initramfs.Answer(q.Key, m.initramfs(q.Key))
	case node.Link.Name():
		return node.Link.Answer(q.Key, node.Known(node.LinkState{Carrier: node.Known(m.text("/links/"+q.Key) == "1", node.Source{})}, node.Source{}))
	case node.RDMAPort.Name():
		text, err := os.ReadFile(filepath.Join(m.root, "/sys/class/infiniband", q.Key))
		if err != nil {
			return node.RDMAPort.Answer(q.Key, node.Awaiting[node.RDMAPortState]("there is no such port", node.CapabilityRDMA, node.Source{}))
		}
		return node.RDMAPort.Answer(q.Key, node.Known(node.RDMAPortState{LinkLayer: string(text)}, node.Source{}))
	}
	if q.Kind == node.PCIRegisters.Name() {
		return node.PCIRegisters.Answer(q.Key, node.Known(m.registers(q.Key), node.Source{}))
	}
	panic("the machine knows no " + q.String())
}

// initramfs is the image of the machine: the names of the modules in it on the first line, then its modprobe.d, and an end.
func (m *machine) initramfs(module string) node.Value[node.InitramfsState] {
	modules, options, _ := strings.Cut(m.text(image), "\n")
	options, whole := strings.CutSuffix(options, "END\n")
	if !whole {
		return node.Unknown[node.InitramfsState]("it is cut off", node.Source{Path: image})
	}
	state := node.InitramfsState{Kernel: "6.8.0", Image: image, Generator: node.GeneratorInitramfsTools, Modules: strings.Fields(modules)}
	if module != "" {
		if slices.Contains(state.Modules, module) {
			state.Module = "/lib/modules/6.8.0/" + module + ".ko"
		}
		state.Modules, state.Files = nil, []confdir.File{{Path: "/etc/modprobe.d/zz-busbar.conf", Text: options}}
	}
	return node.Known(state, node.Source{Path: image})
}

func (m *machine) registers(address string) node.PCIRegisterState {
	config, err := os.Open(filepath.Join(m.root, "/sys/bus/pci/devices", address, "config"))
	must(err)
	defer config.Close()
	space, err := pciregs.Open(config)
	must(err)
	var state node.PCIRegisterState
	express, err := space.Express()
	must(err)
	state.Express = node.Known(express, node.Source{})
	acs, err := space.ACS()
	must(err)
	state.ACS = node.Known(acs, node.Source{})
	return state
}

func (m *machine) list(dir string) []confdir.File {
	entries, _ := os.ReadDir(filepath.Join(m.root, dir))
	var files []confdir.File
	for _, e := range entries {
		files = append(files, confdir.File{Path: dir + "/" + e.Name(), Text: m.text(dir + "/" + e.Name())})
	}
	return files
}

// job is what systemd has queued for a unit.
func (m *machine) job(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.root, "/units/job-"+name))
	return string(text)
}

func (m *machine) unit(name string) (file, active, limit string) {
	_, err := fmt.Sscan(m.text("/units/"+name), &file, &active, &limit)
	must(err)
	return file, active, limit
}

// configuredLimit is what the unit's files say.
func (m *machine) configuredLimit(name string) string {
	if strings.Contains(m.text("/etc/systemd/system/"+name+".d/zz-busbar.conf"), "LimitMEMLOCK=infinity") {
		return "unlimited"
	}
	return "65536"
}

// unitControl is systemd on a machine. A process gets the limit that its unit's
// drop-in had at the last reload.
type unitControl struct{ m *machine }

func (u unitControl) set(name string, file, active string) error {
	f, a, limit := u.m.unit(name)
	if file != "" {
		f = file
	}
	if active != "" {
		a = active
	}
	if active == "active" {
		limit = u.m.text("/units/loaded-" + name)
	}
	u.m.write("/units/"+name, f+" "+a+" "+limit)
	return nil
}

func (u unitControl) Enable(_ context.Context, name string) error { return u.set(name, "enabled", "") }
func (u unitControl) Disable(_ context.Context, name string) error {
	return u.set(name, "disabled", "")
}
func (u unitControl) Mask(_ context.Context, name string) error    { return u.set(name, "masked", "") }
func (u unitControl) Unmask(_ context.Context, name string) error  { return u.set(name, "disabled", "") }
func (u unitControl) Start(_ context.Context, name string) error   { return u.set(name, "", "active") }
func (u unitControl) Stop(_ context.Context, name string) error    { return u.set(name, "", "inactive") }
func (u unitControl) Restart(_ context.Context, name string) error { return u.set(name, "", "active") }
func (u unitControl) Enqueue(_ context.Context, name string, restart bool) error {
	job := "start"
	if restart {
		job = "restart"
	}
	u.m.write("/units/job-"+name, job)
	return nil
}
func (u unitControl) Booting(context.Context) (bool, error) {
	return u.m.text("/units/booting") == "yes", nil
}
func (u unitControl) Close() {}
func (u unitControl) Reload(context.Context) error {
	units, err := filepath.Glob(u.m.root + "/units/*.service")
	for _, file := range units {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "loaded-") {
			continue
		}
		u.m.write("/units/loaded-"+name, u.m.configuredLimit(name))
	}
	return err
}

// snapshot is everything about the files below the machine's root that a write would
// change, except for the lock.
func (m *machine) snapshot() map[string]string {
	all := map[string]string{}
	must(filepath.WalkDir(m.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == filepath.Join(m.root, lockDir) {
			return fs.SkipDir
		}
		info, err := d.Info()
		all[strings.TrimPrefix(name, m.root)] = fmt.Sprintf("%v %v %d %+v", info.Mode(), info.ModTime(), info.Size(), info.Sys())
		return err
	}))
	// Reading updates the access time of what Sys shows.
	for name, info := range all {
		before, rest, _ := strings.Cut(info, "Atim:")
		_, after, _ := strings.Cut(rest, "}")
		all[name] = before + after
	}
	return all
}

// plan wants the states of steps, and says of each on a finding of its own whether it
// is there: ok, or drift with the step in the plan.
func (m *machine) plan(steps func(node.Facts) []plan.Step) func(context.Context) (Planned, error) {
	return func(ctx context.Context) (Planned, error) {
		inv := m.Inventory(ctx)
		var queries []node.Query
		for _, s := range steps(node.Facts{Inventory: inv}) {
			queries = append(queries, s.Action.Queries()...)
		}
		facts := m.Read(ctx, inv, queries)
		var p plan.Plan
		for _, s := range steps(facts) {
			s.ID = s.Action.Kind() + ":" + s.Target
			if s.Summary == "" {
				s.Summary = s.ID
			}
			f := plan.Finding{ID: s.ID, Address: s.ID, Severity: plan.Error, Status: plan.OK}
			if len(s.Addresses) == 0 {
				s.Addresses = []string{s.ID}
			}
			done, _, err := s.Action.Done(facts)
			_, reload := s.Action.(plan.ReloadUnits)
			switch {
			case err != nil:
				f.Status = plan.Undetermined
			case !done, reload && slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return isUnitFile(s.Target) }):
				f.Status, f.Fixable = plan.Drift, true
				p.Steps = append(p.Steps, s)
			}
			p.Findings = append(p.Findings, f)
		}
		return Planned{p, facts}, nil
	}
}

// everything is a step of each kind.
func everything(f node.Facts) []plan.Step {
	nccl, _ := node.File.Get(f, "/etc/nccl.conf").Get()
	const block = "# BEGIN busbar\nNCCL_IB_TC=104\n# END busbar\n"
	boot := node.Boot.Query("")
	return []plan.Step{
		{Target: "/etc/sysctl.d/zz-busbar.conf", Action: plan.WriteFile{Path: "/etc/sysctl.d/zz-busbar.conf", Text: "kernel.numa_balancing = 0\n", List: node.SysctlFiles.Query("")}},
		{Target: "/etc/nccl.conf", Action: plan.WriteFile{Path: "/etc/nccl.conf", Text: block + strings.TrimPrefix(nccl.Text, block), Computed: true, Backup: "/etc/nccl.conf.busbar-backup"}},
		{Target: "/etc/modules-load.d/busbar.conf", Action: plan.RemoveFile{Path: "/etc/modules-load.d/busbar.conf"}},
		{Target: "/etc/default/grub.d/zz-busbar.cfg", Provides: []string{"boot-args"}, Action: plan.WriteFile{Path: "/etc/default/grub.d/zz-busbar.cfg", Text: "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt\"\n", List: boot}},
		{Target: "/boot/grub/grub.cfg", Requires: []string{"boot-args"}, Action: plan.UpdateGRUB{Want: []string{"iommu=pt"}}},
		{Target: "/etc/modprobe.d/zz-busbar.conf", Provides: []string{"modprobe.d"}, Action: plan.WriteFile{Path: "/etc/modprobe.d/zz-busbar.conf", Text: "options nvidia NVreg_A=1\n"}},
		{Target: image, Requires: []string{"modprobe.d"}, Action: plan.UpdateInitramfs{Kernel: "6.8.0", Image: image, Modules: []plan.InitramfsModule{{Name: "nvidia", Options: map[string]string{"NVreg_A": "1"}}}}},
		{Target: "/etc/systemd/system/slurmd.service.d/zz-busbar.conf", Provides: []string{"slurmd-limits"}, Action: plan.WriteFile{Path: "/etc/systemd/system/slurmd.service.d/zz-busbar.conf", Text: "[Service]\nLimitMEMLOCK=infinity\n"}},
		{Target: "nvidia_peermem", Action: plan.LoadModule{Name: "nvidia_peermem"}},
		{Target: port, Action: plan.SetACS{Address: port, Off: pciregs.Redirect}},
		{Target: nic, Action: plan.SetMaxReadRequest{Address: nic, Bytes: 4096}},
		{Target: nic, Action: plan.SetRelaxedOrdering{Address: nic, Allowed: true}},
		{Target: "ib_core", Action: plan.SetRDMANetns{Mode: plan.RDMAExclusive}},
		{Target: "kernel.numa_balancing", Action: plan.SetSysctl{Name: "kernel.numa_balancing", Value: "0"}},
		{Target: "slurmd.service", Requires: []string{"slurmd-limits"}, Provides: []string{"slurmd-reloaded"}, Action: plan.ReloadUnits{Units: []string{"slurmd.service"}}},
		{Target: "slurmd.service", Requires: []string{"slurmd-reloaded"}, Action: plan.RestartUnit{Unit: "slurmd.service", Limits: []plan.ProcessLimit{{Item: "memlock", Value: limits.Unlimited}}}},
		{Target: "nvidia-fabricmanager.service", Action: plan.SetUnit{Unit: "nvidia-fabricmanager.service", Enablement: "enabled", Active: "active"}},
		{Target: "protected", Action: plan.SaveProtected{NICs: []string{nic, "bond0"}}},
		{Target: "marker", Requires: []string{"boot-args"}, Action: plan.WriteMarker{Marker: node.Marker{FormatVersion: "1.0", BootID: "boot-1", Args: []string{"iommu=pt"}}}},
	}
}

// only returns the steps of all whose target holds one of the words.
func only(words ...string) func(node.Facts) []plan.Step {
	return func(f node.Facts) []plan.Step {
		return slices.DeleteFunc(everything(f), func(s plan.Step) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s.Target, w) })
		})
	}
}

// outcomes are the steps of a result as "id outcome".
func outcomes(r Result) []string {
	var out []string
	for _, s := range r.Steps {
		out = append(out, s.Step.ID+" "+s.Outcome)
	}
	return out
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
