package live

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/modprobe"
	"busbar/node"

	"golang.org/x/sys/unix"
)

const (
	sysModule   = "/sys/module"
	procModules = "/proc/modules"
)

// module reads a module as it runs and as it stands on disk for each installed kernel. Of a root
// directory (--root) only the latter can be read, and Loaded says nothing.
func (s *session) module(name string) node.Value[node.ModuleState] {
	if err := modprobe.CheckName(name); err != nil {
		return node.Unknown[node.ModuleState](err.Error(), node.Source{})
	}
	var state node.ModuleState
	kernels, err := s.kernels()
	if err != nil {
		return unknown[node.ModuleState](err, modulesDir)
	}
	normal := modprobe.Normalize(name)
	for _, k := range kernels {
		state.Kernels = append(state.Kernels, k.module(s.files, normal))
	}
	if !s.running {
		return node.Known(state, node.Source{Path: modulesDir})
	}
	source, err := s.loadedModule(normal, &state)
	if err != nil {
		return unknown[node.ModuleState](err, source)
	}
	if !state.Loaded {
		// A built-in module without parameters has no directory in /sys/module.
		release, _ := s.attribute("/proc/sys/kernel/osrelease")
		on, _ := state.On(release)
		state.Loaded = on.BuiltIn
	}
	return node.Known(state, node.Source{Path: source})
}

// loadedModule reads the running module: from sysfs, and where sysfs has nothing of it, from
// /proc/modules.
func (s *session) loadedModule(name string, state *node.ModuleState) (source string, err error) {
	dir := sysModule + "/" + name
	if _, err := s.stat(dir); err != nil {
		if !absent(err) {
			return dir, err
		}
		return s.listedModule(name, state)
	}
	init, err := s.attribute(dir + "/initstate")
	if err != nil && !absent(err) {
		return dir + "/initstate", err
	}
	state.Loaded = absent(err) || init == "live" // built-in modules have no initstate
	if !state.Loaded {
		state.Changing = init
	}
	if count, err := s.number(dir + "/refcnt"); err == nil {
		state.RefCount = max(count, 0)
	}
	holders, err := s.names(dir + "/holders")
	if err != nil && !absent(err) {
		return dir + "/holders", err
	}
	state.Holders = holders
	if len(holders) == 0 {
		state.Holders = nil
	}
	state.Parameters = s.parameters(dir + "/parameters")
	return dir, nil
}

// parameters reads the parameters of a module that may be read.
func (s *session) parameters(dir string) map[string]string {
	const enough = 512
	names, _ := s.names(dir)
	var parameters map[string]string
	for _, name := range names[:min(len(names), enough)] {
		v, err := s.attribute(dir + "/" + name)
		if err != nil {
			continue
		}
		if parameters == nil {
			parameters = map[string]string{}
		}
		parameters[name] = v
	}
	return parameters
}

// listedModule reads a module off /proc/modules.
func (s *session) listedModule(name string, state *node.ModuleState) (source string, err error) {
	content, err := s.read(procModules)
	if absent(err) && s.exists(sysModule) {
		return sysModule, nil // a kernel that cannot load modules
	}
	if err != nil {
		return procModules, err
	}
	loaded, err := modprobe.ParseProcModules(content)
	if err != nil {
		return procModules, err
	}
	for _, m := range loaded {
		if m.Name == name {
			state.Loaded = m.State == "Live"
			state.Changing = map[string]string{"Loading": "coming", "Unloading": "going"}[m.State]
			state.RefCount = max(m.Refcount, 0)
			state.Holders = slices.Sorted(slices.Values(m.UsedBy))
		}
	}
	return procModules, nil
}

// modulesDir has a directory per installed kernel.
const modulesDir = "/lib/modules"

// kernelModules are the wanted modules of one installed kernel.
type kernelModules struct {
	release string
	dir     string
	paths   map[string]string // normal name to path
	builtIn map[string]bool
}

