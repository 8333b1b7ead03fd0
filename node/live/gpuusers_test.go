package live

import (
	"context"
	"strconv"
	"testing"

	"busbar/node"
)

// processes are those of a tree: a name, and the files that it holds open.
func processes(of map[int][]string) map[string]string {
	files := map[string]string{"proc/self/": "", "proc/version": ""}
	for pid, process := range of {
		dir := "proc/" + strconv.Itoa(pid)
		files[dir+"/comm"], files[dir+"/fd/"] = process[0]+"\n", ""
		for i, target := range process[1:] {
			files[dir+"/fd/"+strconv.Itoa(i)] = "-> " + target
		}
	}
	return files
}

func TestGPUUsers(t *testing.T) {
	const a, b, refcnt = "0000:1b:00.0", "0000:43:00.0", "sys/module/nvidia_uvm/refcnt"
	driver := map[string]string{"proc/driver/nvidia/version": "NVRM version: x\n"}
	twoGPUs := map[string]string{
		"proc/driver/nvidia/version":                    "NVRM version: x\n",
		"proc/driver/nvidia/gpus/" + a + "/information": "Model: \t\t NVIDIA H200\nDevice Minor: \t 0\n",
		"proc/driver/nvidia/gpus/" + b + "/information": "Model: \t\t NVIDIA H200\nDevice Minor: \t 1\n",
	}
	with := func(files map[string]string, more ...string) map[string]string {
		out := map[string]string{more[0]: more[1]}
		for p, text := range files {
			out[p] = text
		}
		return out
	}
	source := node.Source{Path: "/" + refcnt}
	none := node.Known(0, source)
	for _, c := range []struct {
		name      string
		files     map[string]string
		processes map[int][]string
		want      node.GPUUsage
	}{
		{"no driver", nil, map[int][]string{9: {"python3", "/dev/nvidia-uvm", "/dev/nvidia0"}}, node.GPUUsage{Unseen: none}},
		{"nobody", twoGPUs, map[int][]string{1: {"systemd", "/dev/null"}}, node.GPUUsage{Unseen: none}},
		{"CUDA", twoGPUs, map[int][]string{
			19: {"python3", "/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia0", "/dev/nvidiactl", "socket:[1]"},
			7:  {"python3", "/dev/nvidia1", "/dev/nvidia-uvm"},
		}, node.GPUUsage{Users: []node.GPUUser{{PID: 7, Name: "python3", GPUs: []string{b}}, {PID: 19, Name: "python3", GPUs: []string{a, b}}}, Unseen: none}},
		{"X", twoGPUs, map[int][]string{9: {"Xorg", "/dev/nvidia-modeset", "/dev/nvidia0"}}, node.GPUUsage{Users: []node.GPUUser{{PID: 9, Name: "Xorg", GPUs: []string{a}}}, Unseen: none}},
		{"those who watch", twoGPUs, map[int][]string{
			3: {"nvidia-smi", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-uvm"},
			6: {"nv-hostengine", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"},
			4: {"nvidia-persiste", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidia-modeset"},
			5: {"tail", "/dev/nvidia-uvm"},
		}, node.GPUUsage{Unseen: none}},
		{"no GPU directory", driver, map[int][]string{9: {"py\xff", "/dev/nvidia-uvm", "/dev/nvidia3"}}, node.GPUUsage{Users: []node.GPUUser{{PID: 9, Name: "py?"}}, Unseen: none}},
		{"the kernel knows more", with(driver, refcnt, "5\n"), map[int][]string{9: {"python3", "/dev/nvidia-uvm", "/dev/nvidia-uvm", "/dev/nvidia3"}},
			node.GPUUsage{Users: []node.GPUUser{{PID: 9, Name: "python3"}}, Unseen: node.Known(3, source)}},
		{"a shared file", with(driver, refcnt, "1\n"), map[int][]string{9: {"a", "/dev/nvidia-uvm"}, 10: {"b", "/dev/nvidia-uvm"}}, node.GPUUsage{Unseen: none}},
		{"a kernel that does not count", with(driver, "sys/module/nvidia_uvm/coresize", "1\n"), nil,
			node.GPUUsage{Unseen: node.Unknown[int]("the kernel does not say how often nvidia_uvm is used", source)}},
		{"nonsense", with(driver, refcnt, "-\n"), nil, node.GPUUsage{Unseen: node.Unknown[int](`is no number: "-"`, source)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			known(t, ask(t, tree(t, processes(c.processes), c.files), node.GPUUsers, ""), c.want)
		})
	}
	unknownAs(t, ask(t, tree(t), node.GPUUsers, ""), "no such file")
}

func TestGPUUsersHere(t *testing.T) {
	v := node.GPUUsers.Get(New(Options{}).Read(context.Background(), node.Inventory{}, []node.Query{node.GPUUsers.Query("")}), "")
	if usage, ok := v.Get(); !ok || !(files{running: true}).exists(nvidiaVersion) && len(usage.Users) > 0 {
		t.Errorf("%+v, %s", usage, v.Reason())
	}
}
