//go:build linux

package apply

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"busbar/node"
	"busbar/plan"
)

// modprobeDeadline is long for any module that loads at all; a driver that waits for
// its hardware can wait for ever.
const modprobeDeadline = 60 * time.Second

// modprobe loads or unloads a module (modprobe(8)).
func (r *runner) modprobe(a plan.LoadModule, now node.Facts) error {
	args := []string{a.Name}
	if a.Unload {
		args = []string{"-r", a.Name}
	}
	err := r.runProgram(r.within(modprobeDeadline), "modprobe", args...)
	var f *programError
	if !errors.As(err, &f) {
		return err
	}
	if meaning := explainModprobe(a, f.output, now); meaning != "" {
		return fmt.Errorf("%s: %w", meaning, err)
	}
	return err
}

// modprobeMeanings say what modprobe's messages mean. They are kmod's own texts and
// strerror(3) of what init_module(2) and delete_module(2) gave; the first that is in
// the output counts.
var modprobeMeanings = []struct{ message, meaning string }{
	{"Key was rejected by service", signature},
	{"Required key not available", signature},
	{"Operation not permitted", "the kernel takes or gives up no modules: kernel.modules_disabled is 1, lockdown forbids it, or the process lacks CAP_SYS_MODULE"},
	{"Unknown symbol", "it was built against another kernel or, as an RDMA module, against another ib_core than the one that is loaded, or it was given an unknown parameter (the kernel log has which): rebuild it in place"},
	{"Exec format error", "it was built for another kernel: rebuild it for the running one"},
	{"not found", "it is not on disk for the running kernel: install its package, or build it for this kernel"},
	{"is builtin", "it is built into the kernel"},
	{"No such device", "the hardware that it drives is not there"},
	{"Cannot allocate memory", "the kernel has no memory for it"},
}

const signature = "the module's signature is not one that this kernel accepts (Secure Boot or lockdown): enrol the key that signed it (mokutil --import), or install signed modules"

// peerMemory are modules that register with ib_core as peer-memory clients.
var peerMemory = map[string]bool{"nvidia_peermem": true, "nv_peer_mem": true}

// explainModprobe says in words why modprobe failed, or is empty.
func explainModprobe(a plan.LoadModule, output string, now node.Facts) string {
	module, _ := node.Module.Get(now, a.Name).Get()
	switch {
	case strings.Contains(output, "in use"):
		return held(a.Name, output, module)
	case peerMemory[a.Name] && strings.Contains(output, "Invalid argument"):
		return "the driver was built without peer-memory symbols, because the RDMA stack was not there, or (if the kernel log has " +
			`"disagrees about version of symbol") against another ib_core: install the RDMA stack first and rebuild the driver, or use dma-buf`
	case peerMemory[a.Name] && (strings.Contains(output, "File exists") || strings.Contains(output, "resource busy")):
		return "another peer-memory client has its name: unload the other one of nv_peer_mem and nvidia_peermem"
	}
	for _, m := range modprobeMeanings {
		if strings.Contains(output, m.message) {
			return m.meaning
		}
	}
	return ""
}

// held names what uses a module that cannot be unloaded: as modprobe has it ("is in
// use by: a b"), else as the kernel does.
func held(name, output string, module node.ModuleState) string {
	if _, by, ok := strings.Cut(output, "in use by:"); ok {
		by, _, _ = strings.Cut(by, "\n")
		return name + " is held by " + strings.Join(strings.Fields(by), ", ")
	}
	if len(module.Holders) > 0 {
		return name + " is held by " + strings.Join(module.Holders, ", ")
	}
	if module.RefCount > 0 {
		return fmt.Sprintf("%s is held by %d users that are no modules (open devices, registered memory)", name, module.RefCount)
	}
	return name + " is in use"
}
