package nccllog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/nccllog"
)

func parse(t testing.TB, text string) nccllog.Log {
	t.Helper()
	return nccllog.Parse(text)
}

// sums are the transports, one a line: SCOPE TRANSPORT [SIDE] PAIRS/CHANNELS.
func sums(l nccllog.Log) string {
	var b strings.Builder
	for _, s := range l.Transports {
		side := ""
		if s.Side != "" {
			side = " [" + s.Side + "]"
		}
		fmt.Fprintf(&b, "%s %s%s %d/%d\n", s.Scope, s.Transport, side, s.Pairs, s.Channels)
	}
	return b.String()
}

func trimmed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// The channel lines of each generation of NCCL, as its sources write them.
func TestTransports(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"2.4", `
			a:1:1 [0] NCCL INFO Ring 00 : 0[0] -> 1[1] via P2P/IPC
			a:1:1 [0] NCCL INFO Ring 01 : 0[0] -> 1[1] via P2P/direct pointer
			a:1:1 [0] NCCL INFO Ring 00 : 0 -> 2 via P2P/common device
			a:2:2 [1] NCCL INFO Ring 00 : 1[1] -> 0[0] via direct shared memory
			a:1:1 [0] NCCL INFO Ring 00 : 3 -> 0 [receive] via NET/IB/0
			b:1:1 [0] NCCL INFO Ring 00 : 3 -> 0 [send] via NET/IB/0/GDRDMA
		`, `
			inter-node NET/IB [receive] 1/1
			inter-node NET/IB/GDRDMA [send] 1/1
			intra-node P2P/IPC 1/1
			intra-node P2P/common device 1/1
			intra-node P2P/direct pointer 1/1
			intra-node SHM 1/1
		`},
		{"2.9", `
			a:1:1 [0] NCCL INFO Channel 00 : 0[1a000] -> 1[1c000] via P2P/IPC/read
			a:1:1 [0] NCCL INFO Channel 01 : 0[1a000] -> 2[88000] via P2P/indirect/1[1c000]/read
			a:1:1 [0] NCCL INFO CollNet 00 : 0 [send] via COLLNET/SHARP/0/GDRDMA
			a:1:1 [0] NCCL INFO Coll 01 : 0 [receive] via COLLNET/SHARP/0
		`, `
			inter-node COLLNET/SHARP [receive] 1/1
			inter-node COLLNET/SHARP/GDRDMA [send] 1/1
			intra-node P2P/IPC 1/1
			intra-node P2P/indirect 1/1
		`},
		{"2.18", `
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read/CE
			a:1:1 [0] NCCL INFO Channel 01 : 0[0] -> 1[1] via SHM/direct/CE
			a:1:1 [0] NCCL INFO Channel 02/1 : 0[0] -> 8[0] [send] via NET/IB/12(3)/GDRDMA/Shared
			a:1:1 [0] NCCL INFO Channel 02/1 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/0/Shared
			a:1:1 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA
		`, `
			inter-node COLLNET/SHARP/GDRDMA [send] 1/1
			inter-node NET/AWS Libfabric [receive] 1/1
			inter-node NET/IB/GDRDMA [send] 1/1
			intra-node P2P/CUMEM 1/1
			intra-node SHM 1/1
		`},
		{"2.28, of many nodes with one NVLink fabric", `
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL
			b:1:1 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/MNNVL
			a:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 2[0] [send] via NET/FasTrak/1/GDRDMA(PCI)/Shared
			a:1:1 [0] NCCL INFO Channel 63/0 : 0[0] -> 2[0] [send] via NET/FasTrak/1/GDRDMA(PCI)
		`, `
			inter-node NET/FasTrak/GDRDMA [send] 1/2
			inter-node P2P/MNNVL 2/2
		`},
		{"2.30", `
			a:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct
			a:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init COMPLETE
			a:1:1 [0] NCCL INFO NVLS comm 0xa0 headRank 0 nHeads 2 nvlsRanks 2 buffSize 1 nvlsPerRankSize 2 nvlsTotalSize 3
		`, `
			intra-node NVLS 1/0
			intra-node SHM 1/1
		`},
		{"RCCL", `
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[c000] -> 1[22000] via P2P/IPC comm 0x7f31 nRanks 08
			a:1:1 [0] NCCL INFO Channel 01 : 0[c000] -> 1[22000] via SHM/direct/direct comm 0x7f31 nRanks 08
		`, `
			intra-node P2P/IPC 1/1
			intra-node SHM 1/1
		`},
		{"no evidence of where the peer is", `
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0
			NCCL INFO Channel 00/0 : 2[0] -> 3[1] [send] via NET/Socket/0
		`, `
			unknown NET/Socket [send] 2/2
		`},
		{"another rank of the node has the peer's GPU", `
			a:1:1 [0] NCCL INFO Channel 00 : 0[1a000] -> 1[1c000] via P2P/IPC
			a:1:1 [0] NCCL INFO Channel 00 : 0[1a000] -> 9[1c000] [send] via NET/IB/0
		`, `
			inter-node NET/IB [send] 1/1
			intra-node P2P/IPC 1/1
		`},
		{"one node is known", `
			a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
		`, `
			intra-node NET/Socket [send] 1/1
		`},
		{"as many nodes as ranks", `
			a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[3] [send] via NET/Socket/0
		`, `
			inter-node NET/Socket [send] 1/1
		`},
		{"all ranks of the node are others", `
			a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
			a:2:2 [0] NCCL INFO comm 0x2 rank 1 nRanks 4 nNodes 2 localRanks 2 localRank 1 MNNVL 0
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[5] [send] via NET/IB/0/GDRDMA
		`, `
			inter-node NET/IB/GDRDMA [send] 1/1
		`},
		{"communicators of one process number their ranks anew", `
			a:1:1 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xa - Init START
			b:1:1 [0] NCCL INFO f comm 0x1 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xa - Init START
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
			a:1:1 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xa - Init COMPLETE
			b:1:1 [0] NCCL INFO f comm 0x1 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xa - Init COMPLETE
			a:1:1 [0] NCCL INFO f comm 0x2 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xb - Init START
			a:2:2 [1] NCCL INFO f comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 1c000 commId 0xb - Init START
			a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA
		`, `
			inter-node NET/IB/GDRDMA [send] 1/1
			intra-node NET/IB/GDRDMA [send] 1/1
		`},
		{"channels are told once", `
			a:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC
			a:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC/read
			a:1:1 [0] NCCL INFO Channel 01 : 0[0] -> 1[1] via P2P/IPC
		`, `
			intra-node P2P/IPC 1/2
		`},
		{"neither rings nor hints are transports", `
			a:1:1 [0] NCCL INFO Channel 00/24 :    0   1   2
			a:1:1 [0] NCCL INFO Channel 00/24 : 0
			a:1:1 [0] NCCL INFO Using network IB
			a:1:1 [0] NCCL INFO DMA-BUF is available on GPU device 0
			a:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
			a:1:1 [0] NCCL INFO GPU Direct RDMA Enabled for GPU 1a000 / HCA 0 (distance 4 <= 4), read 1
			a:1:1 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1
			a:1:1 [0] NCCL INFO Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1
			a:1:1 [0] NCCL INFO NVLS multicast support is available on dev 0
			a:1:1 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer
			a:1:1 [0] f:1 NCCL TRACE Ring 00 : 0[0] <- 1[1] via P2P/IPC
			they say "Channel 00 : 0[0] -> 1[1] via NET/Socket/0"
		`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := parse(t, trimmed(tt.text))
			if diff := cmp.Diff(trimmed(tt.want), sums(l)); diff != "" || l.Damaged > 0 {
				t.Errorf("damaged %d (-want +got):\n%s", l.Damaged, diff)
			}
		})
	}
}

