package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"busbar/plan"
)

func TestProbeNCCLTests(t *testing.T) {
	const input = "../../internal/nccltests/testdata/all_reduce-2.17-tagged.txt"
	dir := t.TempDir()
	base := filepath.Join(dir, "base.json")
	text := readFile(t, input)
	run := func(stdin string, code int, args ...string) (stdout, stderr string) {
		t.Helper()
		got, stdout, stderr := busbar(stdin, append([]string{"probe", "nccl-tests"}, args...)...)
		if got != code {
			t.Errorf("%v: exit code %d, want %d:\n%s%s", args, got, code, stdout, stderr)
		}
		return stdout, stderr
	}
	run("", plan.ExitOK, input, "--record", base)
	recorded := readFile(t, base)
	if !strings.Contains(recorded, `"command": "probe nccl-tests"`) {
		t.Error(recorded)
	}
	if out, _ := run(text, plan.ExitOK, "-", "--compare", base, "--verbose"); !strings.Contains(out, "at least 1.00 of the baseline's bus bandwidth") {
		t.Error(out)
	}
	run("", plan.ExitOK, input, "--compare", input) // another output is a baseline, too
	slower := strings.Replace(text, "342.39", "142.39", 1)
	out, err := run(slower, plan.ExitDrift, "-", "--compare", base, "--record", base)
	if !strings.Contains(out, "256 MiB, out of place: was 342.4 GB/s, is 142.4 GB/s, 0.42 of it") || !strings.Contains(err, "was not written") || readFile(t, base) != recorded {
		t.Error(out, err)
	}
	run(slower, plan.ExitOK, "-", "--compare", base, "--min-ratio", "0.4")
	run(slower, plan.ExitOK, "-", "--compare", base, "--min-size", "1024")
	if out, _ := run("", plan.ExitOK, input, "--json"); !strings.Contains(out, `"busbw_gb_per_s": 683.57`) {
		t.Error(out)
	}
	empty := filepath.Join(dir, "empty.json")
	for _, was := range []string{"0", "null"} {
		writeFile(t, empty, strings.ReplaceAll(recorded, `"busbw_gb_per_s": 683.57`, `"busbw_gb_per_s": `+was))
		if _, err := run("", plan.ExitError, input, "--compare", empty); !strings.Contains(err, "empty.json is no baseline: run 1, all_reduce_perf, has a bus bandwidth of 0 GB/s at a size of") {
			t.Error(err)
		}
	}
	if out, _ := run("", plan.ExitOK, "../../internal/nccltests/testdata/all_reduce-2.19.json", "--verbose"); !strings.Contains(out, "up to 222.9 GB/s bus bandwidth over 2 ranks") {
		t.Error(out)
	}
	if _, err := run("nothing\n", plan.ExitError, "-"); !strings.Contains(err, "- has no table that a program of nccl-tests printed") {
		t.Error(err)
	}
	for _, args := range [][]string{{}, {input, input}, {input, "--min-ratio", "2"}, {input, "--min-size", "-1"}} {
		run("", plan.ExitUsage, args...)
	}
	run("", plan.ExitError, filepath.Join(dir, "nope"))
	run("", plan.ExitError, input, "--compare", filepath.Join(dir, "nope"))
	run("", plan.ExitError, input, "--record", filepath.Join(dir, "nope", "base.json"))
	if _, err := os.Stat(filepath.Join(dir, "nope")); err == nil {
		t.Error("a directory was made")
	}
}
