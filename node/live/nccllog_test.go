package live

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"busbar/node"
)

// askNCCLLog asks for the logs of a pattern on a node of that name.
func askNCCLLog(t *testing.T, ctx context.Context, root, hostname, pattern string) node.Value[node.NCCLLogState] {
	t.Helper()
	facts := New(Options{Root: root}).Read(ctx, node.Inventory{Hostname: hostname}, []node.Query{node.NCCLLog.Query(pattern)})
	return node.NCCLLog.Get(facts, pattern)
}

func TestNCCLLog(t *testing.T) {
	channel := func(host string, pid, from, to int) string {
		return fmt.Sprintf("%s:%d:%d [0] NCCL INFO Channel 00/0 : %d[%d] -> %d[%d] via P2P/CUMEM\n", host, pid, pid, from, from, to, to)
	}
	root := tree(t, map[string]string{
		"var/log/nccl.gpu-17": channel("gpu-17", 1, 0, 1), "var/log/nccl.other": channel("other", 1, 0, 1) + channel("other", 1, 1, 0),
		"var/log/p/nccl.gpu-17.812": channel("gpu-17", 812, 0, 1), "var/log/p/nccl.gpu-17.813": channel("gpu-17", 813, 1, 0),
		"var/log/p/nccl.gpu-17.old": channel("gpu-17", 1, 2, 3), "var/log/p/nccl.gpu-17.9/": "", "var/log/p/nccl.gpu-17.": channel("gpu-17", 1, 4, 5),
		"var/log/p/100%.gpu-17%q.7": "nothing of NCCL's\n", "var/log/d812/log": channel("gpu-17", 812, 0, 1),
		"var/log/twice-5-5": channel("gpu-17", 5, 0, 1), "var/log/twice-5-6": channel("gpu-17", 5, 0, 1), "var/log/7007": channel("gpu-17", 7, 0, 1),
		"var/log/link": "-> nccl.gpu-17",
	})
	for _, tt := range []struct {
		pattern string
		files   []string
		pairs   int
	}{
		{"/var/log/nccl.%h", []string{"/var/log/nccl.gpu-17"}, 1},
		{"/var/log/nccl.other", []string{"/var/log/nccl.other"}, 2},
		{"/var/log/link", []string{"/var/log/link"}, 1},
		{"/var/log/p/nccl.%h.%p", []string{"/var/log/p/nccl.gpu-17.812", "/var/log/p/nccl.gpu-17.813"}, 2},
		{"/var/log/p/100%%.%h%q.%p", []string{"/var/log/p/100%.gpu-17%q.7"}, 0},
		{"/var/log/twice-%p-%p", []string{"/var/log/twice-5-5"}, 1},
		{"/var/log/%p007", []string{"/var/log/7007"}, 1},
		{"/var/log/absent.%h", nil, 0},
		{"/var/log/absent.%p", nil, 0},
		{"/var/absent/nccl.%p", nil, 0},
	} {
		v := askNCCLLog(t, t.Context(), root, "gpu-17.example.com", tt.pattern)
		state, ok := v.Get()
		pairs := 0
		for _, s := range state.Log.Transports {
			pairs += s.Pairs
		}
		if !ok || fmt.Sprint(state.Files) != fmt.Sprint(tt.files) || pairs != tt.pairs {
			t.Errorf("%s: %v %d pairs: %s", tt.pattern, state.Files, pairs, v.Reason())
		}
		if len(tt.files) == 1 && v.Source().Path != tt.files[0] || len(tt.files) != 1 && v.Source().Path != tt.pattern && len(tt.files) > 0 {
			t.Errorf("%s: source %s", tt.pattern, v.Source())
		}
	}
	unknownAs(t, askNCCLLog(t, t.Context(), root, "", "/var/log/nccl.%h"), "the host's name is not known")
	unknownAs(t, askNCCLLog(t, t.Context(), root, "a", "/var/log/d%p/log"), "%p in the name of a directory")
	unknownAs(t, askNCCLLog(t, t.Context(), root, "a", "/var/log/p"), "is a directory")
	unknownAs(t, askNCCLLog(t, t.Context(), root, "a", "nccl.log"), "no absolute path")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	unknownAs(t, askNCCLLog(t, ended, root, "a", "/var/log/nccl.other"), "not read in time")
}

// The logs of many processes, and a log without end, are read in part; what was not read is said.
func TestNCCLLogBounds(t *testing.T) {
	root := tree(t, map[string]string{"log/": ""})
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for i := range maxNCCLLogs + 3 {
		name := filepath.Join(root, fmt.Sprintf("log/nccl.%d", i+1))
		must(t, os.WriteFile(name, []byte("NCCL version 2.28.9+cuda13.0\n"), 0o644))
		must(t, os.Chtimes(name, began, began.Add(time.Duration(i)*time.Second)))
	}
	state, _ := askNCCLLog(t, t.Context(), root, "a", "/log/nccl.%p").Get()
	if len(state.Files) != maxNCCLLogs || state.LeftOut != 3 || state.Log.Lines != maxNCCLLogs || state.Log.CutOff != "" {
		t.Errorf("%d files, %d left out, %d lines", len(state.Files), state.LeftOut, state.Log.Lines)
	}
	for _, old := range []string{"/log/nccl.1", "/log/nccl.2", "/log/nccl.3"} {
		if strings.Contains(fmt.Sprint(state.Files)+" ", old+" ") {
			t.Errorf("%s is one of the oldest, and was read", old)
		}
	}
	big := filepath.Join(root, "log/big")
	must(t, os.WriteFile(big, []byte("NCCL INFO Using network Socket\n"), 0o644))
	must(t, os.Truncate(big, maxNCCLLog+1<<20)) // a hole, which reads as zeros
	state, ok := askNCCLLog(t, t.Context(), root, "a", "/log/big").Get()
	if !ok || state.Log.CutOff != "only the first 64 MiB were read" || len(state.Log.Networks) != 1 {
		t.Errorf("%+v", state.Log)
	}
}
