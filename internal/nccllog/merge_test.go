package nccllog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/nccllog"
)

func reading(text string) *nccllog.Parser {
	p := nccllog.NewParser()
	for line := range strings.Lines(text) {
		p.Line(strings.TrimSuffix(line, "\n"), true)
	}
	return p
}

// rankLog is the log of one rank of four, two on each host, as NCCL 2.28 writes it with a file for each process.
func rankLog(comm string, rank int, host string) string {
	prefix := fmt.Sprintf("%s:%d:%d [%d] NCCL INFO ", host, 100+rank, 200+rank, rank%2)
	next, nextGPU := (rank+1)%4, (rank+1)%2
	via := fmt.Sprintf("%d[%d] -> %d[%d] via P2P/CUMEM", rank, rank%2, next, nextGPU)
	if rank%2 == 1 {
		via = fmt.Sprintf("%d[%d] -> %d[%d] [send] via NET/IB/0/GDRDMA", rank, rank%2, next, nextGPU)
	}
	return "job starts\n" +
		prefix + fmt.Sprintf("ncclCommInitRankConfig comm 0x5581%d rank %d nranks 4 cudaDev %d nvmlDev %d busId %d000 %s- Init START\n", rank, rank, rank%2, rank%2, 1+rank%2, comm) +
		prefix + "Channel 00/0 : " + via + "\n" +
		prefix + fmt.Sprintf("ncclCommInitRankConfig comm 0x5581%d rank %d nranks 4 cudaDev %d nvmlDev %d busId %d000 %s- Init COMPLETE\n", rank, rank, rank%2, rank%2, 1+rank%2, comm)
}

// A file of each rank does not tell where the others are; together they do.
func TestJoin(t *testing.T) {
	for _, comm := range []string{"commId 0xfe12 ", ""} {
		all, starts := nccllog.NewParser(), []int{}
		for rank, host := range []string{"a", "a", "b", "b"} {
			p := reading(rankLog(comm, rank, host))
			if rank > 0 && !nccllog.SameJob(all, p) {
				t.Fatalf("%q: rank %d is of another job", comm, rank)
			}
			starts = append(starts, all.Join(p))
		}
		if diff := cmp.Diff([]int{1, 5, 9, 13}, starts); diff != "" {
			t.Error(diff)
		}
		log := all.Log()
		if diff := cmp.Diff("inter-node NET/IB/GDRDMA [send] 2/2\nintra-node P2P/CUMEM 2/2\n", sums(log)); diff != "" {
			t.Errorf("%q: %s", comm, diff)
		}
		if len(log.Ranks) != 4 || len(log.Incomplete()) != 0 || log.Lines != 16 || log.Transports[0].Line != 7 {
			t.Errorf("%q: ranks %v, %d lines, transports %v", comm, log.Ranks, log.Lines, log.Transports)
		}
		if single, known := log.SingleNode(); single || !known {
			t.Errorf("%q: one node: %v, known %v", comm, single, known)
		}
		if alone := reading(rankLog(comm, 1, "a")); nccllog.SameJob(all, alone) != (comm != "") {
			t.Errorf("%q: a second log of rank 1", comm)
		}
	}
	other := reading(rankLog("commId 0x77 ", 0, "a"))
	if nccllog.SameJob(reading(rankLog("commId 0x78 ", 1, "a")), other) || nccllog.SameJob(other, reading("nothing of NCCL's\n")) || nccllog.SameJob(other, reading(rankLog("", 1, "a"))) {
		t.Error("logs of several jobs are taken for one")
	}
}

// What several logs have is one: a warning, a variable, a network.
func TestJoinLists(t *testing.T) {
	const text = `a:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:192.0.2.1<0>
a:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)
a:1:1 [0] NCCL INFO Using network IB
a:1:1 [0] misc/socket.cc:1 NCCL WARN Call to recv from 192.0.2.2<1> failed : Connection reset by peer
a:1:1 [0] NCCL INFO misc/socket.cc:9 -> 2
NCCL version 2.28.9+cuda13.0
`
	all := nccllog.NewParser()
	for range 3 {
		all.Join(reading(text))
	}
	one, log := nccllog.Parse(text), all.Log()
	one.Lines, one.Messages = 3*one.Lines, 3*one.Messages
	one.Networks[0].Times, one.Warnings[0].Times = 3, 3
	if diff := cmp.Diff(one, log); diff != "" {
		t.Error(diff)
	}
}

// Ranks of one host are never of different nodes, whatever else looks so; ranks of hosts with names of their own are.
func TestHosts(t *testing.T) {
	for name, tt := range map[string]struct{ a, b, want string }{
		"containers of one host":         {"a", "a", "unknown NET/Socket [send] 1/1\n"},
		"two hosts":                      {"a", "b", "inter-node NET/Socket [send] 1/1\n"},
		"hosts without names":            {"localhost", "localhost", "inter-node NET/Socket [send] 1/1\n"},
		"srun --label":                   {"0: a", "1: a", "unknown NET/Socket [send] 1/1\n"},
		"mpirun --tag-output":            {"[1,0]<stdout>:a", "[1,1]<stdout>:b", "inter-node NET/Socket [send] 1/1\n"},
		"prterun, names in front (pdsh)": {"[prterun-a-17@1,0]<stdout>: a", "b: b", "inter-node NET/Socket [send] 1/1\n"},
		"torchrun":                       {"[default0]:a", "[rank1]:b", "inter-node NET/Socket [send] 1/1\n"},
	} {
		log := nccllog.Parse(tt.a + ":1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5 - Init START\n" +
			tt.b + ":2:2 [0] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5 - Init START\n" +
			tt.a + ":1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n")
		if got := sums(log); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
		single, known := log.SingleNode()
		if wantInter := strings.HasPrefix(tt.want, "inter"); known != wantInter && name != "containers of one host" && name != "srun --label" || single && wantInter {
			t.Errorf("%s: one node: %v, known %v", name, single, known)
		}
	}
	// NCCL counts two nodes where containers of one host share no memory.
	log := nccllog.Parse("a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5 - Init START\n" +
		"a:2:2 [0] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000 commId 0x5 - Init START\n" +
		"a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n")
	if single, known := log.SingleNode(); single || known {
		t.Errorf("one node: %v, known %v", single, known)
	}
}

func FuzzJoin(f *testing.F) {
	f.Add(rankLog("commId 0xfe12 ", 0, "a"), rankLog("commId 0xfe12 ", 1, "b"))
	f.Add(rankLog("", 0, "a"), rankLog("", 3, "b"))
	f.Fuzz(func(t *testing.T, a, b string) {
		p, q := reading(a), reading(b)
		nccllog.SameJob(p, q)
		before := q.Log()
		all := nccllog.NewParser()
		all.Join(p)
		first := all.Join(q)
		if log := all.Log(); log.Messages != p.Log().Messages+before.Messages || first != p.Log().Lines+1 {
			t.Errorf("%d messages, the second begins at %d", log.Messages, first)
		}
		if diff := cmp.Diff(before, q.Log()); diff != "" {
			t.Errorf("the second log changed:\n%s", diff)
		}
	})
}
