package node

import (
	"slices"

	"busbar/internal/confdir"
	"busbar/internal/p2p"
)

// The kinds of queries. Readers answer them, block types ask for them.
var (
	// Sysctl is the running value of a kernel parameter; key is the dotted name
	// (kernel.numa_balancing), source the file below /proc/sys.
	Sysctl = Kind[string]{"sysctl"}
	// SysctlFiles are the *.conf files of the sysctl.d directories, unordered.
	SysctlFiles = Kind[[]confdir.File]{"sysctl_files"}

	// Module is a kernel module, running and on disk; key is the name with underscores.
	Module = Kind[ModuleState]{"module"}
	// ModulesLoadFiles are the *.conf files of the modules-load.d directories, unordered.
	ModulesLoadFiles = Kind[[]confdir.File]{"modules_load_files"}
	// ModprobeFiles are the *.conf files of the modprobe.d directories, unordered.
	ModprobeFiles = Kind[[]confdir.File]{"modprobe_files"}
	// ModuleSigning says which modules the running kernel accepts.
	ModuleSigning = Kind[ModuleSigningState]{"module_signing"}

	// CommandLine is the running kernel's command line, /proc/cmdline without its newline.
	CommandLine = Kind[string]{"kernel_command_line"}
	// Boot is the boot loader's configuration: what the next boot will be told.
	Boot = Kind[BootConfig]{"boot_config"}
	// Initramfs is what the initramfs that boots next holds of a kernel module; key is the module's name with underscores,
	// or empty for the names of all. To read it the whole image is unpacked, which takes a second or several.
	Initramfs = Kind[InitramfsState]{"initramfs"}
	// IOMMU is the state of the IOMMUs: units, firmware tables, groups.
	IOMMU = Kind[IOMMUState]{"iommu"}

	// File is a file's content; key is the absolute path.
	File = Kind[FileState]{"file"}
	// Path says what a path is, without its content; key is the absolute path.
	Path = Kind[PathState]{"path"}
	// Mount is the file system that holds a path; key is the absolute path.
	Mount = Kind[MountState]{"mount"}

	// NCCLUserFiles are the per-user NCCL files (~/.nccl.conf of root and of home
	// directories) and /etc/environment, which win over /etc/nccl.conf.
	NCCLUserFiles = Kind[[]confdir.File]{"nccl_user_files"}

	// NCCLLog is what the logs of a job say that NCCL wrote; key is their path as NCCL_DEBUG_FILE has it, in which %h stands for the
	// name of the host and %p for a process.
	NCCLLog = Kind[NCCLLogState]{"nccl_log"}

	// Unit is a systemd unit; key is its full name (slurmd.service).
	Unit = Kind[UnitState]{"unit"}
	// UnitFiles are a unit's fragment and its drop-ins in the order in which they
	// apply; key is the unit's full name.
	UnitFiles = Kind[[]confdir.File]{"unit_files"}
	// OwnedDropIns are busbar's own unit drop-ins, /etc/systemd/system/*.d/zz-busbar.conf.
	OwnedDropIns = Kind[[]confdir.File]{"owned_drop_ins"}
	// SystemConfFiles are systemd's system.conf and the system.conf.d fragments, unordered.
	SystemConfFiles = Kind[[]confdir.File]{"system_conf_files"}
	// LogindConfFiles are systemd-logind's logind.conf and the logind.conf.d fragments, unordered.
	LogindConfFiles = Kind[[]confdir.File]{"logind_conf_files"}
	// LimitsFiles are /etc/security/limits.conf and limits.d/*.conf, unordered.
	LimitsFiles = Kind[[]confdir.File]{"limits_files"}
	// ProcLimits are the resource limits of a unit's main process; key is the
	// unit's full name. Of pasted text it is what that calls the process.
	ProcLimits = Kind[ProcessLimits]{"proc_limits"}

	// KernelConfig is what the running kernel was built with; key is the option, CONFIG_PCI_P2PDMA. It is y, m, a number
	// or a text as it stands in the kernel's configuration, and n where the option is not set.
	KernelConfig = Kind[string]{"kernel_config"}

	// NUMANodes are the node's NUMA nodes, by number.
	NUMANodes = Kind[[]NUMANode]{"numa_nodes"}

	// CPUs are the node's processors: packages and frequency governors.
	CPUs = Kind[CPUState]{"cpus"}

	// RDMAPort is what the driver says of an RDMA port; key is DEVICE/PORT.
	RDMAPort = Kind[RDMAPortState]{"rdma_port"}

	// PCIRegisters are the named registers of a PCI function; key is its address.
	PCIRegisters = Kind[PCIRegisterState]{"pci_registers"}
	// PCILink is the link of a PCI function, now and at best; key is its address.
	PCILink = Kind[PCILinkState]{"pci_link"}
	// Link is the link of a NIC port; key is NIC.String().
	Link = Kind[LinkState]{"link"}
	// LinkManagement is who sets up the network device of a NIC port, and the MTU that their files say; key is NIC.String().
	LinkManagement = Kind[LinkManagementState]{"link_management"}
	// FlowControl is how a NIC port holds back its peer as a whole; key is NIC.String().
	FlowControl = Kind[FlowControlState]{"flow_control"}
	// DCB is Data Center Bridging of a NIC port: what it does per priority; key is NIC.String().
	// It is unsupported where the driver takes no part in DCB (virtual functions, virtio).
	DCB = Kind[DCBState]{"dcb"}
	// RoCE is how a NIC port marks RoCE and reacts to congestion; key is NIC.String().
	RoCE = Kind[RoCEState]{"roce_settings"}
	// NVConfig is the configuration in a NIC's firmware; key is the function's PCI address. It is unsupported where the NIC is
	// none of NVIDIA's, and of virtual functions.
	NVConfig = Kind[NVConfigState]{"nic_nvconfig"}

	// NVIDIADriver is the NVIDIA kernel driver that is loaded.
	NVIDIADriver = Kind[NVIDIADriverState]{"nvidia_driver"}
	// FabricManager is the fabric manager that is installed.
	FabricManager = Kind[FabricManagerState]{"fabric_manager"}
	// IMEX is the service by which GPUs of a rack's nodes share memory, as it is installed.
	IMEX = Kind[FabricManagerState]{"imex"}
	// NVML is NVIDIA's management library, which answers the kinds below.
	NVML = Kind[NVMLState]{"nvml"}
	// GPUInfo is what the driver says of a GPU; key is its PCI address.
	GPUInfo = Kind[GPUState]{"gpu"}
	// NVLinks are the NVLinks of a GPU; key is its PCI address. It is unsupported where the GPU has none.
	NVLinks = Kind[NVLinkState]{"nvlink"}
	// P2P is the access of GPUs to each other.
	P2P = Kind[P2PState]{"p2p"}
	// GPUFabric is a GPU's registration with the fabric of NVSwitches; key is its PCI address.
	GPUFabric = Kind[GPUFabricState]{"gpu_fabric"}
	// ConfidentialComputing is whether GPUs keep their data from the host.
	ConfidentialComputing = Kind[ConfidentialComputingState]{"confidential_computing"}
	// KernelLog is what the kernel's log tells of faults since boot.
	KernelLog = Kind[KernelLogState]{"kernel_log"}
	// GPUUsers are the processes that use GPUs.
	GPUUsers = Kind[GPUUsage]{"gpu_users"}
	// RDMAUsers are the processes, and modules of the kernel, that have queue pairs.
	RDMAUsers = Kind[RDMAUsage]{"rdma_users"}
	// SlurmJobs are the numbers of the jobs that Slurm runs on this node, sorted as text.
	SlurmJobs = Kind[[]string]{"slurm_jobs"}
	// P2PMeasurement is what copies between all pairs of GPUs showed; key is the size of a copy in MiB. Nobody who only
	// reads a node answers it: busbar verify --probe makes the copies.
	P2PMeasurement = Kind[p2p.Result]{"p2p_measurement"}
)

