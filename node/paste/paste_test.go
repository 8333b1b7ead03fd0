package paste

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/pciregs"
	"busbar/node"
)

// pasted are the facts and inputs of texts by their names.
func pasted(t *testing.T, texts ...[2]string) (node.Facts, []Input) {
	t.Helper()
	var p Paste
	for _, x := range texts {
		if err := p.Add(x[0], "", strings.NewReader(x[1])); err != nil {
			t.Fatal(err)
		}
	}
	inv := p.Reader().Inventory(t.Context())
	return p.Reader().Read(t.Context(), inv, nil), p.Inputs()
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// kindsOf are the kinds of inputs, ? for what is not known.
func kindsOf(inputs []Input) []string {
	var names []string
	for _, in := range inputs {
		if in.Kind == "" {
			in.Kind = "?"
		}
		names = append(names, in.Kind)
	}
	return names
}

func known1[T any](t *testing.T, what string, v node.Value[T], want T) {
	t.Helper()
	got, ok := v.Get()
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("%s: known %v (%s), -want +got:\n%s", what, ok, v.Reason(), diff)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                             "plain",
		"\t\x1b[4mGPU0\tGPU1\x1b[0m":        "\tGPU0\tGPU1",
		"crlf\r":                            "crlf",
		"\ufeffbom":                         "bom",
		"a\u00a0b  \t":                      "a b",
		"\x1b]0;title\x07$ ls":              "$ ls",
		"\x1b[38;5;12mblue\x1b":             "blue",
		"back\x08space":                     "backspace",
		"\x1b[":                             "",
		"ends in half a character \xe2\x80": "ends in half a character \xe2\x80",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestBare(t *testing.T) {
	for in, want := range map[string]string{
		"GPU0\t X \tNV18":                                           "GPU0\t X \tNV18",
		"[1,0]<stdout>:GPU0\t X ":                                   "GPU0\t X ",
		"3: NCCL_DEBUG=INFO":                                        "NCCL_DEBUG=INFO",
		"gpu07: mlx5_0":                                             "mlx5_0",
		"> kernel.numa_balancing = 1":                               "kernel.numa_balancing = 1",
		"> > quoted twice":                                          "quoted twice",
		"2026-02-03T10:00:00.123Z nvidia 1 2":                       "nvidia 1 2",
		"[2026-02-03 10:00:00] x":                                   "x",
		"Feb  3 10:00:00 gpu07 nv-fabricmanager[123]: hello":        "hello",
		"2026-02-03T10:00:00+01:00 gpu07 kernel: NVRM: x":           "NVRM: x",
		"2026-02-03T10:00:00.1Z stdout F NCCL_DEBUG=INFO":           "NCCL_DEBUG=INFO",
		"01:00.0 3D controller: NVIDIA Corporation":                 "01:00.0 3D controller: NVIDIA Corporation",
		"mlx5_0/ports/1/gids/0: fe80:0000:0000:0000:0000:00ff:0:02": "mlx5_0/ports/1/gids/0: fe80:0000:0000:0000:0000:00ff:0:02",
	} {
		if got := bare(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestCommand(t *testing.T) {
	for in, want := range map[string]string{
		"root@gpu07:~# nvidia-smi topo -m":     "nvidia-smi topo -m",
		"user@gpu07:/tmp/x$ sudo lspci -vvv":   "lspci -vvv",
		"[root@gpu07 ~]# cat /etc/nccl.conf":   "cat /etc/nccl.conf",
		"$ lsmod | grep peermem":               "lsmod | grep peermem",
		"# lspci -nn":                          "lspci -nn",
		"# a comment":                          "",
		"# NCCL_DEBUG=INFO":                    "",
		"GRUB_CMDLINE_LINUX=\"$GRUB_X quiet\"": "",
		"plain text":                           "",
	} {
		if got := command(in); got != want {
			t.Errorf("%q is command %q, want %q", in, got, want)
		}
	}
}

func TestPlaced(t *testing.T) {
	for in, want := range map[string]string{
		"/tmp/case/etc/nccl.conf":                  "/etc/nccl.conf",
		"case/proc/cmdline":                        "/proc/cmdline",
		"/etc/default/grub":                        "/etc/default/grub",
		"nccl.conf":                                "",
		"x/mlx5_0/ports/1/state":                   "/sys/class/infiniband/mlx5_0/ports/1/state",
		"sos/usr/lib/modprobe.d/nvidia.conf":       "/usr/lib/modprobe.d/nvidia.conf",
		"sos/sys/class/infiniband/mlx5_0/hca_type": "/sys/class/infiniband/mlx5_0/hca_type",
	} {
		if got := Placed(in); got != want {
			t.Errorf("%s stands at %q, want %q", in, got, want)
		}
	}
}

// What assigns to NCCL's variables is nccl.conf only where nothing says otherwise.
func TestNCCLConf(t *testing.T) {
	const conf = "NCCL_DEBUG=INFO\nNCCL_IB_TIMEOUT=22\n"
	for name, tt := range map[string]struct {
		file, text string
		want       []string
	}{
		"file":                       {"x", conf, []string{"nccl.conf"}},
		"export, and nothing else":   {"x", "export NCCL_DEBUG=INFO\nexport NCCL_SOCKET_IFNAME=eth0\n", []string{"nccl.conf"}},
		"export, printed":            {"x", "hello\n$ cat nccl.conf\nexport NCCL_DEBUG=INFO\n$ date\n", []string{"?", "nccl.conf"}},
		"export at its place":        {"sos/etc/nccl.conf", "export NCCL_DEBUG=INFO\nmpirun\n", []string{"nccl.conf"}},
		"blanks around =":            {"x", "NCCL_DEBUG = INFO\nNCCL_IB_GID_INDEX = 3\n", []string{"nccl.conf"}},
		"comment behind a value":     {"x", "NCCL_IB_GID_INDEX=3 # RoCE v2\n", []string{"nccl.conf"}},
		"blanks in a list":           {"x", "NCCL_IB_HCA=mlx5_0, mlx5_1\n", []string{"nccl.conf"}},
		"quoted":                     {"x", "NCCL_DEBUG_SUBSYS=\"INIT NET\"\n", []string{"nccl.conf"}},
		"script":                     {"x", "#!/bin/bash\n\n\n\n# of the job\nexport NCCL_DEBUG=INFO\nNCCL_IB_TIMEOUT=\"22\"\nmpirun ./all_reduce_perf\n", []string{"shell script"}},
		"script of env":              {"x", "#!/usr/bin/env bash\nNCCL_IB_TIMEOUT=\"22\"\n", []string{"shell script"}},
		"script in Markdown":         {"x", "```\n#!/bin/sh\nNCCL_IB_TIMEOUT=\"22\"\n```\n\n" + conf, []string{"shell script", "nccl.conf"}},
		"script of Python":           {"x", "#!/usr/bin/python3\n", []string{"?"}},
		"commands of a shell":        {"x", "export NCCL_DEBUG=\"INFO\"\nmpirun ./all_reduce_perf\n", []string{"?"}},
		"command":                    {"x", "NCCL_DEBUG=INFO mpirun -np 8 ./all_reduce_perf\n", []string{"?"}},
		"command that goes on":       {"x", "NCCL_DEBUG=INFO \\\n  ./all_reduce_perf\n", []string{"?"}},
		"sentence":                   {"x", "NCCL_DEBUG=ABORT for all jobs.\n", []string{"?"}},
		"HCL":                        {"x", "nccl {\n  settings = {\n    NCCL_IB_TIMEOUT = 22\n    NCCL_IB_TC  = 104\n  }\n}\n", []string{"?"}},
		"another file of the node's": {"sos/etc/environment", conf, []string{"?"}},
	} {
		if _, inputs := pasted(t, [2]string{tt.file, tt.text}); !cmp.Equal(tt.want, kindsOf(inputs)) {
			t.Errorf("%s: it is %v, want %v", name, kindsOf(inputs), tt.want)
		}
	}
}

// A mixed paste: Markdown, prompts, quotes, words of people around it.
func TestMixed(t *testing.T) {
	f, inputs := pasted(t, [2]string{"mixed.md", testdata(t, "mixed.md")})
	want := []string{"?", "nvidia-smi -L", "nvidia-smi nvlink -s", "nccl.conf", "kernel command line", "a program that is not there", "lsmod", "?", "sysctl", "?"}
	if diff := cmp.Diff(want, kindsOf(inputs)); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	gpus, _ := f.Inventory.GPUs().Get()
	if len(gpus) != 2 || gpus[0].Address != "GPU0" || gpus[0].PCIID != "10de:20b2" {
		t.Errorf("GPUs are %v", gpus)
	}
	links, _ := node.NVLinks.Get(f, "GPU0").Get()
	known1(t, "active links of GPU0", links.Active(), 11)
	if node.NVLinks.Get(f, "GPU1").IsKnown() {
		t.Error("links of GPU1 are known, and nobody said them")
	}
	known1(t, "numa balancing", node.Sysctl.Get(f, "kernel.numa_balancing"), "1")
	nccl, _ := node.File.Get(f, "/etc/nccl.conf").Get()
	if want := "NCCL_IB_GID_INDEX=\"3\"\nNCCL_SOCKET_IFNAME=eth0\n"; nccl.Text != want {
		t.Errorf("nccl.conf is %q", nccl.Text)
	}
	module, ok := node.Module.Get(f, "nvidia_peermem").Get()
	if !ok || !module.Loaded {
		t.Errorf("nvidia_peermem: %v, known %v", module, ok)
	}
	if node.Module.Get(f, "nouveau").IsKnown() {
		t.Error("whether nouveau is loaded is known from what grep let through")
	}
	if f.Inventory.Partial == "" || f.Inventory.Protected.IsKnown() || f.Inventory.Virtualization.IsKnown() {
		t.Error("something is known that nobody said")
	}
}

// The same text as terminals, editors and loggers spoil it says the same.
func TestSpoilt(t *testing.T) {
	text := testdata(t, "topo-4gpu-fabric.txt")
	spoilt := map[string]string{
		"plain":      text,
		"crlf":       strings.ReplaceAll(text, "\n", "\r\n"),
		"ansi":       strings.Replace(text, "GPU0\tGPU1", "\x1b[4mGPU0\tGPU1", 1),
		"blanks":     strings.ReplaceAll(text, "\t", "      "),
		"fence":      "Look:\n```\n" + text + "```\nwhy?\n",
		"quoted":     prefixed(text, "> "),
		"mpirun":     prefixed(text, "[1,3]<stdout>:"),
		"prterun":    prefixed(text, "[prterun-gpu07-4711@1,3]<stdout>: "),
		"torchrun":   prefixed(text, "[default3]:"),
		"srun":       prefixed(text, "12: "),
		"kubectl":    prefixed(text, "2026-02-03T10:00:00.000000001Z stdout F "),
		"no newline": strings.TrimSuffix(text, "\n"),
	}
	for name, spoilt := range spoilt {
		f, inputs := pasted(t, [2]string{name, spoilt})
		known := 0
		for _, in := range inputs {
			if in.Kind == "nvidia-smi topo -m" && in.Doubt == "" {
				known++
			}
		}
		tree := f.Inventory.Topology()
		near, _ := tree.Relation("GPU2", "mlx5_2").Get()
		far, _ := tree.Relation("GPU2", "mlx5_0").Get()
		links, _ := node.NVLinks.Get(f, "GPU3").Get()
		active, _ := links.Active().Get()
		if known != 1 || near != node.PIX || far != node.SYS || active != 18 {
			t.Errorf("%s: inputs %v, GPU2 is at %v and %v from NICs, GPU3 has %d links", name, inputs, near, far, active)
		}
	}
}

func prefixed(text, prefix string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, l := range lines {
		if strings.TrimSpace(l) != "" {
			lines[i] = prefix + l
		}
	}
	return strings.Join(lines, "")
}

// A matrix without NV# says that there is no NVLink where the command is known to show those there are: -mp has the same legend.
func TestMatrixWithoutLinks(t *testing.T) {
	const (
		matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-1\nGPU1\tSYS\t X \t0-1\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
		h200   = "GPU 0: NVIDIA H200 (UUID: GPU-0c0c0c0c-0000-0000-0000-00000000000c)\n"
		l40s   = "GPU 0: NVIDIA L40S (UUID: GPU-0c0c0c0c-0000-0000-0000-00000000000c)\n"
		mig    = "index, mig.mode.current\n0, Enabled\n"
	)
	for name, c := range map[string]struct {
		texts        []string
		known, given bool
	}{
		"-m":                              {[]string{"$ nvidia-smi topo -m\n" + matrix}, true, true},
		"--matrix":                        {[]string{"# nvidia-smi topo --matrix\n" + matrix}, true, true},
		"-mp of a board":                  {[]string{h200, "$ nvidia-smi topo -mp\n" + matrix}, false, false},
		"no command, no model":            {[]string{matrix}, false, false},
		"no command, a board":             {[]string{h200, matrix}, false, true},
		"no command, a board, afterwards": {[]string{matrix, h200}, false, true},
		"no command, a card":              {[]string{l40s, matrix}, false, false},
		"-m of a divided GPU":             {[]string{h200, "$ nvidia-smi topo -m\n" + matrix, mig}, false, false},
	} {
		var texts [][2]string
		for i, text := range c.texts {
			texts = append(texts, [2]string{fmt.Sprint(i), text})
		}
		f, _ := pasted(t, texts...)
		v := node.NVLinks.Get(f, "GPU0")
		state, known := v.Get()
		if known != c.known || v.IsZero() == c.given || len(state.Links) > 0 {
			t.Errorf("%s: links known %v, %d, reason %q", name, known, len(state.Links), v.Reason())
		}
	}
}

// Numbers, UUIDs and addresses of one GPU are joined whichever text gives them, in any order.
func TestJoin(t *testing.T) {
	const list = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0c0c0c0c-0000-0000-0000-00000000000c)\n"
	topo := "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nGPU0\t X \tNV18\tPIX\t0-1\nGPU1\tNV18\t X \tSYS\t0-1\nmlx5_0\tPIX\tSYS\t X \n"
	texts := [][2]string{{"topo", topo}, {"-q", testdata(t, "query.txt")}, {"-L", list}, {"ibdev", "mlx5_0 port 1 ==> ens1f0 (Up)\n"}}
	for shift := range texts {
		f, _ := pasted(t, append(texts[shift:len(texts):len(texts)], texts[:shift]...)...)
		gpus, _ := f.Inventory.GPUs().Get()
		if len(gpus) != 2 || gpus[0].Address != "0000:1b:00.0" || gpus[0].PCIID != "10de:2330" || gpus[1].Address != "GPU1" {
			t.Errorf("shifted by %d: GPUs are %v", shift, gpus)
		}
		r, _ := f.Inventory.Topology().Relation("0000:1b:00.0", "mlx5_0").Get()
		links, _ := node.NVLinks.Get(f, "GPU1").Get()
		if r != node.PIX || len(links.Links) != 18 {
			t.Fatalf("shifted by %d: relation %v, %d links", shift, r, len(links.Links))
		}
		known1(t, "other end", links.Links[0].RemoteAddress, "0000:1b:00.0")
		nic, ok := f.Inventory.PortOf("mlx5_0")
		if !ok {
			t.Fatal("mlx5_0 is no NIC")
		}
		known1(t, "network device", nic.Netdev, "ens1f0")
	}
}

// A GPU without an active link has one line of words in place of its links.
func TestNoLink(t *testing.T) {
	const (
		list = "GPU %d: NVIDIA H100 80GB HBM3 (UUID: GPU-0c0c0c0c-0000-0000-0000-00000000000%d)\n"
		none = "Unable to retrieve NVLink information as all links are inActive\n"
	)
	for _, line := range []string{none, "NVML: " + none, "NVML:\t" + none, strings.ToLower(none)} {
		f, inputs := pasted(t, [2]string{"nvlink", fmt.Sprintf(list, 0, 0) + line + fmt.Sprintf(list, 1, 1) + "\t Link 0: 26.562 GB/s\n"})
		if diff := cmp.Diff([]string{"nvidia-smi nvlink -s"}, kindsOf(inputs)); diff != "" {
			t.Error(diff)
		}
		for gpu, want := range map[string]int{"GPU0": 0, "GPU1": 1} {
			v := node.NVLinks.Get(f, gpu)
			state, ok := v.Get()
			if !ok {
				t.Fatalf("links of %s are unknown after %q: %s", gpu, line, v.Reason())
			}
			known1(t, "active links of "+gpu, state.Active(), want)
		}
	}
}

// A link that is listed twice is one, and of a text that somebody put together it is not known what else it leaves out.
func TestLinkTwice(t *testing.T) {
	const gpu = "GPU 0: NVIDIA H200 (UUID: GPU-0c0c0c0c-0000-0000-0000-00000000000c)\n"
	f, inputs := pasted(t, [2]string{"nvlink", gpu + "\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n\t Link 2: 0 GB/s\n"})
	state, _ := node.NVLinks.Get(f, "GPU0").Get()
	if len(state.Links) != 3 || !strings.Contains(inputs[0].Doubt, "link 1 of GPU 0 is listed twice") {
		t.Errorf("%d links, doubt %q", len(state.Links), inputs[0].Doubt)
	}
	known1(t, "the rate of one that carries nothing", state.Links[2].SpeedMBps, 0)
}

func TestQuery(t *testing.T) {
	f, inputs := pasted(t, [2]string{"q", testdata(t, "query.txt")})
	if diff := cmp.Diff([]string{"nvidia-smi -q"}, kindsOf(inputs)); diff != "" {
		t.Error(diff)
	}
	const gpu = "0000:1b:00.0"
	g, _ := node.GPUInfo.Get(f, gpu).Get()
	known1(t, "product", g.Product, "NVIDIA H100 80GB HBM3")
	known1(t, "MIG", g.MIG, false)
	known1(t, "MIG after a reset", g.MIGPending, true)
	known1(t, "BAR1", g.BAR1Bytes, uint64(131072<<20))
	known1(t, "generation", g.PCIeGeneration, 4)
	known1(t, "width", g.PCIeWidth, 8)
	known1(t, "ECC", g.ECC, true)
	fabric, _ := node.GPUFabric.Get(f, gpu).Get()
	if fabric.State != node.FabricInProgress || fabric.Status != "" {
		t.Errorf("fabric is %+v", fabric)
	}
	driver, _ := node.NVIDIADriver.Get(f, "").Get()
	if driver.Version != "570.86.15" {
		t.Errorf("driver is %+v", driver)
	}
}

// Links are those of lspci, else of nvidia-smi; a GPU whose utilization is above 0 % is at work.
func TestLinks(t *testing.T) {
	const head = "1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n\tNUMA node: 0\n"
	x16 := pciregs.Link{SpeedGTs: 32, Width: 16}
	working := strings.Replace(testdata(t, "query.txt"), "    Fabric\n", "    Utilization\n        Gpu                                   : 97 %\n    Fabric\n", 1)
	for name, c := range map[string]struct {
		text         string
		current, max pciregs.Link
		busy         bool
	}{
		"lspci":        {head + "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 32GT/s (ok), Width x4 (downgraded)\n", pciregs.Link{SpeedGTs: 32, Width: 4}, x16, false},
		"older lspci":  {head + "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 2.5GT/s, Width x16, TrErr- Train-\n", pciregs.Link{SpeedGTs: 2.5, Width: 16}, x16, false},
		"nvidia-smi":   {testdata(t, "query.txt"), pciregs.Link{SpeedGTs: 16, Width: 8}, x16, false},
		"at work":      {working, pciregs.Link{SpeedGTs: 16, Width: 8}, x16, true},
		"CSV, at work": {"pci.bus_id, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max, utilization.gpu [%]\n00000000:1B:00.0, 1, 5, 16, 16, 97 %\n", pciregs.Link{SpeedGTs: 2.5, Width: 16}, x16, true},
	} {
		f, _ := pasted(t, [2]string{name, c.text})
		l, _ := node.PCILink.Get(f, "0000:1b:00.0").Get()
		known1(t, name+": current", l.Current, c.current)
		known1(t, name+": max", l.Max, c.max)
		if busy, _ := l.Busy.Get(); busy != c.busy {
			t.Errorf("%s: busy is %v", name, busy)
		}
	}
}

func TestPCITree(t *testing.T) {
	f, inputs := pasted(t, [2]string{"lspci", testdata(t, "lspci-tree.txt")})
	if diff := cmp.Diff([]string{"lspci"}, kindsOf(inputs)); diff != "" {
		t.Error(diff)
	}
	known1(t, "virtualization", f.Inventory.Virtualization, "none")
	gpu, _ := f.Inventory.PCIFunction("0000:03:00.0")
	if gpu.Parent != "0000:02:00.0" || gpu.Driver != "nvidia" || gpu.NUMANode != 0 {
		t.Errorf("GPU is %+v", gpu)
	}
	known1(t, "relation", f.Inventory.Topology().Relation("0000:03:00.0", "0000:04:00.0"), node.PIX)
	registers, _ := node.PCIRegisters.Get(f, "0000:02:00.0").Get()
	acs, _ := registers.ACS.Get()
	if got := strings.Join(acs.Enabled.Names(), " "); got != "SrcValid ReqRedir CmpltRedir UpstreamFwd" {
		t.Errorf("ACS is %s", got)
	}
}

func TestPorts(t *testing.T) {
	f, inputs := pasted(t, [2]string{"ibstat", testdata(t, "ibstat.txt")}, [2]string{"gids", strings.ReplaceAll(testdata(t, "show_gids.txt"), "mlx5_0", "mlx5_2")})
	if diff := cmp.Diff([]string{"ibstat", "show_gids"}, kindsOf(inputs)); diff != "" {
		t.Error(diff)
	}
	one, _ := node.RDMAPort.Get(f, "mlx5_1/1").Get()
	known1(t, "state", one.State, "DOWN")
	known1(t, "physical state", one.PhysState, "Polling")
	two, _ := node.RDMAPort.Get(f, "mlx5_2/1").Get()
	gids, _ := two.GIDs.Get()
	if two.LinkLayer != "Ethernet" || len(gids) != 4 || gids[3].Address().String() != "198.51.100.11" || gids[3].Netdev != "eth1" || gids[3].Type != node.GIDRoCEv2 {
		t.Errorf("port is %+v", two)
	}
}

func TestIbdev(t *testing.T) {
	f, inputs := pasted(t, [2]string{"ibdev", "mlx5_0 port 1 ==> eth1 (Up)\nmlx5_1 port 1 ==> eth2 (Down)\nmlx5_2 port 1 ==> eth3 (NA)\n" +
		"0000:1b:00.0 mlx5_3 (MT4129 - MCX75310AAS-NEAT) ConnectX-7 fw 28.39.1002 port 1 (DOWN  ) ==> enp27s0f0np0 (Down)\n"})
	if diff := cmp.Diff([]string{"ibdev2netdev"}, kindsOf(inputs)); diff != "" {
		t.Error(diff)
	}
	for nic, want := range map[string]bool{"mlx5_0": true, "mlx5_1": false, "0000:1b:00.0": false} {
		l, _ := node.Link.Get(f, nic).Get()
		known1(t, "carrier of "+nic, l.Carrier, want)
	}
	p, _ := node.RDMAPort.Get(f, "mlx5_3/1").Get()
	known1(t, "state", p.State, "DOWN")
	given, _ := f.Inventory.Given.Get()
	if contains(given, "ports:mlx5_2") || !contains(given, "ports:mlx5_1") || !contains(given, "ports:0000:1b:00.0") {
		t.Errorf("given are %v", given)
	}
}

// What a file says byte for byte counts where the file is all that was given: NCCL reads carriage returns.
func TestBytes(t *testing.T) {
	const text = "NCCL_DEBUG=INFO\r\nNCCL_IB_HCA==mlx5_0,mlx5_3"
	f, _ := pasted(t, [2]string{"nccl.conf", text})
	file, _ := node.File.Get(f, ncclPath).Get()
	if file.Text != text {
		t.Errorf("the text is %q", file.Text)
	}
}

// Windows writes UTF-16 with a byte order mark and carriage returns, which are none of the node's.
func TestUTF16(t *testing.T) {
	const text = "NCCL_DEBUG=INFO\r\nNCCL_IB_HCA==mlx5_0 # ü\r\n"
	for name, first := range map[string]int{"little": 0, "big": 8} {
		var encoded []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
			encoded = append(encoded, byte(unit>>first), byte(unit>>(8-first)))
		}
		f, inputs := pasted(t, [2]string{"nccl.conf", string(encoded)})
		file, _ := node.File.Get(f, ncclPath).Get()
		if want := strings.ReplaceAll(text, "\r", ""); file.Text != want || inputs[0].Lines != 2 {
			t.Errorf("%s: the text is %q, inputs are %+v", name, file.Text, inputs)
		}
		for cut := range encoded { // whatever is cut off is no panic
			pasted(t, [2]string{"nccl.conf", string(encoded[:cut])})
		}
	}
	_, inputs := pasted(t, [2]string{"utf-32", "\xff\xfe\x00\x00N\x00\x00\x00C\x00\x00\x00"})
	if inputs[0].Unread != "it is no text" {
		t.Errorf("UTF-32 is %+v", inputs)
	}
}

func TestNoText(t *testing.T) {
	for name, text := range map[string]string{"it is empty": "", "it is no text": "\x7fELF\x02\x01\x01\x00\x00", "busbar does not know what this is": "lorem ipsum\n\ndolor\n"} {
		f, inputs := pasted(t, [2]string{"x", text})
		if len(inputs) != 1 || inputs[0].Kind != "" || inputs[0].Unread != name {
			t.Errorf("%q: inputs are %+v", text, inputs)
		}
		if f.Inventory.PCI.IsKnown() || len(f.Queries()) > 0 {
			t.Errorf("%q: facts are %v", text, f.Queries())
		}
	}
}

// One word is never enough, wherever it stands.
func TestOneSign(t *testing.T) {
	for _, line := range []string{
		"GPU0", "mlx5_0", "NCCL_DEBUG", "NCCL WARN", "iommu=pt", "quiet", "blacklist", "[Unit]", "NVSMI LOG", "Priority trust state:", "GRUB_", "PIX NODE SYS",
		"Legend:", "OK", "/dev/nvidia0", "linux /vmlinuz", "Link 0: 25 GB/s", "nvidia", "eth0 UP", "enabled 0 0 0 1", "unlimited", "0064", "link mlx5_0/1", "driver: mlx5_core", "version: 1", "bus-info: 0000:1a:00.0", "Operational Info", "State : Active", "Infiniband device 'mlx5_0' port 1 status:", "RmLogonRC: 1",
		"ResmanDebugLevel: 4294967295", "core file size (blocks, -c) 0", "bash-5.1.8-9.el9.x86_64", "available: 2 nodes (0-1)", "node 0 cpus: 0 1", "-[0000:00]-+-00.0", "slurmd.service", "● slurmd.service - Slurm node daemon", "ii x", "Loaded: loaded", "DEV PORT INDEX", "pfc-cap", "prio-pfc 3:on", "CA 'mlx5_0'", "Bridge",
		"usb 1-1: new device", "[   12.345678] hello", "[Sun Feb 23 16:24:18 2025] hello", "6,3964,206764307,-;hello", "nvidia: hello",
	} {
		_, inputs := pasted(t, [2]string{"x", line + "\n"})
		if len(inputs) != 1 || inputs[0].Kind != "" {
			t.Errorf("%q is taken for %v", line, inputs)
		}
	}
}

func TestLargeText(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	for name, text := range map[string]string{
		"one-character lines": strings.Repeat("x\n", 60_000/scale),
		"one line":            strings.Repeat("y", 4<<20/scale),
		"GPU0 everywhere":     strings.Repeat("\tGPU0\tGPU1\n", 20_000/scale),
		"rows without end":    "\tGPU0\tGPU1\tCPU Affinity\n" + strings.Repeat("GPU0\t X \tNV1\t0\n", 20_000/scale),
		"blank lines":         strings.Repeat("\n", 60_000/scale),
	} {
		_, inputs := pasted(t, [2]string{name, text})
		if len(inputs) > 25_000 {
			t.Errorf("%s: %d inputs", name, len(inputs))
		}
	}
	p := Paste{kept: maxKept - 1<<20} // of texts before it
	rows := "\tGPU0\tGPU1\tCPU Affinity\n" + strings.Repeat("GPU0\t X \tNV1\t0\n", window/lineCost)
	if err := p.Add("huge", "", strings.NewReader(rows)); err != nil {
		t.Fatal(err)
	}
	in := p.Inputs()
	if last := in[len(in)-1]; len(in) != 2 || !strings.Contains(last.Unread, "MiB of text") || in[0].Lines+last.Lines != strings.Count(rows, "\n") {
		t.Errorf("the inputs are %+v", in)
	}
	if err := p.Add("after it", "", strings.NewReader("x\ny\n")); err != nil {
		t.Fatal(err)
	}
	if in := p.Inputs(); in[len(in)-1].Unread == "" || in[len(in)-1].Lines != 2 || in[len(in)-1].Line != 1 {
		t.Errorf("the inputs are %+v", in)
	}
}

// A log that is longer than what is held at a time is read whole, and one input; so is what comes before and after it.
func TestLongLog(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	many := window / 80
	var nccl, kernel, unknown strings.Builder
	for i := range many {
		fmt.Fprintf(&nccl, "gpu%02d:%d:%d [0] NCCL INFO Channel %02d/0 : %d[0] -> %d[1] via P2P/CUMEM\n", i%2, 100+i%8, 200+i%8, i%16, i%8, (i+1)%8)
		if i%1000 == 0 {
			nccl.WriteString("step 12 loss 2.5\n\nstep 13 loss 2.4\n")
		}
		fmt.Fprintf(&kernel, "[%12.6f] mlx5_core 0000:1a:00.0 eth1: Link up, whatever else the driver says of it\n", float64(i))
		fmt.Fprintf(&unknown, "step %d of a training, its loss, its rate and whatever else a program prints\n", i)
		if i%1000 == 999 {
			unknown.WriteString("\n")
		}
	}
	kernel.WriteString("[999999.000000] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n")
	text := nccl.String() + strings.Repeat("aside\n", 2*maxAside) + unknown.String() + "$ dmesg\n" + kernel.String() + "$ cat /etc/nccl.conf\nNCCL_DEBUG=INFO\n"
	f, inputs := pasted(t, [2]string{"x", text})
	if diff := cmp.Diff([]string{"NCCL log", "?", "kernel log", "nccl.conf"}, kindsOf(inputs)); diff != "" {
		t.Fatalf("%v\n%+v", diff, inputs)
	}
	log, _ := node.NCCLLog.Get(f, "x").Get()
	if len(log.Log.Transports) != 1 || log.Log.Transports[0].Pairs != 8 || log.Log.Messages != many {
		t.Errorf("%d messages, transports %s", log.Log.Messages, log.Log)
	}
	events, _ := node.KernelLog.Get(f, "").Get()
	if events.Records != many+1 || len(events.Events) != 1 {
		t.Errorf("%d records, events %+v", events.Records, events.Events)
	}
	total := 0
	for _, in := range inputs {
		total += in.Lines
	}
	if blank := 2; total != strings.Count(text, "\n")-blank { // the two commands
		t.Errorf("inputs have %d of %d lines: %+v", total, strings.Count(text, "\n"), inputs)
	}
}

// Each kind reads whatever it takes for its own.
func FuzzKinds(f *testing.F) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if text, err := os.ReadFile(filepath.Join("testdata", e.Name())); err == nil {
			for i := range kinds {
				f.Add(uint8(i), string(text), "", "")
			}
		}
	}
	f.Add(uint8(0), "NCCL_DEBUG=INFO\n", "/etc/nccl.conf", "cat /etc/nccl.conf")
	f.Fuzz(func(t *testing.T, which uint8, text, path, typed string) {
		k := kinds[int(which)%len(kinds)]
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = clean(lines[i])
		}
		var d draft
		m := k.scan(piece{lines: lines, path: path, command: typed})
		if m.lines < 0 || m.lines > len(lines) {
			t.Fatalf("%s takes %d of %d lines", k.name, m.lines, len(lines))
		}
		if m.lines == 0 || m.signs < enough || k.read == nil {
			return
		}
		k.read(&d, section{piece: piece{lines: lines[:m.lines], path: path, command: typed}, file: "x", first: 1})
		d.facts()
	})
}

// Text of any kind becomes facts, and every line of it belongs to one input at most.
func FuzzAdd(f *testing.F) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if text, err := os.ReadFile(filepath.Join("testdata", e.Name())); err == nil {
			f.Add(string(text), "")
		}
	}
	f.Add("GRUB_CMDLINE_LINUX=\"x\n", "/etc/default/grub")
	f.Fuzz(func(t *testing.T, text, path string) {
		var p Paste
		if err := p.Add("x", path, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		next := 1
		for _, in := range p.Inputs() {
			if in.Lines < 0 || in.Lines > 0 && in.Line < next {
				t.Fatalf("input %+v begins before line %d", in, next)
			}
			next = max(next, in.Line+in.Lines)
		}
		inv := p.Reader().Inventory(t.Context())
		inv.Rails()
		inv.GPUPaths()
	})
}
