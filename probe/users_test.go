package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// information is a GPU's file, as nv_procfs_read_gpu_info prints it.
func information(address string, minor int) string {
	return "Model: \t\t NVIDIA H200\nIRQ:   \t\t 24\nGPU UUID: \t GPU-00000000-0000-0000-0000-000000000001\nVideo BIOS: \t 96.00.a5.00.1a\n" +
		"Bus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t " + address + "\nDevice Minor: \t " + strconv.Itoa(minor) +
		"\nGPU Firmware: \t 580.159.04\nGPU Excluded:\t No\n"
}

// tree makes a machine. A process has a name, and the files that it holds open.
func tree(t *testing.T, files map[string]string, processes map[int][]string) machine {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/self-test", "")
	for name, text := range files {
		write(name, text)
	}
	for pid, process := range processes {
		dir := "proc/" + strconv.Itoa(pid)
		write(dir+"/comm", process[0]+"\n")
		if err := os.MkdirAll(filepath.Join(root, dir, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		for i, target := range process[1:] {
			if err := os.Symlink(target, filepath.Join(root, dir, "fd", strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return machine(root)
}

var twoGPUs = map[string]string{
	"proc/driver/nvidia/gpus/0000:00:06.0/information": information("0000:00:06.0", 0),
	"proc/driver/nvidia/gpus/0000:00:07.0/information": information("0000:00:07.0", 1),
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name      string
		files     map[string]string
		processes map[int][]string
		users     []User
		unseen    int // -1: unknown
	}{
		{"nobody", twoGPUs, map[int][]string{1: {"systemd", "/dev/null"}}, nil, 0},
		{"CUDA", twoGPUs, map[int][]string{
			9: {"python3", "/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia0", "/dev/nvidiactl", "socket:[1]"},
			7: {"python3", "/dev/nvidia1", "/dev/nvidia-uvm"},
		}, []User{{7, "python3", []string{"0000:00:07.0"}}, {9, "python3", []string{"0000:00:06.0", "0000:00:07.0"}}}, 0},
		{"X", twoGPUs, map[int][]string{9: {"Xorg", "/dev/nvidia-modeset", "/dev/nvidia0"}}, []User{{9, "Xorg", []string{"0000:00:06.0"}}}, 0},
		{"those who watch", twoGPUs, map[int][]string{
			3: {"nvidia-smi", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-uvm"},
			6: {"nv-hostengine", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"},
			4: {"nvidia-persiste", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidia-modeset"},
			5: {"tail", "/dev/nvidia-uvm"},
		}, nil, 0},
		{"no GPU directory", nil, map[int][]string{9: {"python3", "/dev/nvidia-uvm", "/dev/nvidia3"}}, []User{{9, "python3", nil}}, 0},
		{"the kernel knows more", map[string]string{"sys/module/nvidia_uvm/refcnt": "5\n"}, map[int][]string{9: {"python3", "/dev/nvidia-uvm", "/dev/nvidia-uvm", "/dev/nvidia3"}}, []User{{9, "python3", nil}}, 3},
		{"a shared file", map[string]string{"sys/module/nvidia_uvm/refcnt": "1\n"}, map[int][]string{9: {"a", "/dev/nvidia-uvm"}, 10: {"b", "/dev/nvidia-uvm"}}, nil, 0},
		{"a kernel that does not count", map[string]string{"sys/module/nvidia_uvm/coresize": "1\n"}, nil, nil, -1},
		{"nonsense", map[string]string{"sys/module/nvidia_uvm/refcnt": "-\n"}, nil, nil, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := tree(t, c.files, c.processes).usage()
			if err != nil || u.Hidden != 0 {
				t.Fatal(err, u.Hidden)
			}
			if diff := cmp.Diff(c.users, u.Users); diff != "" {
				t.Error(diff)
			}
			if n, known := u.Unseen.Get(); known != (c.unseen >= 0) || known && n != c.unseen {
				t.Errorf("unseen %d, %s", n, u.Unseen.Reason())
			}
		})
	}
}

func TestUsageHere(t *testing.T) {
	u, err := Look()
	if err != nil {
		t.Fatal(err)
	}
	if !Loaded() && len(u.Users) > 0 {
		t.Errorf("%v without a driver", u.Users)
	}
}

func TestLoaded(t *testing.T) {
	for _, c := range []struct {
		file string
		want bool
	}{{"proc/driver/nvidia/version", true}, {"dev/nvidiactl", true}, {"dev/null", false}} {
		if got := tree(t, map[string]string{c.file: ""}, nil).loaded(); got != c.want {
			t.Errorf("%s: %t", c.file, got)
		}
	}
}

func TestUses(t *testing.T) {
	u := User{PID: 7, Name: "python3", GPUs: []string{"0000:00:06.0"}}
	if !u.Uses(nil) || !u.Uses([]string{"0000:00:07.0", "0000:00:06.0"}) || u.Uses([]string{"0000:00:07.0"}) || !(User{}).Uses([]string{"0000:00:07.0"}) {
		t.Error("wrong")
	}
	if got := u.String(); got != "python3 (process 7) on 0000:00:06.0" {
		t.Error(got)
	}
}

func FuzzInformation(f *testing.F) {
	for _, seed := range []string{information("0000:00:06.0", 0), "", "Device Minor", "Device Minor: \t 1\n", "Bus Location: \t 0000:00:06.0\nDevice Minor: \t -1\n", "Bus Location: x\nDevice Minor: 1\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		minor, address, ok := parseInformation(text)
		if _, err := strconv.ParseUint(minor, 10, 32); ok && (err != nil || len(address) < len("0000:00:00.0")) {
			t.Errorf("%q: %q, %q", text, minor, address)
		}
	})
}
