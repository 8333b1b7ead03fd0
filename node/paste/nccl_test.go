package paste_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"busbar/internal/nccllog"
	"busbar/node"
	"busbar/node/paste"
)

// pasted are the facts of texts, and what each piece of them is.
func pasted(t *testing.T, texts ...string) (node.Facts, []paste.Input) {
	t.Helper()
	var p paste.Paste
	for i, text := range texts {
		if err := p.Add(fmt.Sprintf("%d.txt", i), "", strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	r := p.Reader()
	return r.Read(context.Background(), r.Inventory(context.Background()), nil), p.Inputs()
}

// kindsOf are the kinds of pieces with their lines: "NCCL log 2-5".
func kindsOf(inputs []paste.Input) string {
	var list []string
	for _, in := range inputs {
		kind := in.Kind
		if kind == "" {
			kind = "?"
		}
		list = append(list, fmt.Sprintf("%s %d-%d", kind, in.Line, in.Line+in.Lines-1))
	}
	return strings.Join(list, ", ")
}

// A log is found between other text, with what launchers put before its lines, and its lines keep their numbers.
func TestNCCLLog(t *testing.T) {
	const p2p, shm = "vm:812:812 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n", "vm:813:813 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct\n"
	for _, tt := range []struct{ name, text, kinds, want string }{
		{"alone", p2p + shm, "NCCL log 1-2", "P2P/CUMEM 1, SHM 2"},
		{"with lines of the program", "loading\n\n" + p2p + "step 1\nstep 2\n" + shm, "? 1-1, NCCL log 3-6", "P2P/CUMEM 3, SHM 6"},
		{"in pieces", p2p + strings.Repeat("step\n", 20) + shm, "NCCL log 1-1, ? 2-21, NCCL log 22-22", "P2P/CUMEM 1, SHM 22"},
		{"in Markdown", "```\n" + p2p + shm + "```\n", "NCCL log 2-3", "P2P/CUMEM 2, SHM 3"},
		{"of mpirun", "[1,0]<stdout>:" + p2p + "[1,1]<stdout>:" + shm, "NCCL log 1-2", "P2P/CUMEM 1, SHM 2"},
		{"of srun", "0: " + p2p + "1: " + shm, "NCCL log 1-2", "P2P/CUMEM 1, SHM 2"},
		{"of a terminal of another system", "\x1b[1m" + strings.ReplaceAll(p2p+shm, "\n", "\x1b[0m\r\n"), "NCCL log 1-2", "P2P/CUMEM 1, SHM 2"},
		{"after a command", "$ cat /var/log/nccl.vm\n" + p2p, "NCCL log 2-2", "P2P/CUMEM 2"},
		{"words about it", "they say that NCCL INFO is slow\n", "? 1-1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			facts, inputs := pasted(t, tt.text)
			if got := kindsOf(inputs); got != tt.kinds {
				t.Errorf("%s, want %s", got, tt.kinds)
			}
			var got []string
			for _, q := range facts.Queries() {
				if q.Kind != node.NCCLLog.Name() {
					continue
				}
				state, _ := node.NCCLLog.Get(facts, q.Key).Get()
				for _, s := range state.Log.Transports {
					got = append(got, fmt.Sprintf("%s %d", s.Transport, s.Line))
				}
				given, _ := facts.Inventory.Given.Get()
				if !slices.Contains(given, "nccl_log:"+q.Key) {
					t.Errorf("%q was not given: %q", q.Key, given)
				}
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("%q, want %s", got, tt.want)
			}
		})
	}
}

// Logs of two texts stay two: they may be of two jobs.
func TestNCCLLogs(t *testing.T) {
	facts, _ := pasted(t, "a:1:1 [0] NCCL INFO Using network IB\n", "a:1:1 [0] NCCL INFO Using network Socket\n")
	for file, want := range map[string]string{"0.txt": nccllog.IB, "1.txt": nccllog.Socket} {
		state, _ := node.NCCLLog.Get(facts, file).Get()
		if len(state.Log.Networks) != 1 || state.Log.Networks[0].Name != want {
			t.Errorf("%s: %+v", file, state.Log.Networks)
		}
	}
}

func TestNCCLTopology(t *testing.T) {
	const topology = `<!-- by hand -->
<system version="1">
  <cpu numaid="1" arch="arm64">
    <pci busid="ffff:ff:01.0" class="0x060400">
      <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2335">
        <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="fffffff:ff:ff.0" count="17" tclass="0x068000"/><nvlink target="0000:2b:00.0" count="1" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:1c:00.0" class="0x020700" vendor="0x15b3" device="0x1021">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" gdr="1"/></nic>
      </pci>
    </pci>
    <pci busid="0000:2b:00.0" class="0x030200" vendor="0x1002" device="0x74a1"><gpu dev="1"><xgmi target="0000:1b:00.0" count="1" tclass="0x120000"/></gpu></pci>
  </cpu>
</system>
`
	facts, inputs := pasted(t, topology)
	if got := kindsOf(inputs); got != "NCCL topology 1-14" {
		t.Error(got)
	}
	inv := facts.Inventory
	gpus, _ := inv.GPUs().Get()
	nics, _ := inv.NICs().Get()
	if len(gpus) != 1 || gpus[0].Address != "0000:1b:00.0" || gpus[0].PCIID != "10de:2335" {
		t.Errorf("GPUs: %+v", gpus)
	}
	if len(nics) != 1 || nics[0].Address != "0000:1c:00.0" {
		t.Errorf("NICs: %+v", nics)
	}
	if name, _ := nics[0].RDMA.Get(); name != "mlx5_0" {
		t.Errorf("the NIC's RDMA device is %q", name)
	}
	functions, _ := inv.PCI.Get()
	for _, f := range functions {
		if f.NUMANode != 1 || f.Parent != "" || strings.HasPrefix(f.Address, "ffff") {
			t.Errorf("%+v", f)
		}
	}
	links, _ := node.NVLinks.Get(facts, "0000:1b:00.0").Get()
	if n, _ := links.Active().Get(); n != 18 {
		t.Errorf("%d NVLinks are active", n)
	}
	if remote, _ := links.Links[17].RemoteAddress.Get(); remote != "0000:2b:00.0" {
		t.Errorf("the last link leads to %q", remote)
	}
	if arch, _ := inv.Arch.Get(); arch != "aarch64" {
		t.Errorf("architecture %q", arch)
	}
	if _, inputs := pasted(t, topology+strings.ReplaceAll(topology, ":00.0", ":01.0")); kindsOf(inputs) != "NCCL topology 1-14, NCCL topology 15-28" {
		t.Error(kindsOf(inputs))
	}
	facts, inputs = pasted(t, topology[:700])
	if len(inputs) != 1 || !strings.Contains(inputs[0].Doubt, "cut off") || facts.Inventory.PCI.IsKnown() {
		t.Errorf("%+v", inputs)
	}
}

// Cases, and captures of NCCL, are of the kind that they are.
func TestNCCLKinds(t *testing.T) {
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of real cases")
	}
	captures := filepath.Join(dir, "..", "captures")
	for pattern, want := range map[string]string{
		filepath.Join(dir, "nccl-log-*.txt"): "NCCL log", filepath.Join(captures, "public", "nccl-logs", "*.log"): "NCCL log", filepath.Join(captures, "h200x2", "nccl-*.log"): "NCCL log",
		filepath.Join(captures, "public", "nccl-xml", "*.xml"): "NCCL topology", filepath.Join(captures, "h200x2", "*.xml"): "NCCL topology",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Skip("there are no captures: ", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, inputs := pasted(t, string(text))
			if !slices.ContainsFunc(inputs, func(in paste.Input) bool { return in.Kind == want && in.Doubt == "" }) {
				t.Errorf("%s: %s", file, kindsOf(inputs))
			}
			for _, in := range inputs {
				if want == "NCCL topology" && in.Kind != want {
					t.Errorf("%s: %s", file, kindsOf(inputs))
				}
			}
		}
	}
}

