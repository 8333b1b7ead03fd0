package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeChild, as the test binary's first argument, makes it a child that behaves as the second says.
const fakeChild = "__fake-child"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == fakeChild {
		os.Exit(runFakeChild(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == ChildArgument {
		os.Exit(RunChild(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func runFakeChild(how string) int {
	f := newFake(3)
	second := func(call string, g, _ *fakeGPU) bool { return call == "fill" && g.address == "0000:20:00.0" }
	switch how {
	case "hangs": // in the second pair, where no signal but SIGKILL reaches it
		f.fault = func(call string, _, to *fakeGPU) error {
			if call == "copy" && to.address == "0000:30:00.0" {
				select {}
			}
			return nil
		}
		go func() { // else the runtime sees that nothing can go on
			for {
				time.Sleep(time.Hour)
			}
		}()
	case "crashes":
		f.fault = func(call string, g, to *fakeGPU) error {
			if second(call, g, to) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
				select {}
			}
			return nil
		}
	case "slow": // until it is told to end
		f.fault = func(string, *fakeGPU, *fakeGPU) error {
			time.Sleep(2 * time.Millisecond)
			return nil
		}
	case "stubborn": // does not see that it is told to end
		os.Stdin, _ = os.Open("/dev/zero")
		_, _ = fmt.Println(`{"doing":"sleeping"}`)
		time.Sleep(time.Hour)
	case "garbage":
		fmt.Println("Segmentation fault")
		time.Sleep(time.Hour)
	case "endless":
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
		}
	case "truncated":
		fmt.Print(`{"doing":"st`)
		return 0
	case "no driver":
		return runChild(os.Stdin, os.Stdout, func() (cuda, error) { return nil, errors.New("no driver") })
	}
	return runChild(os.Stdin, os.Stdout, func() (cuda, error) { return f, nil })
}

// told are what an observer was told.
type told []string

func (t *told) PairStarted(n, total int, a, b string) {
	*t = append(*t, fmt.Sprintf("%d/%d %s %s", n, total, a, b))
}

func (t *told) PairEnded(n, total int, _, _, unknown string, _ time.Duration) {
	*t = append(*t, strings.TrimSpace(fmt.Sprintf("%d/%d ended %s", n, total, unknown)))
}

func behaving(how string) func() *exec.Cmd {
	return func() *exec.Cmd { return exec.Command("/proc/self/exe", fakeChild, how) }
}

func TestRun(t *testing.T) {
	var seen told
	r, err := Run(context.Background(), Options{Size: size, Child: behaving("works"), Observer: &seen})
	if err != nil || r.Unknown != "" || r.CUDA != "13.0" || len(r.GPUs) != 3 || len(r.Pairs) != 6 || r.Seconds <= 0 || r.Size != size {
		t.Fatalf("%v, %+v", err, r)
	}
	for i, p := range r.Pairs {
		if p.Unknown != "" || p.OneWay == nil || len(p.Checks) != 3 {
			t.Errorf("%+v", p)
		}
		if i > 0 && r.Pairs[i-1].From+r.Pairs[i-1].To >= p.From+p.To {
			t.Errorf("%s to %s stands too late", p.From, p.To)
		}
	}
	want := "1/3 0000:10:00.0 0000:20:00.0, 1/3 ended, 2/3 0000:10:00.0 0000:30:00.0, 2/3 ended, 3/3 0000:20:00.0 0000:30:00.0, 3/3 ended"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("told %s", got)
	}
}

// Whatever becomes of the child, every pair is there, those that were measured and those that were not.
func TestBrokenChild(t *testing.T) {
	for _, c := range []struct {
		how, want string
		measured  int
		gpus      int
	}{
		{"hangs", "no answer from the driver within 500ms while copying from 0000:10:00.0 to 0000:30:00.0, peer access off", 2, 3},
		{"crashes", "the child that moves bytes ended while copying from 0000:10:00.0 to 0000:20:00.0, peer access off: ", 0, 3},
		{"garbage", `the child that moves bytes fails: wrote what is no message: "Segmentation fault\n"`, 0, 0},
		{"endless", "the child that moves bytes fails: wrote a line longer than 1 MiB", 0, 0},
		{"truncated", "the child that moves bytes ended: exit status 0", 0, 0},
		{"no driver", "no driver", 0, 0},
	} {
		t.Run(c.how, func(t *testing.T) {
			o := Options{Size: size, Child: behaving(c.how), Silence: time.Minute}
			if c.how == "hangs" {
				o.Silence = 500 * time.Millisecond
			}
			var seen told
			o.Observer = &seen
			r, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.Unknown, c.want) {
				t.Errorf("%q, want %q", r.Unknown, c.want)
			}
			if len(r.GPUs) != c.gpus || len(r.Pairs) != c.gpus*max(c.gpus-1, 0) {
				t.Errorf("%d GPUs, %d pairs", len(r.GPUs), len(r.Pairs))
			}
			measured := 0
			for _, p := range r.Pairs {
				if p.Unknown == "" {
					measured++
				} else if p.Unknown != r.Unknown || p.OneWay != nil || len(p.Checks) != 0 {
					t.Errorf("%+v", p)
				}
			}
			if measured != c.measured {
				t.Errorf("%d pairs were measured", measured)
			}
			if len(seen)%2 != 0 {
				t.Errorf("told %q", seen)
			}
		})
	}
}

// A signal or a timeout ends the child, which frees what it holds, or is killed.
func TestEnded(t *testing.T) {
	for _, c := range []struct{ how, want string }{
		{"slow", "SIGTERM"},
		{"stubborn", "SIGTERM; it did not end within 200ms while sleeping, and was killed"},
	} {
		t.Run(c.how, func(t *testing.T) {
			ctx, end := context.WithCancelCause(context.Background())
			o := Options{Size: size, Child: behaving(c.how), Grace: time.Minute, Silence: time.Minute}
			if c.how == "stubborn" {
				o.Grace = 200 * time.Millisecond
			}
			time.AfterFunc(100*time.Millisecond, func() { end(errors.New("SIGTERM")) })
			r, err := Run(ctx, o)
			if err != nil || r.Unknown != c.want {
				t.Errorf("%v, %q", err, r.Unknown)
			}
		})
	}
}

// A context that has ended before the child started ends it too.
func TestEndedBefore(t *testing.T) {
	ctx, end := context.WithCancelCause(context.Background())
	end(errors.New("SIGTERM"))
	if r, err := Run(ctx, Options{Size: size, Child: behaving("slow"), Grace: time.Minute}); err != nil || r.Unknown != "SIGTERM" {
		t.Errorf("%v, %q", err, r.Unknown)
	}
}

func TestNoChild(t *testing.T) {
	_, err := Run(context.Background(), Options{Child: func() *exec.Cmd { return exec.Command("/nonexistent") }})
	if err == nil || !strings.Contains(err.Error(), "starting the child that moves bytes") {
		t.Error(err)
	}
}

// The environment of a child says nothing of which GPUs there are.
func TestEnvironment(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	t.Setenv("CUDA_LAUNCH_BLOCKING", "1")
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps")
	t.Setenv("OTHER", "1")
	env := strings.Join(self().Env, "\n") + "\n"
	for name, want := range map[string]bool{"CUDA_VISIBLE_DEVICES=": false, "CUDA_LAUNCH_BLOCKING=": false, "CUDA_MPS_PIPE_DIRECTORY=/run/mps\n": true, "OTHER=1\n": true, "CUDA_CACHE_DISABLE=1\n": true} {
		if strings.Contains(env, name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}