// decoders reads recorded answers: kind name to a function that gives the Value.
var decoders = map[string]func(valueJSON) (any, error){
	Sysctl.name:           decode[string],
	SysctlFiles.name:      decode[[]confdir.File],
	Module.name:           decode[ModuleState],
	ModulesLoadFiles.name: decode[[]confdir.File],
	ModprobeFiles.name:    decode[[]confdir.File],
	ModuleSigning.name:    decode[ModuleSigningState],
	CommandLine.name:      decode[string],
	Boot.name:             decode[BootConfig],
	Initramfs.name:        decode[InitramfsState],
	IOMMU.name:            decode[IOMMUState],
	File.name:             decode[FileState],
	Path.name:             decode[PathState],
	Mount.name:            decode[MountState],
	NCCLUserFiles.name:    decode[[]confdir.File],
	NCCLLog.name:          decode[NCCLLogState],
	Unit.name:             decode[UnitState],
	UnitFiles.name:        decode[[]confdir.File],
	SystemConfFiles.name:  decode[[]confdir.File],
	LogindConfFiles.name:  decode[[]confdir.File],
	OwnedDropIns.name:     decode[[]confdir.File],
	LimitsFiles.name:      decode[[]confdir.File],
	ProcLimits.name:       decode[ProcessLimits],
	KernelConfig.name:     decode[string],
	KernelLog.name:        decode[KernelLogState],
	NUMANodes.name:        decode[[]NUMANode],
	CPUs.name:             decode[CPUState],
	RDMAPort.name:         decode[RDMAPortState],
	PCIRegisters.name:     decode[PCIRegisterState],
	PCILink.name:          decode[PCILinkState],
	Link.name:             decode[LinkState],
	LinkManagement.name:   decode[LinkManagementState],
	FlowControl.name:      decode[FlowControlState],
	DCB.name:              decode[DCBState],
	RoCE.name:             decode[RoCEState],
	NVConfig.name:         decode[NVConfigState],

	NVIDIADriver.name:          decode[NVIDIADriverState],
	FabricManager.name:         decode[FabricManagerState],
	IMEX.name:                  decode[FabricManagerState],
	NVML.name:                  decode[NVMLState],
	GPUInfo.name:               decode[GPUState],
	NVLinks.name:               decode[NVLinkState],
	P2P.name:                   decode[P2PState],
	GPUFabric.name:             decode[GPUFabricState],
	ConfidentialComputing.name: decode[ConfidentialComputingState],
	GPUUsers.name:              decode[GPUUsage],
	RDMAUsers.name:             decode[RDMAUsage],
	SlurmJobs.name:             decode[[]string],
	P2PMeasurement.name:        decode[p2p.Result],
}