// installedKernels looks up modules in depmod's indexes of all installed kernels, sorted by release.
// A directory without indexes belongs to a kernel that was removed.
func (f files) installedKernels(wanted map[string]bool) ([]kernelModules, error) {
	const merged = "/usr/lib/modules"
	normal := make(map[string]bool, len(wanted))
	for name := range wanted {
		normal[modprobe.Normalize(name)] = true
	}
	root := modulesDir
	releases, err := f.names(root)
	if absent(err) {
		root = merged
		releases, err = f.names(root)
	}
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal(root + ": " + reason(err))
	}
	var kernels []kernelModules
	for _, release := range releases {
		k := kernelModules{release: release, dir: root + "/" + release}
		dep, errDep := f.readBytes(k.dir+"/modules.dep", maxIndex)
		builtin, errBuiltin := f.readBytes(k.dir+"/modules.builtin", maxIndex)
		if absent(errDep) && absent(errBuiltin) {
			continue
		}
		for name, err := range map[string]error{"modules.dep": errDep, "modules.builtin": errBuiltin} {
			if err != nil && !absent(err) {
				return nil, refusal(k.dir + "/" + name + ": " + reason(err))
			}
		}
		k.paths = findModules(dep, normal)
		k.builtIn = map[string]bool{}
		for name := range findModules(builtin, normal) {
			k.builtIn[name] = true
		}
		kernels = append(kernels, k)
	}
	return kernels, nil
}

// findModules finds modules in modules.dep ("PATH: DEPENDENCIES" a line) or modules.builtin
// ("PATH" a line), depmod(8). It gives their paths by normal name.
func findModules(index []byte, wanted map[string]bool) map[string]string {
	found := map[string]string{}
	var normal []byte
	for line := range bytes.Lines(index) {
		if colon := bytes.IndexByte(line, ':'); colon >= 0 {
			line = line[:colon]
		}
		name := line[bytes.LastIndexByte(line, '/')+1:]
		end := bytes.Index(name, []byte(".ko"))
		if end < 0 {
			continue
		}
		normal = append(normal[:0], name[:end]...)
		for i, c := range normal {
			if c == '-' {
				normal[i] = '_'
			}
		}
		if wanted[string(normal)] {
			found[string(normal)] = string(bytes.TrimSpace(line))
		}
	}
	return found
}

func (k kernelModules) module(f files, name string) node.ModuleOnDisk {
	m := node.ModuleOnDisk{Release: k.release, BuiltIn: k.builtIn[name], Path: k.paths[name]}
	if m.Path == "" {
		return m
	}
	if !path.IsAbs(m.Path) {
		m.Path = path.Join(k.dir, m.Path)
	}
	m.Signed = f.signed(m.Path)
	return m
}

// signatureTrailer ends a signed module (include/linux/module_signature.h).
const signatureTrailer = "~Module signature appended~\n"

func (f files) signed(p string) node.Value[bool] {
	if !strings.HasSuffix(p, ".ko") {
		return node.Unknown[bool]("the file is compressed", node.Source{Path: p})
	}
	end, err := f.tail(p, int64(len(signatureTrailer)))
	if err != nil {
		return unknown[bool](err, p)
	}
	return node.Known(string(end) == signatureTrailer, node.Source{Path: p})
}

const (
	security = "/sys/kernel/security"
	lockdown = security + "/lockdown"
)

// lockdown is the kernel's lockdown mode (kernel_lockdown(7)): none, integrity or confidentiality.
func (f files) lockdown() (string, error) {
	text, err := f.attribute(lockdown)
	_, rest, _ := strings.Cut(text, "[")
	mode, _, _ := strings.Cut(rest, "]")
	return mode, err
}

// moduleSigning reads which modules the running kernel accepts.
func (s *session) moduleSigning(string) node.Value[node.ModuleSigningState] {
	const (
		enforce  = "/sys/module/module/parameters/sig_enforce"
		disabled = "/proc/sys/kernel/modules_disabled"
	)
	var state node.ModuleSigningState
	if _, err := s.stat(sysModule); err != nil {
		return unknown[node.ModuleSigningState](err, sysModule)
	}
	v, err := s.attribute(enforce)
	if err != nil && !absent(err) { // absent: the kernel cannot check signatures
		return unknown[node.ModuleSigningState](err, enforce)
	}
	state.Enforced = v == "Y" || v == "1"
	state.Lockdown, err = s.lockdown()
	switch {
	case err == nil:
	case !absent(err):
		return unknown[node.ModuleSigningState](err, lockdown)
	default: // absent: no lockdown, or nothing is mounted there
		mounted, err := s.names(security)
		if (err != nil || len(mounted) == 0) && !state.Enforced {
			return node.Unknown[node.ModuleSigningState]("securityfs is not mounted, so that the lockdown mode cannot be told", node.Source{Path: security})
		}
	}
	if state.Lockdown != "" && state.Lockdown != "none" {
		state.Enforced = true
	}
	v, err = s.attribute(disabled)
	if err != nil && !errors.Is(err, unix.ENOENT) { // absent: nothing can be loaded anyhow
		return unknown[node.ModuleSigningState](err, disabled)
	}
	n, _ := strconv.Atoi(v)
	state.ModulesDisabled = n != 0
	return node.Known(state, node.Source{Path: enforce})
}
