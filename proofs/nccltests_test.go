package proofs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/nccltests"
	"busbar/plan"
	"busbar/proofs"
)

// collective is what all_reduce_perf prints over two ranks; edit changes its lines.
func collective(t *testing.T, edits ...string) nccltests.Result {
	t.Helper()
	text := `# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8
#  Rank  0 Group  0 Pid   7 on gpu-1 device  0 [0000:1b:00] NVIDIA H200
#  Rank  1 Group  0 Pid   7 on gpu-1 device  1 [0000:43:00] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    12.90    0.00    0.01      0    12.87    0.00    0.01      0
   268435456      67108864     float     sum      -1   1000.0  268.00  268.00      0   1000.0  267.00  267.00      0
  8589934592    2147483648     float     sum      -1  25812.5  332.78  332.78      0  26264.9  327.05  327.05      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 298.0
`
	r, err := nccltests.Parse(strings.NewReplacer(edits...).Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestJudgeCollectives(t *testing.T) {
	whole := collective(t)
	twice := nccltests.Result{Runs: append(whole.Runs, collective(t, "all_reduce_perf", "all_gather_perf").Runs...)}
	for _, c := range []struct {
		name     string
		result   nccltests.Result
		baseline *nccltests.Result
		want     string
		code     int
		says     string
	}{
		{"right", whole, nil, "ok data, ok run", plan.ExitOK, "up to 332.8 GB/s bus bandwidth over 2 ranks"},
		{"as before", whole, &whole, "ok baseline, ok data, ok run", plan.ExitOK, "at least 1.00 of the baseline's bus bandwidth at each size from 1 MiB on"},
		{"a little slower", collective(t, "268.00  268.00", "268.00  245.00"), &whole, "ok baseline, ok data, ok run", plan.ExitOK, "at least 0.91 of"},
		{"slower", collective(t, "268.00  268.00", "134.00  134.00"), &whole, "drift baseline, ok data, ok run", plan.ExitDrift, "all_reduce_perf, 256 MiB, out of place: was 268.0 GB/s, is 134.0 GB/s, 0.50 of it"},
		{"latency does not count", collective(t, "    0.01 ", "    0.001 "), &whole, "ok baseline, ok data, ok run", plan.ExitOK, ""},
		{"wrong values", collective(t, "332.78      0", "332.78     12"), nil, "drift data, ok run", plan.ExitDrift, "all_reduce_perf: values are wrong: 12, the first at a size of 8 GiB"},
		{"wrong by the sum alone", collective(t, "values : 0 OK", "values : 50 FAILED", "#wrong", "error"), nil, "drift data, ok run", plan.ExitDrift, "values are wrong: 50"},
		{"errors are small", collective(t, "#wrong", "error"), nil, "ok data, ok run", plan.ExitOK, ""},
		{"not compared", collective(t, "      0 ", "    N/A ", "      0\n", "    N/A\n"), nil, "unknown data, ok run", plan.ExitUnknown, "leave out -c 0"},
		{"one half is not compared", collective(t, "      0\n", "    N/A\n"), nil, "ok data, ok run", plan.ExitOK, ""},
		{"it gave up", collective(t, "# Out of bounds values : 0 OK", "gpu-1: Test NCCL failure common.cu:1005 'unhandled cuda error'"), nil, "ok data, drift run", plan.ExitDrift, "all_reduce_perf gave up: Test NCCL failure common.cu:1005"},
		{"cut off", collective(t, "# Out of bounds values : 0 OK", ""), nil, "ok data, unknown run", plan.ExitUnknown, "its end is missing"},
		{"torn", collective(t, "   268435456      67108864     float     sum      -1 ", "   268435456      67108864     float gpu-1:7 NCCL INFO"), nil, "ok data, unknown run", plan.ExitUnknown, "1 of its rows cannot be read"},
		{
			"processes of one rank", collective(t, "268.00  268.00", "268.00 0.00", "267.00  267.00", "267.00 0.00", "332.78  332.78", "332.78 0.00", "327.05  327.05", "327.05 0.00", "0.01", "0.00"), &whole,
			"ok data, unknown run", plan.ExitUnknown, "nothing was moved between GPUs",
		},
		{"a size is missing", collective(t, "8589934592    2147483648", "4294967296    1073741824"), &whole, "unknown baseline, ok baseline, ok data, ok run", plan.ExitUnknown, "all_reduce_perf, 8 GiB: the baseline has this size, and it was not measured"},
		{"no size is common", collective(t, "8589934592", "8589934593", "268435456", "268435457"), &whole, "unknown baseline, unknown baseline, unknown baseline, ok data, ok run", plan.ExitUnknown, "the baseline has none of its sizes from 1 MiB on"},
		{"another program", collective(t, "all_reduce_perf", "all_gather_perf"), &whole, "unknown baseline, unknown warn baseline, ok data, ok run", plan.ExitUnknown, "the baseline has no run of it over as many ranks"},
		{"more ranks", collective(t, "# nThread", "#  Rank  2 Group  0 Pid   7 on gpu-2 device  0 [0000:1b:00] NVIDIA H200\n# nThread"), &whole, "unknown baseline, unknown warn baseline, ok data, ok run", plan.ExitUnknown, "has this run over 2 ranks, and it was not made again"},
		{"a program that does not say its name", collective(t, "# Collective test starting: all_reduce_perf\n", ""), &whole, "ok baseline, ok data, ok run", plan.ExitOK, "nccl-tests: at least"},
		{"two runs", twice, &whole, "unknown warn baseline, ok baseline, ok data, ok data, ok run, ok run", plan.ExitOK, "run 2, all_gather_perf: every value is right"},
	} {
		t.Run(c.name, func(t *testing.T) {
			findings := proofs.JudgeCollectives(c.result, proofs.WantedCollectives{Address: "probe.nccl_tests", Baseline: c.baseline, MinRatio: 0.9, MinSize: 1 << 20})
			var got []string
			var sentences strings.Builder
			for _, id := range []string{"baseline", "data", "run"} {
				for _, status := range []plan.Status{plan.Undetermined, plan.Drift, plan.OK} {
					for _, severity := range []plan.Severity{plan.Error, plan.Warning} {
						for _, f := range findings {
							if f.ID == "nccl_tests."+id && f.Status == status && f.Severity == severity && f.Address == "probe.nccl_tests" {
								got = append(got, strings.Replace(fmt.Sprintf("%s %s %s", status, severity, id), " error", "", 1))
							}
						}
					}
				}
			}
			for _, f := range findings {
				sentences.WriteString(f.Summary + "\n" + f.Fix + "\n")
			}
			if len(got) != len(findings) {
				t.Errorf("%+v", findings)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("%s\n%s", diff, sentences.String())
			}
			if code := (plan.Plan{Findings: findings}).ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(sentences.String(), c.says) {
				t.Errorf("nothing says %q:\n%s", c.says, sentences.String())
			}
		})
	}
}