func decode[T any](in valueJSON) (any, error) {
	var v Value[T]
	err := v.decode(in)
	return v, err
}

// ModuleState is a kernel module in the running kernel and on disk.
type ModuleState struct {
	// Loaded: the module is in the running kernel (/sys/module/NAME/initstate is "live").
	Loaded bool `json:"loaded"`
	// Changing is "coming" while the module's init function runs, which in a driver that hangs
	// is for ever, and "going" while it is being unloaded (/sys/module/NAME/initstate).
	Changing string `json:"changing,omitempty"`
	// RefCount is /sys/module/NAME/refcnt; 0 when not loaded.
	RefCount int `json:"ref_count,omitempty" range:"-1:"`
	// Holders are the modules that use this one (/sys/module/NAME/holders), sorted.
	Holders []string `json:"holders,omitempty"`
	// Parameters are the values in force, /sys/module/NAME/parameters.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Kernels says for each installed kernel (/lib/modules/RELEASE) where the module
	// is, sorted by release.
	Kernels []ModuleOnDisk `json:"kernels,omitempty"`
}

// ModuleOnDisk is a module as one installed kernel has it.
type ModuleOnDisk struct {
	Release string `json:"release"`
	// Path of the .ko file (from modules.dep); empty when there is none.
	Path string `json:"path,omitempty"`
	// BuiltIn: the kernel contains the module (modules.builtin).
	BuiltIn bool `json:"built_in,omitempty"`
	// Signed: the file ends with a module signature; unknown when it is
	// compressed or could not be read.
	Signed Value[bool] `json:"signed,omitzero"`
}

// On returns what the kernel named release has of the module, and false when that
// kernel is not installed.
func (m ModuleState) On(release string) (ModuleOnDisk, bool) {
	for _, k := range m.Kernels {
		if k.Release == release {
			return k, true
		}
	}
	return ModuleOnDisk{}, false
}

