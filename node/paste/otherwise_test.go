package paste

import (
	"fmt"
	"strings"
	"testing"

	"busbar/node"
)

// nvlinkText is nvlink -s of a GPU with so many active links of 18.
func nvlinkText(active int, prefix string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a1b2c3d-1111-2222-3333-444455556666)\n", prefix)
	for i := range 18 {
		if i < active {
			fmt.Fprintf(&b, "%s\t Link %d: 26.562 GB/s\n", prefix, i)
		} else {
			fmt.Fprintf(&b, "%s\t Link %d: <inactive>\n", prefix, i)
		}
	}
	return b.String()
}

// Texts of two nodes, or of two times, contradict each other; the same text again, and another text of the same thing, do not.
func TestOtherwise(t *testing.T) {
	matrix := func(links, nic string) string {
		return "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t" + links + "\t" + nic + "\t0-55\t0\t\tN/A\nGPU1\t" + links + "\t X \tSYS\t0-55\t0\t\tN/A\nNIC0\t" + nic + "\tSYS\t X \n"
	}
	ibstat := func(state string) string {
		return "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: " + state + "\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: Ethernet\n"
	}
	ulimit := func(locked string) string {
		return "$ ulimit -a\ncore file size          (blocks, -c) 0\nmax locked memory       (kbytes, -l) " + locked + "\nopen files                      (-n) 1048576\n"
	}
	lspci := func(width, control string) string {
		return "1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n\tLnkSta:\tSpeed 32GT/s, Width " + width + "\n" +
			"15:01.0 PCI bridge [0604]: Broadcom / LSI PEX890xx [1000:c030]\n\tACSCap:\tSrcValid+ ReqRedir+\n\tACSCtl:\tSrcValid" + control + " ReqRedir" + control + "\n"
	}
	list := func(uuid string) string {
		return "GPU 0: NVIDIA L40S (UUID: GPU-5a1b2c3d-1111-2222-3333-44445555666" + uuid + ")\n"
	}
	for name, tt := range map[string]struct{ first, second, want string }{
		"NVLinks":             {nvlinkText(18, ""), nvlinkText(17, ""), "NVLinks of GPU0 than a:1"},
		"NVLinks, the better": {nvlinkText(17, ""), nvlinkText(18, ""), "NVLinks of GPU0 than a:1"},
		"NVLinks again":       {nvlinkText(18, ""), nvlinkText(18, ""), ""},
		"a matrix of fewer":   {nvlinkText(18, ""), matrix("NV17", "PIX"), "NVLinks of GPU0 than a:1"},
		"a matrix of as many": {nvlinkText(18, ""), matrix("NV18", "PIX"), ""},
		"relations":           {matrix("NV18", "PIX"), matrix("NV18", "NODE"), "how far GPU0 is from NIC0 than a:"},
		"ibstat":              {ibstat("Active"), ibstat("Down"), "State of mlx5_0 than a:"},
		"ulimit":              {ulimit("unlimited"), ulimit("64"), "limits the shell than a:3"},
		"the lanes":           {lspci("x16", "-"), lspci("x8", "-"), "Current of 0000:1b:00.0 than a:2"},
		"ACS":                 {lspci("x16", "-"), lspci("x16", "+"), "ACS of 0000:15:01.0 than a:"},
		"lspci again":         {lspci("x16", "-"), lspci("x16", "-"), ""},
		"sysctl":              {"kernel.numa_balancing = 0\nvm.zone_reclaim_mode = 0\n", "kernel.numa_balancing = 1\nvm.zone_reclaim_mode = 0\n", "sysctl kernel.numa_balancing than a:1"},
		"another GPU":         {list("0"), list("1"), "which device GPU0 is than a:1"},
	} {
		_, inputs := pasted(t, [2]string{"a", tt.first}, [2]string{"b", tt.second})
		for _, in := range inputs {
			switch says := in.Doubt; {
			case in.File == "a" && strings.Contains(says, "otherwise"), tt.want == "" && says != "":
				t.Errorf("%s: %s is in doubt: %s", name, in.File, says)
			case in.File == "b" && in.Kind != "" && !strings.Contains(says, tt.want):
				t.Errorf("%s: the doubt is %q, want %q", name, says, tt.want)
			}
		}
	}
}

// Two machines in one text, by the prefixes of pdsh, Ansible's headings and prompts, and one behind
// the other.
func TestOtherwiseInOneText(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"pdsh":                     {nvlinkText(18, "gpu-a01: ") + nvlinkText(17, "gpu-a02: "), true},
		"pdsh, both the same":      {nvlinkText(18, "gpu-a01: ") + nvlinkText(18, "gpu-a02: "), false},
		"Ansible":                  {"gpu-a01 | CHANGED | rc=0 >>\n" + nvlinkText(18, "") + "gpu-a02 | CHANGED | rc=0 >>\n" + nvlinkText(17, ""), true},
		"prompts":                  {"root@gpu-a01:~# nvidia-smi nvlink -s\n" + nvlinkText(18, "") + "root@gpu-a02:~# nvidia-smi nvlink -s\n" + nvlinkText(17, ""), true},
		"one behind the other":     {nvlinkText(18, "") + nvlinkText(17, ""), true},
		"lines of a file of rules": {"==> /etc/modprobe.d/x.conf <==\noptions nvidia NVreg_EnableStreamMemOPs=1\noptions nvidia NVreg_EnableStreamMemOPs=0\n", false},
	} {
		_, inputs := pasted(t, [2]string{"a", tt.text})
		doubt := false
		for _, in := range inputs {
			doubt = doubt || strings.Contains(in.Doubt, "otherwise")
		}
		if doubt != tt.want {
			t.Errorf("%s: a contradiction is %v, want %v: %+v", name, doubt, tt.want, inputs)
		}
	}
}

// What head cut off, or shows fewer GPUs than there are, is in doubt, and the links of its last GPU are not counted.
func TestCutOff(t *testing.T) {
	cut := strings.Join(strings.SplitAfter(nvlinkText(18, ""), "\n")[:4], "")
	f, inputs := pasted(t, [2]string{"a", "$ nvidia-smi nvlink -s | head -4\n" + cut})
	if v := node.NVLinks.Get(f, "GPU0"); v.IsKnown() || inputs[0].Doubt == "" {
		t.Errorf("links %v, inputs %+v", v, inputs)
	}
	_, inputs = pasted(t, [2]string{"a", "==============NVSMI LOG==============\n\nDriver Version                            : 550.54.15\nAttached GPUs                             : 8\nGPU 00000000:1B:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n"})
	if inputs[0].Doubt != "8 GPUs are attached and 1 shown: it is cut off" {
		t.Errorf("inputs %+v", inputs)
	}
}
