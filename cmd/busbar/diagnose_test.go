package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/plan"
	"busbar/report"
)

// diagnosed is a diagnosis as others read its JSON.
type diagnosed struct {
	FormatVersion string `json:"format_version"`
	Inputs        []struct {
		File, Kind, Unread string
		Lines              int
	}
	Findings []struct {
		ID, Summary string
		Source      node.Source
		Status      plan.Status
		Severity    plan.Severity
	}
	Verdict  report.Verdict
	ExitCode int `json:"exit_code"`
}

// diagnosis runs the command with --json.
func diagnosis(t *testing.T, args ...string) diagnosed {
	t.Helper()
	var d diagnosed
	code, stdout, stderr := busbar("", append([]string{"diagnose", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || stderr != "" {
		t.Fatalf("%v: %v, standard error %q: %.300s", args, err, stderr, stdout)
	}
	if d.Verdict.ExitCode() != code || d.ExitCode != code || d.FormatVersion != report.FormatVersion {
		t.Errorf("%v: verdict %s, exit code %d and %d", args, d.Verdict, code, d.ExitCode)
	}
	return d
}

// unreadCases are inputs whose kind is known and not read yet, with the reason. A line that has become false fails the test.
var unreadCases = map[string]string{
	"mlnx-qos-missing-tool.txt": "a program that is not there", // for good: it says nothing
}

// condition is what EXPECT.tsv's verdict of an input hangs on: other inputs beside it, or what somebody wants.
type condition struct {
	input   string
	with    []string // other inputs
	text    map[string]string
	profile string
	verdict report.Verdict
}

const wantsACS = `profile { description = "wants ACS settings" }
kernel_args { present = { pci = "config_acs=xx111x0@0008:00:00.0" } }
`

var conditions = []condition{
	{input: "fm-nothing-to-do.log", with: []string{"lspci-no-nvswitch-a40.txt"}, verdict: report.Fine},
	{input: "fm-nothing-to-do.log", with: []string{"lspci-nvswitch-a100.txt"}, verdict: report.Fail},
	{input: "fm-nothing-to-do.log", verdict: report.Unjudged},
	{input: "modules-no-ib-umad.txt", text: map[string]string{"lspci.txt": "1b:00.0 3D controller [0302]: NVIDIA Corporation GB100 [B200] [10de:2901] (rev a1)\n"}, verdict: report.Fail},
	{input: "gids-linklocal-and-ipv4.txt", text: map[string]string{"etc/nccl.conf": "NCCL_IB_GID_INDEX=3\n"}, verdict: report.Fine},
	{input: "gids-linklocal-and-ipv4.txt", text: map[string]string{"etc/nccl.conf": "NCCL_IB_GID_INDEX=1\n"}, verdict: report.Fail},
	{input: "gids-drifted.txt", text: map[string]string{"etc/nccl.conf": "NCCL_IB_GID_INDEX=3\n"}, verdict: report.Fail},
	{input: "gids-drifted.txt", verdict: report.Fine},
	{input: "nccl-trap-hca-prefix.conf", with: []string{"ibdev-18-hcas.txt"}, verdict: report.Warn},
	{input: "nccl-trap-hca-prefix-port.conf", with: []string{"ibdev-18-hcas.txt"}, verdict: report.Warn},
	{input: "ibdev-18-hcas.txt", text: map[string]string{"etc/nccl.conf": "NCCL_IB_HCA==mlx5_1\n"}, verdict: report.Fine},
	{input: "ifaces-bond-prefix.txt", text: map[string]string{"etc/nccl.conf": "NCCL_SOCKET_IFNAME=bond0\n"}, verdict: report.Warn},
	{input: "ifaces-only-lo-docker-eth.txt", with: []string{"nccl-aws-dlc.conf"}, verdict: report.Fail},
	{input: "topo-2xa100-mig.txt", with: []string{"nvidia-smi-mig-mode.csv"}, verdict: report.Warn},
	{input: "grub-config-acs-only-in-comment/", profile: wantsACS, verdict: report.Fail},
	{input: "nccl-trap-empty-file.conf", text: map[string]string{"etc/nccl.conf": ""}, profile: "profile { description = \"wants a key\" }\nnccl { settings = { NCCL_DEBUG = \"WARN\" } }\n", verdict: report.Fail},
	{input: "limits-azure.conf", verdict: report.Warn},
	{input: "limits-dropin-ok/", verdict: report.Unjudged},
	{input: "modules-inbox-open-dmabuf.txt", verdict: report.Unjudged},
	{input: "modules-inbox-open-dmabuf.txt", text: map[string]string{
		"proc/cmdline":               "BOOT_IMAGE=/boot/vmlinuz-6.8.0-52-generic root=UUID=3f1c ro\n",
		"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)  Tue Sep 23 09:55:41 UTC 2025\n",
	}, verdict: report.Fine},
}

// diagnosedOtherwise are inputs whose verdict alone differs from EXPECT.tsv's, and why.
var diagnosedOtherwise = map[string]string{
	"fm-nothing-to-do.log":             "hangs on NVSwitches: conditions",
	"modules-no-ib-umad.txt":           "hangs on the board: conditions",
	"gids-drifted.txt":                 "hangs on a pinned index: conditions",
	"nccl-trap-hca-prefix.conf":        "a prefix takes a second device only where there are more than ten, which the file does not say: a note, and a warning with the devices (conditions)",
	"nccl-trap-hca-prefix-port.conf":   "the same with a port, which makes the name no more exact (A39)",
	"nccl-trap-empty-file.conf":        "an empty file without a place says nothing: conditions",
	"grub-config-acs-only-in-comment/": "the comment sets nothing, and busbar must not take it for the argument (B06): that is wrong for whoever wants the argument, and diagnose does not know who does (conditions)",
	"nixos-readonly-etc/":              "what apply refuses is nothing that text shows to be wrong",
	"limits-dropin-ok/":                "passes once the unit was started again, and what its process got nobody gave: conditions",
	"modules-inbox-open-dmabuf.txt":    "hangs on the kernel and the driver's flavour: conditions",
	"limits-azure.conf":                "memlock passes, the stack warns: the worse counts",
}

// verdictOfCase is EXPECT.tsv's verdict in diagnose's words; empty where it wants none.
func verdictOfCase(expected string) report.Verdict {
	word, _, _ := strings.Cut(strings.NewReplacer(",", " ", ";", " ").Replace(expected), " ")
	return map[string]report.Verdict{"PASS": report.Fine, "INFO": report.Fine, "WARN": report.Warn, "FAIL": report.Fail, "REFUSE": report.Fail, "UNKNOWN": report.Unjudged}[word]
}

func TestDiagnoseCases(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of real cases")
	}
	count := 0
	for line := range strings.Lines(readFile(t, filepath.Join(dir, "EXPECT.tsv"))) {
		columns := strings.Split(line, "\t")
		if len(columns) < 3 || columns[0] == "input" {
			continue
		}
		input, want := columns[0], verdictOfCase(columns[2])
		count++
		d := diagnosis(t, filepath.Join(dir, input))
		read := false
		kinds := []string{}
		for _, in := range d.Inputs {
			kinds = append(kinds, in.Kind)
			read = read || in.Kind != "" && in.Unread == ""
		}
		why, unread := unreadCases[input]
		_, differs := diagnosedOtherwise[input]
		switch {
		case unread && (read || !slices.Contains(kinds, why)):
			t.Errorf("%s is listed as not read (%s), and is taken for %v", input, why, kinds)
		case unread:
		case !read && input != "nccl-trap-empty-file.conf":
			t.Errorf("%s is not recognised: %v", input, kinds)
		case want != "" && differs == (d.Verdict == want):
			t.Errorf("%s is %s, EXPECT.tsv has %s; listed as otherwise: %v", input, d.Verdict, columns[2], differs)
		}
	}
	if count < 120 {
		t.Errorf("EXPECT.tsv has %d inputs", count)
	}
	for _, c := range conditions {
		args := []string{filepath.Join(dir, c.input)}
		for _, other := range c.with {
			args = append(args, filepath.Join(dir, other))
		}
		scratch := t.TempDir()
		for name, text := range c.text {
			file := filepath.Join(scratch, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			args = append(args, file)
		}
		if c.profile != "" {
			file := filepath.Join(scratch, "wish.hcl")
			if err := os.WriteFile(file, []byte(c.profile), 0o644); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--profile", file)
		}
		if d := diagnosis(t, args...); d.Verdict != c.verdict {
			t.Errorf("%s with %v %v is %s, want %s: %v", c.input, c.with, c.text, d.Verdict, c.verdict, complaintsOf(d))
		}
	}
}

// complaintsOf are what a diagnosis finds wrong.
func complaintsOf(d diagnosed) []string {
	var all []string
	for _, f := range d.Findings {
		if f.Status != plan.OK && f.Status != plan.Skipped && f.Severity != plan.Info {
			all = append(all, string(f.Status)+" "+f.ID+": "+f.Summary)
		}
	}
	return all
}

// Captures are of nodes that work: nothing is wrong in them, but in the log of a job that was kept off peer access. What several
// machines' topologies say together is nothing to be sure of.
func TestDiagnoseCaptures(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of real cases")
	}
	captures := filepath.Join(dir, "..", "captures")
	if _, err := os.Stat(captures); err != nil {
		t.Skip("there are no captures: ", err)
	}
	for input, want := range map[string]report.Verdict{
		"h200x2/nvidia-smi.txt": report.Fine, "h200x2/nvidia-smi-q.txt": report.Fine, "h200x2/nvlink-s.txt": report.Fine, "h200x2/topo-m.txt": report.Fine, "h200x2/topo-p2p-n.txt": report.Fine,
		"h200x2/proc-modules.txt": report.Fine, "h200x2/nccl-p2p.log": report.Fine, "h200x2/nccl-shm.log": report.Fail, // P2P was turned off
		"public/gpud/lspci": report.Fine, "public/gpud/fabric-manager": report.Fine, "public/gpud/infiniband-class/sys-class-infiniband-h100.0": report.Fine,
		"public/nccl-xml": report.Unjudged, "public/gpud/kmsg/kmsg.1.log": report.Fine, "public/gpud/kmsg/kmsg.2.peermem.log": report.Warn, // a race in how memory is given back
		"public/gpud/kmsg/dmesg-with-xid-119.log": report.Fail, "public/gpud/kmsg/nccl-segfault.dmesg.iso.log": report.Fine, // a GPU that hung; a note alone
	} {
		if d := diagnosis(t, filepath.Join(captures, input)); d.Verdict != want {
			t.Errorf("%s is %s, want %s: %v", input, d.Verdict, want, complaintsOf(d))
		}
	}
}

// What people see, of a mixed paste and of single texts.
func TestDiagnoseText(t *testing.T) {
	pasted := filepath.Join("..", "..", "node", "paste", "testdata")
	for name, args := range map[string][]string{
		"diagnose-mixed":   {filepath.Join(pasted, "mixed.md")},
		"diagnose-verbose": {"--verbose", filepath.Join(pasted, "mixed.md")},
		"diagnose-fine":    {filepath.Join(pasted, "topo-4gpu-fabric.txt"), filepath.Join(pasted, "show_gids.txt")},
		"diagnose-ports":   {filepath.Join(pasted, "ibstat.txt"), filepath.Join(pasted, "lspci-tree.txt")},
		"diagnose-quiet":   {"--quiet", filepath.Join(pasted, "query.txt")},
	} {
		_, stdout, stderr := busbar("", append([]string{"diagnose"}, args...)...)
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(stdout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(readFile(t, golden), stdout); diff != "" || stderr != "" {
			t.Errorf("%s: standard error %q (-want +got):\n%s", name, stderr, diff)
		}
	}
}

// What single texts, and a few together, come to.
func TestDiagnoseKinds(t *testing.T) {
	pasted := func(name string) string {
		return readFile(t, filepath.Join("..", "..", "node", "paste", "testdata", name))
	}
	rank := func(rank int, host, transport string) string {
		prefix := fmt.Sprintf("%s:%d:%d [0] NCCL INFO ", host, 100+rank, 200+rank)
		line := "ncclCommInitRankConfig comm 0x55%d rank %d nranks 2 cudaDev 0 nvmlDev %d busId %d000 commId 0xfe - Init %s\n"
		return prefix + fmt.Sprintf(line, rank, rank, rank, rank+1, "START") +
			prefix + fmt.Sprintf("Channel 00/0 : %d[%d] -> %d[%d] [send] via %s\n", rank, rank, 1-rank, 1-rank, transport) +
			prefix + fmt.Sprintf(line, rank, rank, rank, rank+1, "COMPLETE")
	}
	for name, c := range map[string]struct {
		texts   []string
		verdict report.Verdict
		says    string
	}{
		"a fabric manager of another version":  {[]string{pasted("dpkg.txt")}, report.Fail, "the driver is 580.95.05, the fabric manager 580.82.07"},
		"a fabric manager of the same version": {[]string{strings.Replace(pasted("dpkg.txt"), "580.82.07", "580.95.05", 1)}, report.Fine, ""},
		"a driver that was upgraded": {
			[]string{pasted("dpkg.txt"), "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (x)  Tue Sep 23 09:55:41 UTC 2025\n"},
			report.Fail, "the driver is 580.82.07, its library is of 580.95.05",
		},
		"little memory to lock":                {[]string{pasted("ulimit.txt")}, report.Fail, "the shell has memlock 65536"},
		"memory without limit":                 {[]string{"$ ulimit -l\nunlimited\n"}, report.Fine, ""},
		"a service that failed":                {[]string{pasted("systemctl-status.txt"), "07:00.0 Bridge [0680]: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)\n1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"}, report.Fail, "the fabric manager is failed"},
		"a port without a subnet manager":      {[]string{pasted("ibstatus.txt")}, report.Fail, "INIT"},
		"the second port":                      {[]string{strings.Replace(pasted("ibstat-two-ports.txt"), "State: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 56", "State: Initializing\n\t\tPhysical state: LinkUp\n\t\tRate: 56", 1)}, report.Fail, "INIT"},
		"one job, two files, of two hosts":     {[]string{rank(0, "gpu01", "NET/Socket/0"), rank(1, "gpu02", "NET/Socket/0")}, report.Fail, "2 pairs of ranks of different nodes"},
		"one job, two files, of one host":      {[]string{rank(0, "gpu01", "NET/Socket/0"), rank(1, "gpu01", "NET/Socket/0")}, report.Fail, "2 pairs of ranks of one node"},
		"one job, two files, with RDMA":        {[]string{rank(0, "gpu01", "NET/IB/0/GDRDMA"), rank(1, "gpu02", "NET/IB/0/GDRDMA")}, report.Fine, ""},
		"NUMA nodes as they may be":            {[]string{pasted("numactl.txt")}, report.Unjudged, ""},
		"names of devices and a tree of buses": {[]string{pasted("lspci-tv.txt"), pasted("ethtool-i.txt"), pasted("rdma-link.txt")}, report.Warn, "mlx5_1/1 is DOWN"},
	} {
		var args []string
		dir := t.TempDir()
		for i, text := range c.texts {
			args = append(args, filepath.Join(dir, fmt.Sprintf("%d.txt", i)))
			if err := os.WriteFile(args[i], []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		d := diagnosis(t, args...)
		if said := strings.Join(complaintsOf(d), "\n"); d.Verdict != c.verdict || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s, want %s and %q:\n%s", name, d.Verdict, c.verdict, c.says, said)
		}
		for _, in := range d.Inputs {
			if in.Kind == "" && name != "a service that failed" { // whose journal is no text of a tool
				t.Errorf("%s: %s is not known", name, in.File)
			}
		}
	}
}

// What is wrong stands in what was given, not in a file of this machine.
func TestDiagnoseCites(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.md")
	if err := os.WriteFile(file, []byte("Hello,\n\n$ cat /etc/nccl.conf\nNCCL_DEBUG=WARN\nNCCL_IB_TIMEOUT=\"22\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := diagnosis(t, file)
	for _, f := range d.Findings {
		if f.ID == "nccl.quoted_integer" && f.Source == (node.Source{Path: file, Line: 5}) {
			return
		}
	}
	t.Errorf("findings are %+v", d.Findings)
}

func TestDiagnose(t *testing.T) {
	const lists = "GPU 0: NVIDIA H200 (UUID: GPU-0a0a0a0a-0000-0000-0000-00000000000a)\n"
	binary, empty := filepath.Join(t.TempDir(), "binary"), filepath.Join(t.TempDir(), "empty")
	for file, text := range map[string]string{binary: "\x7fELF\x00\x01", empty: ""} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, stdin    string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"values of nccl-tests are wrong", strings.Replace(readFile(t, filepath.Join("..", "..", "internal", "nccltests", "testdata", "all_reduce-2.17-a100.txt")), "Out of bounds values : 0 OK", "Out of bounds values : 7 FAILED", 1), []string{"-"}, plan.ExitDrift, "all_reduce_perf: values are wrong: 7", ""},
		{"standard input", lists, []string{"-"}, plan.ExitOK, "nvidia-smi -L", ""},
		{"nothing named", "", nil, plan.ExitUsage, "", "which FILE? None was named"},
		{"no such file", "", []string{"/does/not/exist"}, plan.ExitError, "", "reading /does/not/exist"},
		{"twice from standard input", lists, []string{"-", "-"}, plan.ExitError, "", "named twice"},
		{"a program", "", []string{binary}, plan.ExitUnknown, "it is no text", ""},
		{"nothing in it", "", []string{empty}, plan.ExitUnknown, "it is empty", ""},
		{"an empty directory", "", []string{t.TempDir()}, plan.ExitUnknown, "unknown: nothing could be judged", ""},
		{"a device", "", []string{"/dev/zero"}, plan.ExitError, "", "is no regular file"},
		{"no such profile", lists, []string{"-", "--profile", "nonsense"}, plan.ExitBadProfile, "", "nonsense"},
		{"another profile", lists, []string{"-", "--profile", "baseline"}, plan.ExitUnknown, "nothing wrong in what could be judged, which is not what was given", ""},
		{"a line in a long text that busbar does not know", lists + strings.Repeat("\nlorem ipsum\n", 30), []string{"-"}, plan.ExitUnknown, "nothing wrong in what could be judged, which is not what was given", ""},
		{"a recording", readFile(t, filepath.Join("testdata", "h200x2-vm.json")), []string{"-"}, plan.ExitUnknown, "busbar plan --node FILE judges it", ""},
		{"a variable", "", []string{"--var", "lossless={priority=5,dscp=40,cnp_priority=6,cnp_dscp=48}", filepath.Join("..", "..", "node", "paste", "testdata", "ibstat.txt")}, plan.ExitDrift, "Polling", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := busbar(c.stdin, append([]string{"diagnose"}, c.args...)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
			}
		})
	}
}

// Devices of more than a node are no mistake in the profile.
func TestDiagnoseManyDevices(t *testing.T) {
	var text strings.Builder
	for i := range 600 {
		fmt.Fprintf(&text, "CA 'mlx5_%d'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: Ethernet\n", i)
	}
	file := filepath.Join(t.TempDir(), "ibstat.txt")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := busbar("", "diagnose", file)
	if code != plan.ExitError || !strings.Contains(stderr, "more than busbar judges as one node") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