// ModuleSigningState says which modules the running kernel accepts.
type ModuleSigningState struct {
	// Enforced: unsigned modules are refused (/sys/module/module/parameters/sig_enforce,
	// or lockdown is not "none").
	Enforced bool `json:"enforced"`
	// Lockdown is the mode in force: none, integrity, confidentiality, or empty
	// when the kernel has no lockdown.
	Lockdown string `json:"lockdown,omitempty"`
	// ModulesDisabled is kernel.modules_disabled: nothing can be loaded any more.
	ModulesDisabled bool `json:"modules_disabled,omitempty"`
}

// LockedDown reports a kernel that lets not even root change itself: nobody loads unsigned modules,
// and nobody writes PCI registers (kernel_lockdown(7)).
func (s ModuleSigningState) LockedDown() bool { return s.Lockdown != "" && s.Lockdown != "none" }

// The boot loaders that Boot tells apart.
const (
	LoaderGRUBDebian  = "grub-debian"  // /etc/default/grub and update-grub
	LoaderGRUBBLS     = "grub-bls"     // Boot Loader Specification entries, grubby
	LoaderSystemdBoot = "systemd-boot" // /etc/kernel/cmdline, kernel-install
	LoaderOSTree      = "ostree"       // rpm-ostree or bootc
	LoaderNone        = "none"         // none that busbar knows
)

// BootConfig is the boot loader's configuration.
type BootConfig struct {
	Loader string `json:"loader"`
	// Defaults are /etc/default/grub and /etc/default/grub.d/*.cfg in the order in
	// which grub-mkconfig reads them.
	Defaults []confdir.File `json:"defaults,omitempty"`
	// References are the other files that the defaults test or source, absent ones too.
	References []Reference `json:"references,omitempty"`
	// Generated is the text of the configuration that the loader reads
	// (/boot/grub/grub.cfg); empty when the root has none.
	Generated string `json:"generated,omitempty"`
	// GeneratedReason says, with the path, why Generated, Custom or Environment could not be read;
	// empty when they could or there are none.
	GeneratedReason string `json:"generated_reason,omitempty"`
	// Custom is the text of custom.cfg beside it, whose entries follow those of Generated
	// (util/grub.d/41_custom.in); empty when there is none.
	Custom string `json:"custom,omitempty"`
	// Environment is the text of GRUB's environment block (grubenv); empty when there is none.
	Environment string `json:"environment,omitempty"`
	// Outdated: busbar's file of Defaults is younger than Generated, which was not made since
	// that file was written last.
	Outdated bool `json:"outdated,omitempty"`
	// Entries are Boot Loader Specification entries, /boot/loader/entries/*.conf, of a node of which text was given.
	Entries []confdir.File `json:"entries,omitempty"`
	// UpdateGrub: the root has an update-grub program.
	UpdateGrub bool `json:"update_grub,omitempty"`
}

// Reference is a file that a configuration refers to.
type Reference struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	Text   string `json:"text,omitempty"`
}

// The programs that make an initramfs.
const (
	GeneratorInitramfsTools = "initramfs-tools" // update-initramfs(8), Debian and Ubuntu
	GeneratorDracut         = "dracut"          // dracut(8)
	GeneratorMkinitcpio     = "mkinitcpio"      // mkinitcpio(8)
	GeneratorBooster        = "booster"         // booster(1)
)

// InitramfsState is an initramfs, and what it holds of one module.
type InitramfsState struct {
	// Kernel is the release that boots with it.
	Kernel string `json:"kernel,omitempty"`
	// Image is its path; empty where the kernel boots without one, which has nothing of what follows.
	Image string `json:"image,omitempty"`
	// Generator is the program of this node that makes it; empty when none is known.
	Generator string `json:"generator,omitempty"`
	// Frozen is the line of update-initramfs.conf(5) that keeps update-initramfs from making images anew; zero without one.
	Frozen Source `json:"frozen,omitzero"`
	// Module is the path in the image of the module that was asked for; empty when it is not in there.
	Module string `json:"module,omitempty"`
	// Modules are the names of all modules in the image, sorted, where none was asked for.
	Modules []string `json:"modules,omitempty"`
	// Files are those of the image's own modprobe.d that speak of the module, or cannot be read, with their paths in it.
	Files []confdir.File `json:"files,omitempty"`
}

