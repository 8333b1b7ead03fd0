package live

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"busbar/node"
)

// brokenChild, as the test binary's first argument, makes it a child that misbehaves as the second says.
const brokenChild = "__broken-child"

func runBrokenChild(how string) {
	line := make([]byte, 4096)
	n, _ := os.Stdin.Read(line)
	switch how {
	case "wedged": // waits for ever in open(2), which no SIGTERM handler ends
		_, _ = os.OpenFile(os.Getenv("WEDGE"), os.O_RDONLY, 0)
	case "stopped":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "dies":
		os.Exit(3)
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "garbage":
		fmt.Println("Segmentation fault")
	case "truncated":
		fmt.Printf(`{"kind":"rdma_port","key":"mlx5_0/1","answ`)
	case "endless":
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
		}
	case "another":
		fmt.Println(`{"kind":"rdma_port","key":"mlx5_9/1","answer":{"value":{"link_layer":"Ethernet"}}}`)
	case "ethernet": // answers one query, then hangs
		q := strings.TrimSuffix(strings.TrimSpace(string(line[:n])), "}")
		fmt.Println(q + `,"answer":{"value":{"link_layer":"Ethernet"}}}`)
		time.Sleep(time.Hour)
	}
	os.Exit(0)
}

// rdmaTree has two RDMA devices of one port each.
func rdmaTree(t testing.TB) string {
	return tree(t, map[string]string{
		"sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
		"sys/class/infiniband/mlx5_1/ports/1/link_layer": "Ethernet\n",
	})
}

var rdmaQueries = []node.Query{node.RDMAPort.Query("mlx5_0/1"), node.RDMAPort.Query("mlx5_1/1")}

func TestChild(t *testing.T) {
	r := New(Options{Root: rdmaTree(t), Running: true})
	queries := append([]node.Query{
		node.RDMAPort.Query("mlx5_7/1"), node.RDMAPort.Query("mlx5_0/2"), node.RDMAPort.Query("mlx5_0/x"), node.RDMAPort.Query("../1"),
	}, rdmaQueries...)
	facts := r.Read(context.Background(), node.Inventory{}, queries)
	for key, layer := range map[string]string{"mlx5_0/1": "InfiniBand", "mlx5_1/1": "Ethernet"} {
		if state, ok := node.RDMAPort.Get(facts, key).Get(); !ok || state.LinkLayer != layer {
			t.Errorf("%s: %+v", key, state)
		}
	}
	unknownAs(t, node.RDMAPort.Get(facts, "mlx5_0/2"), "no such file")
	unknownAs(t, node.RDMAPort.Get(facts, "mlx5_0/x"), "is not DEVICE/PORT")
	unknownAs(t, node.RDMAPort.Get(facts, "../1"), "is not DEVICE/PORT")
	gone := node.RDMAPort.Get(facts, "mlx5_7/1")
	unknownAs(t, gone, "there is no RDMA device mlx5_7")
	if gone.Needs() != node.CapabilityRDMA {
		t.Errorf("needs %q", gone.Needs())
	}
}

// No child starts where no device is there.
func TestChildOnlyForDevices(t *testing.T) {
	started := false
	r := New(Options{Root: tree(t), Running: true, Child: func() *exec.Cmd {
		started = true
		return self()
	}})
	r.Inventory(context.Background())
	r.Read(context.Background(), node.Inventory{}, append(rdmaQueries, node.CommandLine.Query("")))
	if started {
		t.Error("the child was started")
	}
}

func TestBrokenChild(t *testing.T) {
	fifo := t.TempDir() + "/wedge"
	must(t, syscall.Mkfifo(fifo, 0o600))
	const deadline = 300 * time.Millisecond
	for _, test := range []struct {
		how, why, rest string
		waits          bool
	}{
		{"wedged", "no answer within 300ms from the driver of RDMA port mlx5_0/1", "not asked: no answer within 300ms", true},
		{"stopped", "no answer within 300ms from the driver of RDMA port mlx5_0/1", "not asked: no answer", true},
		{"dies", "the child that asked the driver of RDMA port mlx5_0/1 ended before it answered: exit status 3", "not asked: ", false},
		{"killed", "ended before it answered: signal: killed", "not asked: ", false},
		{"garbage", `wrote what is no answer: "Segmentation fault\n"`, "not asked: ", false},
		{"truncated", "ended before it answered: exit status 0", "not asked: ", false},
		{"endless", "wrote a line longer than 1 MiB", "not asked: ", false},
		{"another", "wrote what is no answer", "not asked: ", false},
	} {
		t.Run(test.how, func(t *testing.T) {
			r := New(Options{Root: rdmaTree(t), Running: true, Child: func() *exec.Cmd {
				cmd := exec.Command("/proc/self/exe", brokenChild, test.how)
				cmd.Env = append(os.Environ(), "WEDGE="+fifo)
				return cmd
			}})
			r.deadline = func(string) time.Duration { return deadline }
			if !test.waits {
				r.deadline = func(string) time.Duration { return time.Minute }
			}
			begin := time.Now()
			facts := r.Read(context.Background(), node.Inventory{}, rdmaQueries)
			took := time.Since(begin)
			unknownAs(t, node.RDMAPort.Get(facts, "mlx5_0/1"), test.why)
			unknownAs(t, node.RDMAPort.Get(facts, "mlx5_1/1"), test.rest)
			if test.waits && (took < deadline || took > deadline+2*time.Second) {
				t.Errorf("took %s, the deadline was %s", took, deadline)
			}
		})
	}
}

// What was answered before a child hung stays; other kinds go to another child.
func TestWedgedChildKeepsAnswers(t *testing.T) {
	starts := 0
	r := New(Options{Root: rdmaTree(t), Running: true, Child: func() *exec.Cmd {
		starts++
		if starts == 1 {
			return exec.Command("/proc/self/exe", brokenChild, "ethernet")
		}
		return self()
	}})
	r.deadline = func(string) time.Duration { return 2 * time.Second }
	other := node.Query{Kind: kindPortName, Key: "eth0"}
	answers := r.ask(context.Background(), append(rdmaQueries, other))
	known(t, decodeValue[node.RDMAPortState](answers[rdmaQueries[0]]), node.RDMAPortState{LinkLayer: "Ethernet"})
	unknownAs(t, answers[rdmaQueries[1]], "no answer within 2s")
	unknownAs(t, answers[other], "no such file") // answered by a child that works
	if starts != 2 {
		t.Errorf("%d children", starts)
	}
}

// The end of the context is the end of the wait, whatever the deadline of the kind.
func TestChildAndContext(t *testing.T) {
	r := New(Options{Root: rdmaTree(t), Running: true, Child: func() *exec.Cmd {
		return exec.Command("/proc/self/exe", brokenChild, "stopped")
	}})
	r.deadline = func(string) time.Duration { return time.Hour }
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	facts := r.Read(ctx, node.Inventory{}, append(rdmaQueries, node.CommandLine.Query("")))
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	unknownAs(t, node.RDMAPort.Get(facts, "mlx5_1/1"), "not read in time: context deadline exceeded")
	r.Inventory(ctx)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("with the inventory %s", took)
	}
}

func TestChildThatDoesNotStart(t *testing.T) {
	r := New(Options{Root: rdmaTree(t), Running: true, Child: func() *exec.Cmd { return exec.Command("/nonexistent") }})
	facts := r.Read(context.Background(), node.Inventory{}, rdmaQueries)
	unknownAs(t, node.RDMAPort.Get(facts, "mlx5_0/1"), "starting the child that asks drivers")
}
