package live

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"

	"busbar/internal/mstconfig"
	"busbar/node"
)

// nvConfigTools read the configuration in a NIC's firmware: mstflint's, and that of NVIDIA's MFT.
var nvConfigTools = []string{"mstconfig", "mlxconfig"}

// programDirs are where system programs lie, also for a caller whose PATH lacks them (cloud-init, cron); the last is
// NixOS'.
func programDirs() []string {
	return []string{"/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin", "/run/current-system/sw/bin"}
}

// nvConfigWithout answers where there is no such configuration, or nobody could ask for it.
func nvConfigWithout(f files, address string) (node.Value[node.NVConfigState], bool) {
	v, ok := pciWithout[node.NVConfigState](f, address)
	if ok {
		return v, true
	}
	dir := pciDevices + "/" + address
	source := node.Source{Path: dir + "/vendor"}
	vendor, err := f.attribute(source.Path)
	switch {
	case err != nil:
		return unknown[node.NVConfigState](err, source.Path), true
	case strings.TrimPrefix(vendor, "0x") != node.MellanoxVendor:
		return node.Unsupported[node.NVConfigState]("only NICs of NVIDIA have it", source), true
	case f.exists(dir + "/physfn"):
		return node.Unsupported[node.NVConfigState]("a virtual function has none of its own", node.Source{Path: dir + "/physfn"}), true
	case f.root != "":
		return unknown[node.NVConfigState](errNoAnswers, dir), true
	case os.Geteuid() != 0:
		return node.Unknown[node.NVConfigState]("permission denied: run as root", node.Source{Path: dir + "/config"}), true
	default:
		return v, false
	}
}

// nvConfig asks the tool, which reads the firmware's registers and sets nothing: through the function's configuration space or its
// memory, with a lock file in /tmp/mstflint_lockfiles, or where that fails through the kernel's fwctl. Its -j is not used: it writes
// a file. No parameter is asked for by name, since one that the NIC lacks would spoil the answer.
func (d drivers) nvConfig(address string) node.Value[node.NVConfigState] {
	if err := d.awake(address); err != nil {
		return unknown[node.NVConfigState](err, pciDevices+"/"+address)
	}
	tool, file := d.program(nvConfigTools)
	if file == "" {
		return node.Unknown[node.NVConfigState]("it takes mstconfig (package mstflint) or mlxconfig (NVIDIA's MFT), and neither is installed", node.Source{Call: nvConfigTools[0]})
	}
	device := address
	table, err := query(file, device)
	if err != nil {
		fwctl, why := d.fwctl(address, file)
		if fwctl == "" {
			return node.Unknown[node.NVConfigState](tool+": "+err.Error()+why, nvConfigSource(tool, device))
		}
		device = fwctl
		if table, err = query(file, device); err != nil {
			return node.Unknown[node.NVConfigState](tool+": "+err.Error(), nvConfigSource(tool, device))
		}
	}
	state := node.NVConfigState{Tool: tool, Parameters: table.Parameters, Missing: table.Missing}
	if arrays := table.Arrays(); len(arrays) > 0 {
		elements, err := query(file, device, arrays...)
		for _, array := range arrays {
			if err != nil {
				name, _ := mstconfig.ArrayName(array)
				state.Parameters[name] = mstconfig.Values{Unclear: "its elements could not be read: " + err.Error()}
			}
		}
		maps.Copy(state.Parameters, elements.Parameters)
		if state.Missing == "" {
			state.Missing = elements.Missing
		}
	}
	return node.Known(state, nvConfigSource(tool, device))
}

func nvConfigSource(tool, device string) node.Source {
	return node.Source{Call: tool + " -d " + device + " -e query"}
}

// fwctl is the device through which the kernel hands on what a tool asks a function's firmware (drivers/fwctl, Linux 6.15), also while
// it is locked down. A tool that is given a PCI address does not look for it, and takes its name as a device instead
// (mtcr_parse_name and fwctrl_driver_open in mstflint's mtcr_ul/mtcr_ul_com.c). Before 4.36 it asked for leave to write for each
// read (mtcr_ul/fwctrl.c), which taints the kernel and is refused under lockdown, so that an older one is not given it. Without a device that
// can be used why is what to add to the reason.
func (d drivers) fwctl(address, tool string) (device, why string) {
	names, _ := d.names(fwctlClass) // none without the class
	for _, name := range names {
		if d.linkBase(fwctlClass+"/"+name+"/device") != address {
			continue
		}
		if !readsThroughFWCtl(tool) {
			return "", d.lockedDown() + "; mstflint 4.36 and newer could read through /dev/fwctl/" + name
		}
		return "/dev/fwctl/" + name, ""
	}
	return "", d.lockedDown()
}

const fwctlClass = "/sys/class/fwctl"

// readsThroughFWCtl reports whether a tool is new enough: it says "mstconfig, mstflint 4.36.0, built on ...", or mft.
func readsThroughFWCtl(tool string) bool {
	out, _ := exec.Command(tool, "-v").Output() // no version where it has none
	m := regexp.MustCompile(`, (?:mstflint|mft) ([0-9]{1,4})\.([0-9]{1,4})`).FindStringSubmatch(string(out))
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1]) // digits alone, few enough
	minor, _ := strconv.Atoi(m[2])
	return major > 4 || major == 4 && minor >= 36
}

// program finds the first of some programs, and its file; empty where there is none.
func (d drivers) program(names []string) (name, file string) {
	for _, name := range names {
		for _, dir := range d.programs {
			file := path.Join(dir, name)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return name, file
			}
		}
	}
	return "", ""
}

// query runs the tool. Nobody ends it: killed in the middle it would leave the firmware's semaphore taken. A child that is
// abandoned leaves it behind, to end by itself.
func query(file, address string, parameters ...string) (mstconfig.Table, error) {
	cmd := exec.Command(file, append([]string{"-d", address, "-e", "query"}, parameters...)...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + strings.Join(programDirs(), ":")}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return mstconfig.Table{}, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return mstconfig.Table{}, err
	}
	output, err := io.ReadAll(io.LimitReader(out, maxFile))
	ended := cmd.Wait()
	if err != nil {
		return mstconfig.Table{}, err
	}
	table, err := mstconfig.Parse(string(output))
	if ended == nil {
		return table, err
	}
	var own mstconfig.Error
	switch {
	case err == nil && table.Missing == "":
		table.Missing = ended.Error()
	case errors.As(err, &own):
		err = mstconfig.Error(own.Error() + " (" + ended.Error() + ")")
	}
	return table, err
}

// lockedDown is what to add to the reason of a program that could not reach a device; empty without lockdown.
func (f files) lockedDown() string {
	mode, err := f.lockdown()
	if err != nil || mode == "" || mode == "none" {
		return ""
	}
	return "; the kernel is locked down (" + mode + "), which keeps programs from PCI devices"
}
