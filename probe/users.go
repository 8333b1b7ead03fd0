package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"busbar/node"
)

// User is a process that uses GPUs.
type User struct {
	PID int
	// Name is the process' comm, 15 bytes at most.
	Name string
	// GPUs are their PCI addresses, sorted; none where the driver does not say which ones.
	GPUs []string
}

// String names the process and its GPUs.
func (u User) String() string {
	s := fmt.Sprintf("%s (process %d)", u.Name, u.PID)
	if len(u.GPUs) > 0 {
		s += " on " + strings.Join(u.GPUs, ", ")
	}
	return s
}

// Uses reports whether the process uses one of the GPUs at these addresses, any one where there are none.
func (u User) Uses(gpus []string) bool {
	return len(gpus) == 0 || len(u.GPUs) == 0 || slices.ContainsFunc(gpus, func(address string) bool { return slices.Contains(u.GPUs, address) })
}

// Loaded reports whether the NVIDIA driver is loaded.
func Loaded() bool { return machine("/").loaded() }

// Usage is who uses the GPUs.
type Usage struct {
	// Users are processes that compute or draw on GPUs, by process id: those that hold a GPU's device file
	// open and, besides, that of unified memory, which CUDA opens when it starts, or of mode setting.
	// Programs that only look after GPUs do not count, though nvidia-smi of driver 580 opens both.
	Users []User
	// Unseen is how often unified memory is open besides, by processes that cannot be looked into, or of other
	// PID namespaces. It is unknown where the kernel does not count users of modules.
	Unseen node.Value[int]
	// Hidden is how many processes could not be looked into, for want of rights.
	Hidden int
}

// Look reads who uses the GPUs.
func Look() (Usage, error) { return machine("/").usage() }

// machine is the root directory of the running system.
type machine string

func (m machine) path(elements ...string) string {
	return filepath.Join(append([]string{string(m)}, elements...)...)
}

func (m machine) loaded() bool {
	for _, file := range []string{"proc/driver/nvidia/version", "dev/nvidiactl"} {
		if _, err := os.Stat(m.path(file)); err == nil {
			return true
		}
	}
	return false
}

const uvmDevice = "/dev/nvidia-uvm"

// gpuDevice is the device file of a GPU; its number is the minor number.
var gpuDevice = regexp.MustCompile(`^/dev/nvidia([0-9]+)$`)

func (m machine) usage() (Usage, error) {
	u := Usage{}
	addresses, err := m.addresses()
	if err != nil {
		return u, err
	}
	entries, err := os.ReadDir(m.path("proc"))
	if err != nil {
		return u, err
	}
	uvm := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		open, err := m.openFiles(pid)
		switch {
		case errors.Is(err, fs.ErrPermission):
			u.Hidden++
			continue
		case err != nil: // it has ended
			continue
		}
		var gpus []string
		holds, works := false, slices.Contains(open, "/dev/nvidia-modeset")
		for _, file := range open {
			if file == uvmDevice {
				uvm++
				works = true
			}
			if minor := gpuDevice.FindStringSubmatch(file); minor != nil {
				holds = true
				if address, ok := addresses[minor[1]]; ok {
					gpus = append(gpus, address)
				}
			}
		}
		name := m.name(pid)
		if !holds || !works || slices.Contains(lookers, name) {
			continue
		}
		slices.Sort(gpus)
		u.Users = append(u.Users, User{PID: pid, Name: name, GPUs: slices.Compact(gpus)})
	}
	slices.SortFunc(u.Users, func(a, b User) int { return a.PID - b.PID })
	u.Unseen = m.unseen(uvm)
	return u, nil
}

// unseen is how often unified memory is open beyond the times that were seen: each time
// holds the module (uvm_fops.owner in kernel-open/nvidia-uvm/uvm.c). A file that several
// processes share is seen more often than it is open.
func (m machine) unseen(seen int) node.Value[int] {
	const module = "/sys/module/nvidia_uvm"
	source := node.Source{Path: module + "/refcnt"}
	if _, err := os.Stat(m.path(module)); errors.Is(err, fs.ErrNotExist) {
		return node.Known(0, source)
	}
	raw, err := os.ReadFile(m.path(source.Path))
	if err != nil {
		return node.Unknown[int]("the kernel does not say how often nvidia_uvm is used", source)
	}
	count, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return node.Unknown[int](fmt.Sprintf("is no number: %.20q", raw), source)
	}
	return node.Known(max(count-seen, 0), source)
}

// lookers look after GPUs and do not work on them, by the names that the kernel has of them, which are
// cut at TASK_COMM_LEN: nvidia-persistenced, nvidia-smi, and DCGM's host engine and exporter.
var lookers = []string{"nvidia-persiste", "nvidia-smi", "nv-hostengine", "dcgm-exporter"}

func (m machine) name(pid int) string {
	raw, err := os.ReadFile(m.path("proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return "a process that has ended"
	}
	return strings.TrimSuffix(string(raw), "\n")
}

// openFiles are the paths of what a process holds open.
func (m machine) openFiles(pid int) ([]string, error) {
	dir := m.path("proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var open []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, err
		case err == nil: // else it was closed
			open = append(open, target)
		}
	}
	return open, nil
}

// addresses are the GPUs' PCI addresses by minor number.
func (m machine) addresses() (map[string]string, error) {
	files, err := filepath.Glob(m.path("proc/driver/nvidia/gpus/*/information"))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if minor, address, ok := parseInformation(string(raw)); ok {
			all[minor] = address
		}
	}
	return all, nil
}

// parseInformation reads a GPU's minor number and PCI address out of its information file
// (nv_procfs_read_gpu_info of kernel-open/nvidia/nv-procfs.c); false where it has not both.
func parseInformation(text string) (minor, address string, ok bool) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "Device Minor":
			minor = value
		case "Bus Location":
			address = value
		}
	}
	_, err := strconv.ParseUint(minor, 10, 32)
	return minor, address, err == nil && node.IsPCIAddress(address)
}
