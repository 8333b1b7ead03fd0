package checks_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"busbar/checks"
	"busbar/internal/nccllog"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
	"busbar/plan/sink"
)

const ncclLogPath = "/var/log/nccl.%h"

// jobLeft is a node on which a job left a log.
func jobLeft(f node.Facts, text ...string) node.Facts {
	return f.With(node.NCCLLog.Answer(ncclLogPath, node.Known(node.NCCLLogState{Files: []string{"/var/log/nccl.a"}, Log: nccllog.Parse(strings.Join(text, ""))}, node.Source{Path: "/var/log/nccl.a"})))
}

// said is a line of NCCL's for each text.
func said(texts ...string) string {
	var b strings.Builder
	for _, t := range texts {
		fmt.Fprintf(&b, "a:1:1 [0] NCCL INFO %s\n", t)
	}
	return b.String()
}

// twoRanks are those of one node, with its first GPUs.
var twoRanks = "a:1:1 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init COMPLETE\n" +
	"a:2:2 [1] NCCL INFO f comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2b000 commId 0x9 - Init COMPLETE\n"

func TestNCCLTransport(t *testing.T) {
	block := func(arguments string) string {
		return fmt.Sprintf("check \"nccl_transport\" \"job\" {\nlog = %q\n%s\n}", ncclLogPath, arguments)
	}
	plain := block("")
	shm := twoRanks + said("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")
	netIntra := twoRanks + said("Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0", "Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0")
	off := said("NCCL_P2P_DISABLE set by environment to 1")
	const rdma = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"
	const received = "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0"
	apart := func(b *box) { b.cards[1].function.NUMANode = 1 }
	conf := func(f node.Facts, text string) node.Facts {
		return f.With(node.File.Answer(sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: text}, node.Source{Path: sink.NCCLPath})))
	}
	geForce := func(b *box) {
		for _, c := range b.cards {
			s, _ := c.state.Get()
			s.Product = known("NVIDIA GeForce RTX 4090")
			c.state = known(s)
		}
	}
	none := plantest.Node()
	failed := "a:1:1 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init START\n" +
		"\na:1:1 [0] misc/ibvwrap.cc:9 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory\na:1:1 [0] NCCL INFO init.cc:1270 -> 2 [Async thread]\n"
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("over NVLink", plain, jobLeft(hgx(2), twoRanks, said("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM/read")),
			"ok nccl_transport.intra_node P2P/CUMEM (/var/log/nccl.a:3)", "2 pairs of ranks of one node (0 -> 1 and others) took P2P/CUMEM"),
		judge("NVLink SHARP and CollNet", plain, jobLeft(none, twoRanks, said("NVLS comm 0x1 headRank 0 nHeads 2 buffSize 1", "CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA")),
			"ok nccl_transport.inter_node COLLNET/SHARP/GDRDMA (/var/log/nccl.a:4)\nok nccl_transport.intra_node NVLS (/var/log/nccl.a:3)"),

		// Shared memory is judged by what was possible.
		judge("shared memory though NVLink is there", plain, jobLeft(hgx(2), shm), "drift nccl_transport.intra_node SHM (/var/log/nccl.a:3)",
			"ranks of one node (0 -> 1) took SHM: host memory, not GPU to GPU\nlook at what the driver allows (nvidia-smi topo -p2p r, check p2p), at ACS and the IOMMU"),
		judge("shared memory because P2P was turned off", plain, jobLeft(none, off, shm).With(node.File.Answer(sink.NCCLPath, denied[node.FileState]())), "drift nccl_transport.intra_node SHM (/var/log/nccl.a:4)\ndrift info nccl_transport.variable NCCL_P2P_DISABLE (/var/log/nccl.a:1)",
			"NCCL_P2P_DISABLE=1 is in force: take it out of the job's environment, ~/.nccl.conf or /etc/nccl.conf"),
		judge("the file that turned it off", plain, conf(jobLeft(none, off, shm), "A=1\nNCCL_P2P_DISABLE=1\n"), "drift nccl_transport.intra_node SHM (/var/log/nccl.a:4)\ndrift info nccl_transport.variable NCCL_P2P_DISABLE (/var/log/nccl.a:1)",
			"NCCL_P2P_DISABLE=1 is in force: take it out of /etc/nccl.conf:2, or the job's environment"),
		judge("not that file", plain, conf(jobLeft(none, off, shm), "A=1\n"), "drift nccl_transport.intra_node SHM (/var/log/nccl.a:4)\ndrift info nccl_transport.variable NCCL_P2P_DISABLE (/var/log/nccl.a:1)",
			"take it out of the job's environment or its ~/.nccl.conf (/etc/nccl.conf does not have it)"),
		judge("a user's file", plain, jobLeft(none, off, shm).With(plantest.Files(node.NCCLUserFiles, map[string]string{"/root/.nccl.conf": "NCCL_P2P_DISABLE=0x1\n"})),
			"drift nccl_transport.intra_node SHM (/var/log/nccl.a:4)\ndrift info nccl_transport.variable NCCL_P2P_DISABLE (/var/log/nccl.a:1)", "take it out of /root/.nccl.conf:1, or the job's environment"),
		judge("shared memory, and the driver allows no P2P", plain, jobLeft(newBox("26b9", 2, peers(func(p *node.P2PPair) { p.Read = known(node.P2PGPUNotSupported) })), shm),
			"ok nccl_transport.intra_node SHM (/var/log/nccl.a:3)", "the driver does not let them reach each other: GPU not supported (GNS)"),
		judge("shared memory, and P2P would cross processors", plain, jobLeft(newBox("26b9", 2, apart), shm), "ok nccl_transport.intra_node SHM (/var/log/nccl.a:3)", "they are SYS apart, and NCCL uses P2P up to PXB"),
		judge("shared memory, and nothing is known of the GPUs", plain, jobLeft(none, shm), "drift warn nccl_transport.intra_node SHM (/var/log/nccl.a:3)", "whether P2P is possible between these GPUs is not known"),
		judge("shared memory, and the ranks' GPUs are not known", plain, jobLeft(hgx(2), said("Channel 00 : 0[0] -> 1[1] via SHM/direct")), "drift warn nccl_transport.intra_node SHM (/var/log/nccl.a:1)"),
		judge("P2P is wanted", block(`intra_node = "p2p"`), jobLeft(newBox("26b9", 2, apart), shm), "drift nccl_transport.intra_node SHM (/var/log/nccl.a:3)"),
		judge("shared memory is enough", block(`intra_node = "shm"`), jobLeft(none, off, shm), "ok nccl_transport.intra_node SHM (/var/log/nccl.a:4)\ndrift info nccl_transport.variable NCCL_P2P_DISABLE (/var/log/nccl.a:1)"),
		judge("the driver says that P2P is off", plain, jobLeft(none, shm, said("P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.")),
			"drift warn nccl_transport.intra_node SHM (/var/log/nccl.a:3)\ndrift warn nccl_transport.warning p2p_disabled (/var/log/nccl.a:4)", "NCCL says why: \"P2P is disabled between connected GPUs 1 and 0."),

		judge("a socket within a node", plain, jobLeft(none, off, said("NCCL_SHM_DISABLE set by environment to 1."), netIntra),
			"drift nccl_transport.intra_node NET/Socket (/var/log/nccl.a:5)\ndrift info nccl_transport.variable NCCL_P2P_DISABLE (/var/log/nccl.a:1)\ndrift info nccl_transport.variable NCCL_SHM_DISABLE (/var/log/nccl.a:2)",
			"ranks of one node (0 -> 1) took NET/Socket: a network, though they share one machine\nNCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 are in force: take them out of the job's environment or its ~/.nccl.conf"),
		judge("a NIC within a node, nearer than the processors", plain, jobLeft(none, twoRanks, said("Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA")),
			"drift warn nccl_transport.intra_node NET/IB/GDRDMA (/var/log/nccl.a:3)", "NCCL takes a NIC between GPUs of one node where that is faster"),
		judge("anything within a node", block(`intra_node = "any"`), jobLeft(none, netIntra), "ok nccl_transport.intra_node NET/Socket (/var/log/nccl.a:3)"),

		judge("GPUDirect RDMA", plain, jobLeft(none, said(rdma+"/GDRDMA", received+"/GDRDMA")), "ok nccl_transport.inter_node NET/IB/GDRDMA (/var/log/nccl.a:1)"),
		judge("RDMA without GPUDirect", plain, jobLeft(none, said(rdma, received)), "drift nccl_transport.inter_node NET/IB (/var/log/nccl.a:1)",
			"ranks of different nodes (0 -> 8) took NET/IB without GPUDirect RDMA\nload nvidia-peermem or use DMA-BUF (block gpudirect), and look how far GPU and NIC are apart"),
		judge("RDMA without GPUDirect, which NCCL did not find", plain, jobLeft(none, said("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", rdma, received)), "drift nccl_transport.inter_node NET/IB (/var/log/nccl.a:2)",
			"NCCL found neither nvidia-peermem nor DMA-BUF for mlx5_0: block gpudirect"),
		judge("RDMA without GPUDirect, which NCCL found", plain, jobLeft(none, said("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", rdma, received)), "drift nccl_transport.inter_node NET/IB (/var/log/nccl.a:2)",
			"NCCL found GPUDirect RDMA (mlx5_0) and did not use it: GPU and NIC are farther apart than PXB, check rails"),
		judge("RDMA without GPUDirect, which a variable turned off", plain, jobLeft(none, said("NCCL_NET_GDR_LEVEL set by environment to LOC", rdma, received)),
			"drift nccl_transport.inter_node NET/IB (/var/log/nccl.a:2)\ndrift info nccl_transport.variable NCCL_NET_GDR_LEVEL (/var/log/nccl.a:1)", "NCCL_NET_GDR_LEVEL=LOC is in force"),
		judge("some pairs have GPUDirect", plain, jobLeft(none, said(rdma+"/GDRDMA", received+"/GDRDMA", "Channel 00/0 : 9[0] -> 0[0] [receive] via NET/IB/0", "Channel 00/0 : 0[0] -> 9[0] [send] via NET/IB/0")),
			"drift nccl_transport.inter_node NET/IB (/var/log/nccl.a:3)\nok nccl_transport.inter_node NET/IB/GDRDMA (/var/log/nccl.a:1)", "took NET/IB without GPUDirect RDMA, 1 with it"),
		judge("GPUDirect is for receiving alone", plain, jobLeft(none, said(rdma, received+"/GDRDMA")), "ok nccl_transport.inter_node NET/IB (/var/log/nccl.a:1)\nok nccl_transport.inter_node NET/IB/GDRDMA (/var/log/nccl.a:2)",
			"took NET/IB where they send, with GPUDirect RDMA where they receive"),
		judge("GPUDirect is wanted for sending too", block(`inter_node = "gdrdma"`), jobLeft(none, said(rdma, received+"/GDRDMA")), "drift nccl_transport.inter_node NET/IB (/var/log/nccl.a:1)\nok nccl_transport.inter_node NET/IB/GDRDMA (/var/log/nccl.a:2)",
			"that is NCCL's default for GPUs before Ampere without NVLink"),
		judge("RDMA is enough", block(`inter_node = "ib"`), jobLeft(none, said(rdma, received)), "ok nccl_transport.inter_node NET/IB (/var/log/nccl.a:1)"),
		judge("Omni-Path has none", plain, jobLeft(none, said("NET/IB : Using [0]hfi1_0:1/IB [1]hfi1_1:1/IB ; OOB ib0:192.0.2.1<0>", rdma)), "ok nccl_transport.inter_node NET/IB (/var/log/nccl.a:2)", "as Omni-Path (hfi1_0) has none in its verbs"),
		judge("GeForce has none", plain, jobLeft(newBox("2684", 2, geForce), said(rdma)), "ok nccl_transport.inter_node NET/IB (/var/log/nccl.a:1)", "as GeForce has none"),
		judge("a plugin's network", plain, jobLeft(none, said("Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0")), "ok nccl_transport.inter_node NET/AWS Libfabric (/var/log/nccl.a:1)", `inter_node = "gdrdma" demands it`),
		judge("a plugin's network without what is wanted", block(`inter_node = "gdrdma"`), jobLeft(none, said("Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0")), "drift nccl_transport.inter_node NET/AWS Libfabric (/var/log/nccl.a:1)"),
		judge("sockets between nodes", plain, jobLeft(none, said("NET/IB : No device found.", "Using network Socket", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0")), "drift nccl_transport.inter_node NET/Socket (/var/log/nccl.a:3)",
			"ranks of different nodes (0 -> 8) took NET/Socket: TCP, no RDMA\nNCCL found no RDMA device"),
		judge("sockets between nodes because RDMA was turned off", plain, jobLeft(none, said("NCCL_IB_DISABLE set by environment to 1.", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0")),
			"drift nccl_transport.inter_node NET/Socket (/var/log/nccl.a:2)\ndrift info nccl_transport.variable NCCL_IB_DISABLE (/var/log/nccl.a:1)", "NCCL_IB_DISABLE=1 is in force"),
		judge("sockets are meant", block(`inter_node = "any"`), jobLeft(none, said("Using network Socket", "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0")), "ok nccl_transport.inter_node NET/Socket (/var/log/nccl.a:2)"),
		judge("sockets between ranks of which nothing says where they are", plain, jobLeft(none, said("Channel 00/0 : 0[0] -> 8[1] [send] via NET/Socket/0")), "drift nccl_transport.inter_node NET/Socket, nodes unknown (/var/log/nccl.a:1)", "ranks (0 -> 8) took NET/Socket"),
		judge("an NVLink fabric of several nodes", block(`inter_node = "gdrdma"`), jobLeft(none, twoRanks, said("Channel 00/0 : 0[0] -> 8[0] via P2P/MNNVL")), "ok nccl_transport.inter_node P2P/MNNVL (/var/log/nccl.a:3)"),
		judge("one node, and a network is wanted", block(`inter_node = "gdrdma"`), jobLeft(none, twoRanks, said("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC")),
			"skipped nccl_transport.inter_node ranks of different nodes (/var/log/nccl.a)\nok nccl_transport.intra_node P2P/IPC (/var/log/nccl.a:3)"),

		// What NCCL found and chose is judged only where no channel says what was taken.
		judge("sockets are chosen, and no channel is shown", plain, jobLeft(none, said("NET/IB : No device found.", "Using network Socket")),
			"unknown nccl_transport.channels transports (/var/log/nccl.a)\ndrift nccl_transport.network network (/var/log/nccl.a:2)", "NCCL found no RDMA device and chose sockets: what goes between nodes goes over TCP", "let the job run a collective"),
		judge("sockets are chosen on one node, and no channel is shown", plain, jobLeft(none, twoRanks, said("NET/IB : No device found.", "Using network Socket")), "unknown nccl_transport.channels transports (/var/log/nccl.a)"),
		judge("sockets are chosen, and one node needs none", plain, jobLeft(none, twoRanks, said("NET/IB : No device found.", "Using network Socket", "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC")), "ok nccl_transport.intra_node P2P/IPC (/var/log/nccl.a:5)"),
		judge("that IB is chosen says nothing", plain, jobLeft(none, said("Using network IB", "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "DMA-BUF is available on GPU device 0")), "unknown nccl_transport.channels transports (/var/log/nccl.a)"),
		judge("GPUDirect RDMA is not found", plain, jobLeft(none, said("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")),
			"unknown nccl_transport.channels transports (/var/log/nccl.a)\ndrift nccl_transport.gpudirect GPUDirect RDMA (/var/log/nccl.a:1)", "NCCL finds no GPUDirect RDMA for mlx5_0"),
		judge("GPUDirect RDMA is not found on one node", plain, jobLeft(none, twoRanks, said("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC")),
			"drift warn nccl_transport.gpudirect GPUDirect RDMA (/var/log/nccl.a:3)\nok nccl_transport.intra_node P2P/IPC (/var/log/nccl.a:4)", "this job, on one node, does not need it"),
		judge("one HCA of two has GPUDirect RDMA", plain, jobLeft(none, twoRanks, said("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "NET/IB : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'", "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC")),
			"ok nccl_transport.intra_node P2P/IPC (/var/log/nccl.a:5)"),
		judge("one rank", plain, jobLeft(none, said("f comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init START", "NET/IB : No device found.", "Using network Socket")), "skipped nccl_transport.channels transports (/var/log/nccl.a)"),
		judge("channels are damaged", plain, jobLeft(none, said("Channel 00/0 : 0[0] -> 1[")), "unknown nccl_transport.channels transports (/var/log/nccl.a)", "1 lines of channels are damaged", "NCCL_DEBUG_FILE=/var/log/nccl.%h.%p"),

		// A failed initialisation is no slow transport.
		judge("the initialisation failed", plain, jobLeft(none, failed, said("Using network Socket")), `
			skipped nccl_transport.channels transports (/var/log/nccl.a)
			drift nccl_transport.init process 1 on a (/var/log/nccl.a:4)
			drift nccl_transport.warning ib_memlock (/var/log/nccl.a:3)
		`, "process 1 on a could not initialise NCCL: system error (init.cc:1270)", "raise memlock to unlimited"),
		judge("it failed later", plain, jobLeft(none, twoRanks, said("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"), "\na:1:9 [0] transport/net_ib.cc:9 NCCL WARN NET/IB: Got completion from peer 192.0.2.7<9> with status=12 opcode=0 len=0 vendor err 129\n", said("proxy.cc:9 -> 6 [Progress Thread]")), `
			ok nccl_transport.intra_node P2P/IPC (/var/log/nccl.a:3)
			drift nccl_transport.run process 1 on a (/var/log/nccl.a:6)
			drift nccl_transport.warning ib_timeout (/var/log/nccl.a:5)
		`, "process 1 on a failed with NCCL's remote error after it had begun (proxy.cc:9)"),
		judge("it does not end", plain, jobLeft(none, said("f comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init START")),
			"unknown nccl_transport.channels transports (/var/log/nccl.a)\ndrift warn nccl_transport.init rank 0 (/var/log/nccl.a)", "the log is cut off, or the initialisation hangs"),
		judge("a warning that nobody knows", plain, jobLeft(none, twoRanks, said("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"), "\na:1:1 [0] x.cc:1 NCCL WARN oddly\na:1:1 [0] x.cc:1 NCCL WARN oddly\n"),
			"ok nccl_transport.intra_node P2P/IPC (/var/log/nccl.a:3)\ndrift info nccl_transport.warning oddly (/var/log/nccl.a:5)", "NCCL warns 2 times: oddly"),

		judge("no log", plain, none.With(node.NCCLLog.Answer(ncclLogPath, node.Known(node.NCCLLogState{}, node.Source{Path: ncclLogPath}))), "unknown nccl_transport.log "+ncclLogPath+" ("+ncclLogPath+")", "no job has left "+ncclLogPath),
		judge("a log of something else", plain, jobLeft(none, "hello\n"), "unknown nccl_transport.log "+ncclLogPath+" (/var/log/nccl.a)", "holds no message of NCCL's"),
		judge("a log that cannot be read", plain, none.With(node.NCCLLog.Answer(ncclLogPath, node.Unknown[node.NCCLLogState]("permission denied", node.Source{Path: ncclLogPath}))),
			"unknown nccl_transport.log "+ncclLogPath+" ("+ncclLogPath+")", "what NCCL took is unknown: permission denied"),
	})
}

// One job in three ways is told apart.
func TestNCCLTransportSocket(t *testing.T) {
	text, err := os.ReadFile("../internal/nccllog/testdata/socket-2.28.9.log")
	if err != nil {
		t.Fatal(err)
	}
	blocks := plantest.Blocks(t, checks.All(), `check "nccl_transport" "job" { log = "`+ncclLogPath+`" }`)
	p := plantest.Planner(checks.All()).Plan(blocks, jobLeft(plantest.Node(), string(text)))
	for _, f := range p.Findings {
		if f.ID == "nccl_transport.intra_node" {
			if f.Status != plan.Drift || f.Severity != plan.Error || f.Found != "NET/Socket" || !strings.Contains(f.Fix, "NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 are in force") {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("nothing is said of the transport")
}

// Of the logs of several processes that one is named that says it, at its own line.
func TestNCCLTransportFiles(t *testing.T) {
	log := nccllog.NewParser()
	var starts []int
	for _, text := range []string{twoRanks, said("Channel 00 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 00/0 : 0[0] -> 8[3] [send] via NET/Socket/0")} {
		p := nccllog.NewParser()
		if err := p.Read(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		starts = append(starts, log.Join(p))
	}
	state := node.NCCLLogState{Files: []string{"a", "b"}, Starts: starts, Log: log.Log()}
	facts := plantest.Node().With(node.NCCLLog.Answer(ncclLogPath, node.Known(state, node.Source{Path: "a and 1 more"})))
	blocks := plantest.Blocks(t, checks.All(), `check "nccl_transport" "job" { log = "`+ncclLogPath+`" }`)
	for _, f := range plantest.Planner(checks.All()).Plan(blocks, facts).Findings {
		if f.Found == "NET/Socket" {
			if f.Source != (node.Source{Path: "b", Line: 2}) {
				t.Errorf("%+v", f.Source)
			}
			return
		}
	}
	t.Error("nothing is said of sockets")
}

func TestNCCLTransportValidate(t *testing.T) {
	for text, want := range map[string]string{
		`log = "/var/log/nccl.%h.%p"`: "",
		`log = "/var/%%p/nccl"`:       "",
		`log = "/var/%p/nccl"`:        "%p in the name of a directory",
	} {
		problems := checks.NCCLTransport{}.Validate(plantest.Blocks(t, checks.All(), `check "nccl_transport" "job" { `+text+` }`)[0])
		got := ""
		for _, p := range problems {
			got += p.Summary
		}
		if got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
