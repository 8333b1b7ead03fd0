package paste

import (
	"strings"

	"busbar/node"
)

// What nvidia-smi says in place of what it was asked for, and NVIDIA's container tools in its place: that NVML does not start
// (nvmlErrorString of nvml.h), that there is no GPU, or that it lost one.
var (
	smiFailure  = expression(`(?i)\b(?:Failed to initialize NVML: |nvidia-container-cli: initialization error: nvml error: )([A-Za-z][\w /-]{2,60}?)(?:: unknown)?\.?$`)
	smiNoDriver = expression(`^NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver\b`)
	smiNoFile   = expression(`^NVIDIA-SMI couldn't find libnvidia-ml\.so library in your system\b|could not load NVML library: libnvidia-ml\.so|nvidia-container-cli: initialization error: load library failed: libnvidia-ml\.so`)
	smiNone     = expression(`^No devices were found\.?$`)
	smiLost     = expression(`(?i)^Unable to determine the device handle for gpu ?(?:(\d{1,3}): ?)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): ([A-Za-z].{2,60}?)\.?(?: +Reboot.*)?$`)
	smiMore     = expression(`^(?:NVML library version: ([\d.]+)|Make sure that the latest NVIDIA driver is installed and running\.|Please (?:also )?(?:make sure|try) .*|Reboot the system to recover this GPU)$`)
)

// failure is the fault that a line tells of NVML, by smiFailure and its like; empty for another line.
func failure(line string) string {
	m := smiFailure.FindStringSubmatch(line)
	switch {
	case m == nil && smiNoDriver.MatchString(line):
		return node.NVMLDriverNotLoaded
	case m == nil && smiNoFile.MatchString(line):
		return node.NVMLNoLibrary
	case m == nil && smiNone.MatchString(line):
		return node.NVMLNoDevices
	case m == nil:
		return ""
	}
	for _, known := range []string{node.NVMLDriverNotLoaded, node.NVMLMismatch, node.NVMLUnknown, node.NVMLNoPermission} {
		if strings.EqualFold(m[1], known) {
			return known
		}
	}
	return m[1]
}

// failing reports a line that may be one of these, without looking closely.
func failing(line string) bool {
	return len(line) < 1000 && (strings.Contains(line, "NVML") || strings.Contains(line, "NVIDIA-SMI") || strings.Contains(line, "evice") || strings.Contains(line, "nvidia-container-cli"))
}

var smiFailsKind = kind{
	name: "nvidia-smi, which failed",
	scan: func(p piece) match {
		first := p.lines[0]
		other := p.command != "" && smiNone.MatchString(first) && !p.typed("nvidia-smi")
		if !failing(first) || other || failure(first) == "" && !smiLost.MatchString(first) {
			return match{}
		}
		// The sentence is one sign, that it is all of a line another.
		return match{while(p.lines, func(line string) bool {
			return failing(line) && (failure(line) != "" || smiLost.MatchString(line)) || smiMore.MatchString(line)
		}), 2}
	},
	read: func(d *draft, s section) string {
		state := node.NVMLState{}
		var told node.Source
		for i, line := range s.lines {
			if m := smiLost.FindStringSubmatch(line); m != nil {
				d.lost(m, s.source(i))
				continue
			}
			if m := smiMore.FindStringSubmatch(line); m != nil && m[1] != "" {
				state.Version = "." + m[1] // without the number of CUDA's version before it
			}
			if fault := failure(line); fault != "" && state.Fault == "" {
				state.Fault, told = fault, s.source(i)
			}
		}
		if state.Fault != "" {
			say(d, node.NVML, "", node.Known(state, told))
		}
		return ""
	},
}

// lost notes a GPU that NVML cannot use: its number if it was said, its address, and why.
func (d *draft) lost(m []string, source node.Source) {
	x := d.device("gpu", pciName+pciAddress(m[2]))
	if m[1] != "" {
		x = d.same("gpu", pciName+pciAddress(m[2]), gpuIndex+m[1])
	}
	x.fault(m[3], source)
}

// fault is why a GPU cannot be used.
func (x *device) fault(why string, source node.Source) {
	if x.gpu.Fault == "" {
		x.gpu.Fault, x.source = why, source
	}
}