// IOMMUState is the state of the node's IOMMUs.
type IOMMUState struct {
	// Units are the entries of /sys/class/iommu: dmarN (Intel), ivhdN (AMD),
	// smmu3.* (Arm), virtio*; sorted.
	Units []string `json:"units,omitempty"`
	// Tables are the firmware tables that describe IOMMUs: DMAR, IVRS, IORT, VIOT; sorted.
	Tables []string `json:"tables,omitempty"`
	// Groups are /sys/kernel/iommu_groups, by number.
	Groups []IOMMUGroup `json:"groups,omitempty"`
	// MaxAPICID is the highest APIC id of /proc/cpuinfo; unknown off x86.
	MaxAPICID Value[int] `json:"max_apic_id,omitzero" range:"0:"`
}

// IOMMUGroup is a set of devices that share one IOMMU domain.
type IOMMUGroup struct {
	ID int `json:"id" range:"0:"`
	// Type is identity (passthrough), DMA (translated, strict) or DMA-FQ
	// (translated, lazy); unknown before kernel 5.11.
	Type Value[string] `json:"type"`
	// Devices are PCI addresses, or names of other devices.
	Devices []string `json:"devices"`
}

// FileState is a file's content. A file that is absent is a known state.
type FileState struct {
	Exists bool   `json:"exists"`
	Text   string `json:"text,omitempty"`
}

// PathState says what a path is.
type PathState struct {
	Exists bool `json:"exists"`
	// Type is file, directory, character-device, block-device, socket, fifo or symlink
	// (of a dangling or looping link); empty when absent.
	Type string `json:"type,omitempty"`
	// Mode are the permission bits in octal, "0666".
	Mode string `json:"mode,omitempty"`
}

// MountState is the file system that holds a path.
type MountState struct {
	// Point is where it is mounted.
	Point string `json:"point"`
	// Type is the file system's type (ext4, xfs, tmpfs, overlay ...).
	Type string `json:"type"`
	// ReadOnly: mounted or remounted read-only.
	ReadOnly bool `json:"read_only,omitempty"`
	// Size of the whole file system in bytes (statfs(2)); read of tmpfs on this machine alone.
	Size Value[uint64] `json:"size,omitzero"`
	// Immutable names the system that manages /etc as a whole (NixOS), or is empty.
	Immutable string `json:"immutable,omitempty"`
}

// UnitState is a systemd unit.
type UnitState struct {
	// Load is systemd's LoadState: loaded, not-found, masked, bad-setting, error.
	Load string `json:"load"`
	// File is systemd's UnitFileState: enabled, disabled, static, masked, generated ...
	File string `json:"file,omitempty"`
	// Active is systemd's ActiveState: active, inactive, failed, activating ...; unknown
	// where only unit files could be read.
	Active Value[string] `json:"active,omitzero"`
	// NeedReload: unit files changed since systemd read them.
	NeedReload bool `json:"need_reload,omitempty"`
	// Job is the type of the unit's job in systemd's queue (start, stop, restart ...), which waits
	// for others or runs; empty without one.
	Job string `json:"job,omitempty"`
}

// Starting reports whether systemd has a job that starts the unit, again if it runs.
func (u UnitState) Starting() bool {
	return slices.Contains([]string{"start", "restart", "try-restart", "reload-or-start"}, u.Job)
}

// ProcessLimits are the resource limits of a unit's main process.
type ProcessLimits struct {
	// Running: the unit has a main process.
	Running bool   `json:"running"`
	PID     int    `json:"pid,omitempty" range:"0:"`
	Command string `json:"command,omitempty"`
	// Text is /proc/PID/limits.
	Text string `json:"text,omitempty"`
}

// NUMANode is one NUMA node.
type NUMANode struct {
	ID int `json:"id" range:"0:"`
	// CPUs are its CPUs that are online, in the kernel's list format (0-55,112-167); empty for
	// a node of memory alone.
	CPUs string `json:"cpus,omitempty"`
}

// CPUState is the node's processors.
type CPUState struct {
	// Packages is how many sockets have an online CPU
	// (/sys/devices/system/cpu/cpuN/topology/physical_package_id).
	Packages int `json:"packages" range:"0:"`
	// Governors says of each frequency governor in use how many frequency domains it rules
	// (/sys/devices/system/cpu/cpufreq/policyN/scaling_governor). It is unsupported where the
	// kernel does not set frequencies, as in most virtual machines.
	Governors Value[map[string]int] `json:"governors,omitzero" range:"1:"`
}