// What launchers, terminals and people put around a line takes nothing from it.
func TestPrefixes(t *testing.T) {
	for _, prefix := range []string{
		"", "0: ", "0:", " 3: ", "[1,0]<stdout>:", "[1,12]<stderr>: ", "[rank0]:", "(Worker pid=4711) ", "(RayTrainWorker pid=99, ip=192.0.2.1) ", "[pod/trainer-0/main] ",
		"2026-11-29T16:11:15.332000Z ", "[2026-11-29 16:11:15] ", "Nov 29 16:11:15 login1 slurmd[812]: ", "\x1b[36m(worker)\x1b[0m ", "> ", "| ", "node1: ",
	} {
		for _, end := range []string{"\n", "\r\n", "\x1b[0m\n"} {
			text := prefix + "gpu-node-17:812:815 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM" + end +
				prefix + "gpu-node-17:812:815 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE" + end
			l := parse(t, text)
			if sums(l) != "intra-node P2P/CUMEM 1/1\n" || len(l.Ranks) != 1 || l.Ranks[0].Host != "gpu-node-17" || l.Ranks[0].PID != 812 || !l.Ranks[0].Complete {
				t.Errorf("%q: %s%+v", text, sums(l), l.Ranks)
			}
		}
	}
}

// A line that another process wrote into, or that was cut off, says what is left of it and no more.
func TestDamage(t *testing.T) {
	const a, b = "vm:812:812 [0] NCCL INFO ", "vm:813:813 [1] NCCL INFO "
	for _, tt := range []struct {
		name, text, want string
		damaged          int
	}{
		{"two on a line", a + "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM" + b + "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n\n", "intra-node P2P/CUMEM 2/2\n", 0},
		{"one within another", a + "Channel 00/0 : 0[0] -> " + b + "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n1[1] via P2P/CUMEM\n", "intra-node P2P/CUMEM 1/1\n", 1},
		{"what is missing might be /GDRDMA", a + "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0" + b + "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n/GDRDMA\n", "intra-node P2P/CUMEM 1/1\n", 1},
		{"the end is missing", a + "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0", "", 1},
		{"a word is cut", a + "Channel 00/0 : 0[0] -> 1[1] via P2P/CU\n", "", 1},
		{"a flag is cut", a + "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRD\n", "", 1},
		{"a rank is cut", a + "Channel 00/0 : 0[0] -> 1[\n", "", 1},
		{"the end of the text is enough", a + "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", "intra-node P2P/IPC 1/1\n", 0},
		{"GDRDMA is said", a + "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA", "inter-node NET/IB/GDRDMA [send] 1/1\n", 0},
		{"a number that is none", a + "Channel 00/0 : 99999999999[0] -> 1[1] via P2P/IPC\n", "", 1},
		{"another network than any", a + "Channel 00/0 : 0[0] -> 1[0] [send] via NET//0\n", "", 1},
		{"another transport than any", a + "Channel 00/0 : 0[0] -> 1[0] via SOMETHING/0\n", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := parse(t, a+"NCCL version 2.28.9+cuda13.0\n"+b+"NCCL version 2.28.9+cuda13.0\n"+tt.text)
			if got := sums(l); got != tt.want || l.Damaged != tt.damaged {
				t.Errorf("damaged %d, want %d:\n%s", l.Damaged, tt.damaged, got)
			}
			if !slices.Equal(l.Versions, []string{"2.28.9+cuda13.0"}) {
				t.Errorf("versions %q", l.Versions)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"NCCL version 2.7.8+cuda10.2":                                        "2.7.8+cuda10.2",
		"[1,0]<stdout>:NCCL version 2.12.7+cuda11.4":                         "2.12.7+cuda11.4",
		"vm:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0":                  "2.28.9+cuda13.0",
		"RCCL version 2.18.3+hip6.0 HEAD:1234":                               "RCCL 2.18.3+hip6.0",
		"NCCL version 2.19.3":                                                "2.19.3",
		"NCCL version mismatch with remote peer 192.0.2.1 (local: 1, remote": "",
		"NCCL version 2":                                                     "",
	} {
		l := parse(t, text+"\n")
		if got := strings.Join(l.Versions, " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if nccllog.IsMessage(text) != (want != "") {
			t.Errorf("%s: a message of NCCL's: %v", text, want == "")
		}
	}
}

func TestVariables(t *testing.T) {
	l := parse(t, trimmed(`
		a:1:1 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.
		b:1:1 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.
		c:1:1 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 18.
		a:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
		a:1:1 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /etc/topo.
		a:1:1 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC
		a:1:1 [0] NCCL INFO NET/Plugin: Plugin name set by env to libnccl-net-x.so
		a:1:1 [0] NCCL INFO TUNER/Plugin: Plugin name set by env to t.so
		a:1:1 [0] NCCL INFO PROFILER/Plugin: Plugin name set by env to p.so
		a:1:1 [0] NCCL INFO Comm config Blocking set to 1
		a:1:1 [0] NCCL INFO Comm config minCTAs reset to NCCL_MIN_CTAS=4
		a:1:1 [0] NCCL INFO NET/OFI Setting NCCL_PROTO to "simple"
		a:1:1 [0] NCCL INFO NET/OFI Setting provider_filter to efa
		a:1:1 [0] NCCL INFO Setting affinity for GPU 0 to ff
	`))
	var got []string
	for _, v := range l.Variables {
		got = append(got, fmt.Sprintf("%s=%s (%s %s) %d", v.Name, v.Value, v.Origin, v.By, v.Line))
	}
	const env = "(environment or a file of NCCL's ) "
	want := []string{
		"Blocking=1 (the program ) 10", "NCCL_IB_TIMEOUT=22 " + env + "1", "NCCL_IB_TIMEOUT=18 " + env + "3", "NCCL_MIN_CTAS=4 " + env + "11", "NCCL_NET_PLUGIN=libnccl-net-x.so " + env + "7",
		"NCCL_P2P_LEVEL=LOC " + env + "6", "NCCL_PROFILER_PLUGIN=p.so " + env + "9", "NCCL_PROTO=simple (a plugin NET/OFI) 12",
		"NCCL_SOCKET_IFNAME=eth0 " + env + "4", "NCCL_TOPO_FILE=/etc/topo. " + env + "5", "NCCL_TUNER_PLUGIN=t.so " + env + "8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v, ok := l.Value("NCCL_IB_TIMEOUT"); !ok || v.Value != "22" {
		t.Errorf("%+v", v)
	}
	if _, ok := l.Value("NCCL_DEBUG"); ok {
		t.Error("NCCL_DEBUG was not set")
	}
}

func TestHints(t *testing.T) {
	l := parse(t, trimmed(`
		a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE:0:1 [RO]; OOB eth0:192.0.2.1<0>
		a:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.1<0> [1]tun0:fe80::49cc:64e1:669:7ba8%tun0<0>
		a:1:1 [0] NCCL INFO NET/IB : No device found.
		a:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
		a:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1' (no module)
		a:1:1 [0] NCCL INFO Using network AWS Libfabric
		b:1:1 [0] NCCL INFO Using network AWS Libfabric
	`))
	want := nccllog.Log{
		Lines: 7, Messages: 7, NoHCA: true,
		Devices:   []nccllog.Device{{"IB", "mlx5_0", "IB"}, {"IB", "mlx5_1", "RoCE"}, {"Socket", "eth0", ""}, {"Socket", "tun0", ""}},
		GPUDirect: []nccllog.GPUDirectHint{{"IB", "mlx5_0", true, 4}, {"IB", "mlx5_1", false, 5}},
		Networks:  []nccllog.Network{{"AWS Libfabric", 2, 6}},
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"Cuda failure 802 'system not yet initialized'":                                                                                "cuda_not_initialised",
		"Cuda failure 1 'invalid argument'":                                                                                            "cuda",
		"Cuda failure 2 'out of memory'":                                                                                               "out_of_memory",
		"Call to ibv_open_device failed":                                                                                               "ib_open",
		"NET/IB : Unable to open device mlx5_bond_0":                                                                                   "ib_open",
		"Failed to open libibverbs.so[.1]":                                                                                             "ib_library",
		"Call to ibv_reg_mr failed with error Cannot allocate memory":                                                                  "ib_memlock",
		"Call to ibv_reg_mr_iova2 failed with error Bad address":                                                                       "ib_register",
		"Call to ibv_reg_dmabuf_mr failed with error Operation not supported":                                                          "ib_dmabuf",
		"Call to ibv_modify_qp failed with error Connection timed out":                                                                 "ib_connect",
		"Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1":                                                  "ib_connect",
		"NET/IB: Got completion from peer 192.0.2.7<35231> with status=12 opcode=0 len=0 vendor err 129":                               "ib_timeout",
		"NET/IB: Got completion from peer 192.0.2.7<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=1":                                  "ib_timeout",
		"NET/IB : Got completion with error 12, opcode 1, len 32631, vendor err 129":                                                   "ib_timeout",
		"NET/IB: Got completion from peer 192.0.2.7<1> with status=IBV_WC_LOC_PROT_ERR(4) opcode=1":                                    "ib_protection",
		"NET/IB: Got completion from peer 192.0.2.7<35231> with status=5 opcode=0 len=0 vendor err 249":                                "ib_completion",
		"NET/IB : mlx5_0:1 Got async event : GID table change":                                                                         "gid_changed",
		"NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)":                                                                  "ib_event",
		"Error: failed to extend /dev/shm/nccl-XyZ123 to 33030532 bytes, error: No space left on device":                               "shm_size",
		"Error while attaching to shared memory segment /dev/shm/nccl-XyZ123 (size 33030528)":                                          "shm",
		"P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case given their":                               "p2p_disabled_nvlink",
		"Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000":                                                         "duplicate_gpu",
		"Mismatched NCCL version detected : rank 0 version 22809 rank 1 version 22703":                                                 "versions",
		"Bootstrap : no socket interface found":                                                                                        "no_interface",
		"socketStartConnect: Connect to 192.0.2.7<38141> failed : Connection refused":                                                  "connect",
		"ncclOsSocketPollConnect: connect to 192.0.2.7<1> returned Connection timed out, exceeded error retry count after 35 attempts": "connect",
		"Net : Connection closed by remote peer node-2<44312>":                                                                         "peer_closed",
		"No transport found for rank 0[1a000] -> rank 1[1c000]":                                                                        "no_transport",
		"MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX configuration (nvidia-imex-ctl -N).":         "imex",
		"Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1 'invalid argument'.":                       "nvls_bind",
		`Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!`:                                     "iommu",
		"something that nobody knows":                                                                                                  "",
	} {
		l := parse(t, "\na:1:1 [0] file.cc:12 NCCL WARN "+text+"\n\nb:2:2 [0] misc/x.cc:12 (function) NCCL WARN "+text+"\n")
		if len(l.Warnings) != 1 || l.Warnings[0].ID != want || l.Warnings[0].Text != text || l.Warnings[0].Times != 2 || l.Warnings[0].Host != "a" {
			t.Errorf("%s: %+v, want %q", text, l.Warnings, want)
			continue
		}
		advice, ok := nccllog.Advise(want)
		if ok != (want != "") || ok && (advice.Means == "" || advice.Do == "") {
			t.Errorf("%s: %+v", want, advice)
		}
	}
	// As INFO it matters only where NCCL writes it so of something that is lost.
	l := parse(t, trimmed(`
		a:1:1 [0] NCCL INFO Cuda failure 1 'invalid argument'
		a:1:1 [0] NCCL INFO Failed to open libibverbs.so[.1]
		a:1:1 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.
		a:1:1 [0] NCCL INFO Failed to bind NVLink SHARP (NVLS) Multicast memory of size 9 : CUDA error 1 'invalid argument'. Proceeding without NVLS support.
		a:1:1 [0] NCCL INFO Invalid value 99999999999999999999 for NCCL_IB_TIMEOUT, using default 20.
		a:1:1 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1
	`))
	var got []string
	for _, w := range l.Warnings {
		got = append(got, w.ID)
	}
	if diff := cmp.Diff([]string{"ib_library", "p2p_disabled", "nvls_off", "invalid_value"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A failed initialisation is told from one that was tried in another way, from a failure later, and from a log that ends.
func TestFailures(t *testing.T) {
	const start = "a:1:1 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xa - Init START\n"
	const complete = "a:1:1 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xa - Init COMPLETE\n"
	const failing = "\na:1:9 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 bytes\na:1:9 [0] NCCL INFO transport/shm.cc:114 -> 2\na:1:9 [0] NCCL INFO init.cc:1270 -> 2 [Async thread]\n"
	const warning = "Error: failed to extend /dev/shm/nccl-a to 9 bytes"
	failure := func(init bool, line int) []nccllog.Failure {
		return []nccllog.Failure{{Host: "a", PID: 1, Init: init, Where: "transport/shm.cc:114", Code: 2, Warning: warning, Line: line}}
	}
	for _, tt := range []struct {
		name, text string
		want       []nccllog.Failure
		incomplete int
	}{
		{"in the initialisation", start + failing, failure(true, 4), 1},
		{"before it says that it begins", failing, failure(true, 3), 0},
		{"tried in another way", start + failing + complete, nil, 0},
		{"later", start + complete + failing, failure(false, 5), 0},
		{"of a second communicator", start + complete + strings.ReplaceAll(start, "0xa", "0xb") + failing, failure(true, 6), 1},
		{"a log that ends", start, nil, 1},
		{"in progress is no failure", start + complete + "a:1:1 [0] NCCL INFO group.cc:9 -> 7\n", nil, 0},
		{"a connection is no failure", start + complete + "a:1:1 [0] NCCL INFO Connected to proxy localRank 0 -> connection 0x7f\n", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := parse(t, tt.text)
			if diff := cmp.Diff(tt.want, l.Failures); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if l.InitFailed() != (len(tt.want) > 0 && tt.want[0].Init) || len(l.Incomplete()) != tt.incomplete {
				t.Errorf("init failed: %v; incomplete: %+v", l.InitFailed(), l.Incomplete())
			}
		})
	}
	for code, want := range map[int]string{1: "unhandled CUDA error", 2: "system error", 6: "remote error", 9: "result 9"} {
		if got := (nccllog.Failure{Code: code}).Result(); got != want {
			t.Errorf("%d is %q", code, got)
		}
	}
}

func TestAddress(t *testing.T) {
	for busID, want := range map[string]string{"60": "0000:00:06.0", "1b000": "0000:1b:00.0", "a01d0": "0000:a0:1d.0", "100000": "0001:00:00.0", "0x2000": "0000:02:00.0", "": "", "x": "", "9": "", "1234567890": ""} {
		if got := nccllog.Address(busID); got != want {
			t.Errorf("%s is %q, want %q", busID, got, want)
		}
	}
}

func TestSingleNode(t *testing.T) {
	rank := func(comm string, rank, size int, host string) string {
		return fmt.Sprintf("%s:%d:1 [0] NCCL INFO f comm 0x1 rank %d nranks %d cudaDev 0 nvmlDev 0 busId 1a000 commId %s - Init COMPLETE\n", host, rank+1, rank, size, comm)
	}
	for _, tt := range []struct {
		name, text           string
		single, known, alone bool
	}{
		{"nothing is said", "NCCL INFO Using network Socket\n", false, false, false},
		{"all ranks on one host", rank("0xa", 0, 2, "a") + rank("0xa", 1, 2, "a"), true, true, false},
		{"a rank is missing", rank("0xa", 0, 2, "a"), false, false, false},
		{"two hosts", rank("0xa", 0, 3, "a") + rank("0xa", 1, 3, "b"), false, true, false},
		{"one rank", rank("0xa", 0, 1, "a"), true, true, true},
		{"NCCL says so", rank("0xa", 0, 8, "a") + "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0\n", true, true, false},
		{"a node of many hosts", rank("0xa", 0, 8, "a") + "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 1\n", false, false, false},
		{"NCCL says otherwise", rank("0xa", 0, 8, "a") + "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0\n", false, true, false},
		{"a channel between nodes", "a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n", false, true, false},
	} {
		l := parse(t, tt.text)
		single, known := l.SingleNode()
		if single != tt.single || known != tt.known || l.Alone() != tt.alone {
			t.Errorf("%s: single %v, known %v, alone %v", tt.name, single, known, l.Alone())
		}
	}
}

// One job in three ways is told apart, also where NCCL counts one host as two nodes.
func TestThreeWays(t *testing.T) {
	text, err := os.ReadFile("testdata/socket-2.28.9.log")
	if err != nil {
		t.Fatal(err)
	}
	l := parse(t, string(text))
	if got, want := sums(l), "intra-node NET/Socket [receive] 2/4\nintra-node NET/Socket [send] 2/4\n"; got != want {
		t.Errorf("%s", got)
	}
	for _, name := range []string{"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"} {
		if v, _ := l.Value(name); v.Value != "1" {
			t.Errorf("%s is %q", name, v.Value)
		}
	}
	for file, want := range map[string]string{"nccl-p2p.log": "intra-node P2P/CUMEM 2/48\n", "nccl-shm.log": "intra-node SHM 2/8\n"} {
		l := parse(t, capture(t, "h200x2/"+file))
		if got := sums(l); got != want || l.Damaged > 0 || len(l.Ranks) != 2 {
			t.Errorf("%s: %s", file, got)
		}
	}
}

// capture reads a capture beside the directory of real cases.
func capture(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("BUSBAR_CASES")
	if dir == "" {
		t.Skip("BUSBAR_CASES is not set: it names the directory of real cases")
	}
	text, err := os.ReadFile(filepath.Join(dir, "..", "captures", name))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("there are no captures: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What public logs used is what their index says.
func TestPublicLogs(t *testing.T) {
	const dir = "public/nccl-logs/"
	n := 0
	for line := range strings.Lines(capture(t, dir+"INDEX.tsv")) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if columns[0] == "file" {
			continue
		}
		n++
		l := parse(t, capture(t, dir+columns[0]))
		// The index writes how P2P copies ("/read") behind it, which is no other way.
		want := strings.ReplaceAll(columns[3], "/read", "")
		if got := used(l); got != want {
			t.Errorf("%s used %s, want %s:\n%s", columns[0], got, want, l)
		}
		version, _, _ := strings.Cut(columns[2], " ")
		if columns[0] == "v100-opa-16nodes-2.7.8.log" {
			version += "+cuda10.2" // the index says that the line is not there; it is
		}
		if !slices.Equal(l.Versions, []string{version}) {
			t.Errorf("%s is of %q, want %q", columns[0], l.Versions, version)
		}
		if len(l.Warnings)+len(l.Failures)+l.Damaged > 0 {
			t.Errorf("%s: %+v %+v, damaged %d", columns[0], l.Warnings, l.Failures, l.Damaged)
		}
		if len(l.Of(nccllog.UnknownScope)) > 0 {
			t.Errorf("%s: pairs of which nothing says where they are:\n%s", columns[0], l)
		}
	}
	if n < 5 {
		t.Errorf("the index has %d logs", n)
	}
}

// used is what a log used, in the words of the index.
func used(l nccllog.Log) string {
	gdr := "no"
	names := func(scope nccllog.Scope) string {
		var list []string
		for _, s := range l.Of(scope) {
			if s.GDRDMA {
				gdr = "yes"
				s.GDRDMA = false
			}
			if name := s.String(); !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		if list == nil {
			return "none"
		}
		return strings.Join(list, ",")
	}
	intra, inter := names(nccllog.IntraNode), names(nccllog.InterNode)
	if l.Alone() {
		intra += " (1 rank)"
	}
	return fmt.Sprintf("intra=%s; inter=%s; gdr=%s", intra, inter, gdr)
}

// Whatever a text is, reading it ends, and is bounded.
func TestBounds(t *testing.T) {
	var b strings.Builder
	for i := range 70_000 {
		fmt.Fprintf(&b, "a:1:1 [0] NCCL INFO Channel 00/0 : %d[0] -> %d[1] [send] via NET/Socket/0\n", i, i+1)
	}
	l := parse(t, b.String())
	if len(l.Pairs) != 1024 || l.PairsLeftOut != 70_000-1024 || sums(l) != "intra-node NET/Socket [send] 65535/65535\nunknown NET/Socket [send] 4465/4465\n" {
		t.Errorf("%d pairs, %d left out: %s", len(l.Pairs), l.PairsLeftOut, sums(l))
	}
	long := strings.Repeat("x", 1<<20)
	l = parse(t, long+"NCCL INFO Using network Socket\n"+"a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"+"a:1:1 [0] NCCL INFO Using network "+long+"\n")
	if sums(l) != "intra-node P2P/IPC 1/1\n" || l.Lines != 3 || len(l.Networks) != 0 {
		t.Errorf("%d lines, %+v: %s", l.Lines, l.Networks, sums(l))
	}
	if l, err := nccllog.Read(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("NCCL INFO Using network IB\n")))); err == nil || l.Lines > 1 {
		t.Errorf("%v %+v", err, l)
	}
}

// FuzzParse: nothing that a text says makes a log of it that cannot be written down and read again.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/socket-2.28.9.log")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("[1,0]<stdout>:w-0:25:66 [0] NCCL INFO Channel 00 : 9[101d0] -> 0[101c0] [receive] via NET/AWS Libfabric/1/GDRDMA\n")
	f.Add("vm:812:812 [0] NCCL INFO Channel 00/0 : 0[0] -> vm:813:813 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n1[1] via P2P/CUMEM")
	f.Add("\x1b[31ma:1:1 [0] x.cc:3 (f) NCCL WARN Cuda failure 802 'system not yet initialized'\r\na:1:1 [0] NCCL INFO init.cc:1 -> 1\n")
	f.Add("a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0\nNCCL INFO Comm config a reset to NCCL_B=2\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := nccllog.Parse(text)
		channels := 0
		for _, s := range l.Transports {
			channels += s.Channels
			if s.Pairs < 1 || s.Kind == "" || s.Scope == "" {
				t.Errorf("%+v", s)
			}
		}
		if l.Messages < channels {
			t.Errorf("%d messages have %d channels", l.Messages, channels)
		}
		for _, p := range l.Pairs {
			if p.Scope == nccllog.InterNode && (p.Kind == nccllog.SHM || p.Kind == nccllog.P2P && p.Name != nccllog.MNNVL) {
				t.Errorf("%+v", p)
			}
		}
		if again := nccllog.Parse(text); !cmp.Equal(l, again) {
			t.Errorf("read twice:\n%s", cmp.Diff(l, again))
		}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var read nccllog.Log
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l, read); diff != "" {
			t.Errorf("written and read again (-want +got):\n%s", diff)
		}
	})
}