// The logs of a job's hosts are one, whichever way they come; those of another job stay alone.
func TestJobOfManyHosts(t *testing.T) {
	rank := func(comm string, rank int, host string) string {
		prefix := fmt.Sprintf("%s:%d:%d [0] NCCL INFO ", host, 100+rank, 200+rank)
		return prefix + fmt.Sprintf("ncclCommInitRankConfig comm 0x55%d rank %d nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId %s - Init START\n", rank, rank, comm) +
			prefix + fmt.Sprintf("Channel 00/0 : %d[0] -> %d[0] [send] via NET/Socket/0\n", rank, 1-rank)
	}
	a, b, other := rank("0xa", 0, "gpu01"), rank("0xa", 1, "gpu02"), rank("0xb", 0, "gpu01")
	f, _ := pasted(t, a, "x\n"+b, other)
	job, _ := node.NCCLLog.Get(f, "0.txt").Get()
	if want := []string{"0.txt", "1.txt"}; !slices.Equal(job.Files, want) || !slices.Equal(job.Starts, []int{1, 3}) {
		t.Errorf("%v starting at %v", job.Files, job.Starts)
	}
	if got := job.Log.String(); got != "inter-node NET/Socket [send]: pairs 2, channels 2, 0 -> 1, line 2\n" {
		t.Error(got)
	}
	alone, _ := node.NCCLLog.Get(f, "2.txt").Get()
	if len(alone.Files) != 1 || alone.Starts != nil {
		t.Errorf("%+v", alone)
	}
	given, _ := f.Inventory.Given.Get()
	if slices.Contains(given, "nccl_log:1.txt") || !slices.Contains(given, "nccl_log:0.txt") || !slices.Contains(given, "nccl_log:2.txt") {
		t.Errorf("given are %v", given)
	}

	// One file, in which hosts write in turns behind a prefix.
	var mixed strings.Builder
	as, bs := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	for i := range as[:2] {
		mixed.WriteString("0: " + as[i] + "1: " + bs[i])
	}
	f, _ = pasted(t, mixed.String())
	job, _ = node.NCCLLog.Get(f, "0.txt").Get()
	if got := job.Log.String(); got != "inter-node NET/Socket [send]: pairs 2, channels 2, 0 -> 1, line 3\n" {
		t.Error(got)
	}
}
