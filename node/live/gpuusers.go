package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/lazyregexp"
	"busbar/internal/p2p"
	"busbar/node"
)

const (
	uvmDevice     = "/dev/nvidia-uvm"
	modesetDevice = "/dev/nvidia-modeset"
)

// gpuDevice is the device file of a GPU; its number is the minor number.
var gpuDevice = lazyregexp.New(`^/dev/nvidia([0-9]+)$`)

// lookers look after GPUs and do not work on them, by the names that the kernel has of them, which are
// cut at TASK_COMM_LEN: nvidia-persistenced, nvidia-smi, and DCGM's host engine and exporter.
var lookers = []string{"nvidia-persiste", "nvidia-smi", "nv-hostengine", "dcgm-exporter"}

// gpuUsers looks which processes hold device files of the driver open (proc_pid_fd(5)). The driver is not asked.
func (s *session) gpuUsers(string) node.Value[node.GPUUsage] {
	const processes = "/proc"
	source := node.Source{Path: processes}
	if !s.exists(nvidiaVersion) && !s.exists(nvidiaControl) && s.exists(processes) {
		return node.Known(node.GPUUsage{Unseen: node.Known(0, source)}, source)
	}
	addresses, err := s.gpuMinors()
	if err != nil {
		return unknown[node.GPUUsage](err, nvidiaGPUs)
	}
	names, err := s.names(processes)
	if err != nil {
		return unknown[node.GPUUsage](err, processes)
	}
	usage, uvm, rooted := node.GPUUsage{}, 0, os.Geteuid() == 0
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || s.machine && pid == os.Getpid() {
			continue
		}
		open, err := s.openFiles(pid)
		switch {
		case errors.Is(err, fs.ErrPermission) && !rooted:
			usage.Hidden++
			continue
		case err != nil: // it has ended, or the kernel shields it from root, too
			continue
		}
		user, uses, times := gpuUser(open, addresses)
		uvm += times
		if !uses {
			continue
		}
		user.PID, user.Name = pid, s.processName(pid)
		if !slices.Contains(lookers, user.Name) {
			usage.Users = append(usage.Users, user)
		}
	}
	slices.SortFunc(usage.Users, func(a, b node.GPUUser) int { return a.PID - b.PID })
	usage.Unseen = s.unseenGPUUsers(uvm)
	return node.Known(usage, source)
}

// gpuUser tells by the files that a process holds open which GPUs it uses, whether it uses any, and how often it holds
// unified memory.
func gpuUser(open []string, addresses map[string]string) (u node.GPUUser, uses bool, uvm int) {
	holds, works := false, false
	for _, file := range open {
		switch file {
		case uvmDevice:
			uvm++
			works = true
		case modesetDevice:
			works = true
		}
		if minor := gpuDevice.FindStringSubmatch(file); minor != nil {
			holds = true
			if address, ok := addresses[minor[1]]; ok {
				u.GPUs = append(u.GPUs, address)
			}
		}
	}
	slices.Sort(u.GPUs)
	u.GPUs = slices.Compact(u.GPUs)
	return u, holds && works, uvm
}

// unseenGPUUsers is how often unified memory is open beyond the times that were seen: each time
// holds the module (uvm_fops.owner in kernel-open/nvidia-uvm/uvm.c). A file that several
// processes share is seen more often than it is open.
func (f files) unseenGPUUsers(seen int) node.Value[int] {
	const module = "/sys/module/nvidia_uvm"
	source := node.Source{Path: module + "/refcnt"}
	if _, err := f.stat(module); absent(err) {
		return node.Known(0, source)
	}
	text, err := f.attribute(source.Path)
	if err != nil {
		return node.Unknown[int]("the kernel does not say how often nvidia_uvm is used", source)
	}
	count, err := strconv.Atoi(text)
	if err != nil {
		return node.Unknown[int](fmt.Sprintf("is no number: %.20q", text), source)
	}
	return node.Known(max(count-seen, 0), source)
}

func (f files) processName(pid int) string {
	name, err := f.readBytes("/proc/"+strconv.Itoa(pid)+"/comm", maxAttribute)
	if err != nil {
		return "a process that has ended"
	}
	return strings.ToValidUTF8(strings.TrimSuffix(string(name), "\n"), "?") // whatever prctl(2) was given
}

// openFiles are the paths of what a process holds open.
func (f files) openFiles(pid int) ([]string, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	names, err := f.names(dir)
	if err != nil {
		return nil, err
	}
	var open []string
	for _, name := range names {
		target, err := f.readlink(dir + "/" + name)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, err
		case err == nil: // else it was closed
			open = append(open, target)
		}
	}
	return open, nil
}

// gpuMinors are the GPUs' PCI addresses by minor number.
func (f files) gpuMinors() (map[string]string, error) {
	names, err := f.names(nvidiaGPUs)
	if err != nil && !absent(err) {
		return nil, err
	}
	all := map[string]string{}
	for _, address := range names {
		text, err := f.read(nvidiaGPUs + "/" + address + "/information")
		if err != nil {
			return nil, err
		}
		if minor := node.ParseNVIDIAInformation(text).Minor; minor >= 0 {
			all[strconv.Itoa(minor)] = address
		}
	}
	return all, nil
}

// unmeasured is the answer about copies between GPUs: reading makes none.
func (*session) unmeasured(string) node.Value[p2p.Result] {
	return node.Unknown[p2p.Result]("nothing was copied: busbar verify --probe copies", node.Source{})
}
