//go:build !static

package probe

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"busbar/internal/p2p"
)

// What is called in the driver's library is called as cuda.h declares it: a library of the
// same functions, whose GPUs are memory of the process, measures like a real one.
func TestDriver(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("gcc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o", filepath.Join(dir, library), "testdata/libcuda.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(t *testing.T, env ...string) p2p.Result {
		t.Helper()
		r, err := Run(context.Background(), Options{Size: 1 << 20, Silence: 2 * time.Second, Child: func() *exec.Cmd {
			cmd := self()
			cmd.Env = append(cmd.Env, append(env, "LD_LIBRARY_PATH="+dir)...)
			return cmd
		}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Run("all right", func(t *testing.T) {
		r := run(t, "LIBCUDA_GPUS=3")
		if r.Unknown != "" || r.CUDA != "13.0" || len(r.GPUs) != 3 || len(r.Pairs) != 6 {
			t.Fatalf("%+v", r)
		}
		if g := r.GPUs[0]; g.Address != "0000:da:00.0" || g.UUID != "GPU-20212223-2425-2627-2829-2a2b2c2d2e2f" || g.Name != "NVIDIA H200" || g.Memory != 1<<30 || g.Free >= g.Memory {
			t.Errorf("%+v", g)
		}
		for _, p := range r.Pairs {
			if p.Unknown != "" || p.OneWay == nil || p.BothWays == nil || p.Staged == nil || p.Latency == nil || len(p.Checks) != 3 {
				t.Errorf("%+v", p)
			}
			for _, c := range p.Checks {
				if c.Wrong != 0 || c.Bytes != 1<<20 {
					t.Errorf("%+v", c)
				}
			}
		}
	})
	t.Run("a byte is wrong", func(t *testing.T) {
		for _, p := range run(t, "LIBCUDA_FLIP=777777").Pairs {
			for _, c := range p.Checks {
				if wrong := c.Transfer != p2p.Staged; wrong && (c.Wrong != 1 || c.FirstWrong == nil || *c.FirstWrong != 777777) || !wrong && c.Wrong != 0 {
					t.Errorf("%+v", c)
				}
			}
		}
	})
	for _, c := range []struct{ name, env, want string }{
		{"Fabric Manager does not run", "LIBCUDA_INIT=802", "cuInit failed with CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized: GPUs with NVSwitches wait for nvidia-fabricmanager: see that it runs, in the driver's very version"},
		{"an error of a later version", "LIBCUDA_INIT=4711", "cuInit failed with an unknown error (4711), no description"},
		{"nobody may compute", "LIBCUDA_COMPUTE_MODE=2", "GPU 0000:ea:00.0 lets nobody compute (compute mode Prohibited): nvidia-smi -c DEFAULT"},
		{"it hangs", "LIBCUDA_HANG=cuDevicePrimaryCtxRetain", "no answer from the driver within 2s while opening GPU 0000:ea:00.0"},
		{"it crashes", "LIBCUDA_CRASH=cuInit", "the child that moves bytes ended while starting CUDA: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := run(t, c.env); !strings.HasPrefix(r.Unknown, c.want) {
				t.Errorf("%q, want %q", r.Unknown, c.want)
			}
		})
	}
	t.Run("no library", func(t *testing.T) {
		dir = t.TempDir()
		if r := run(t); !strings.HasPrefix(r.Unknown, "loading the NVIDIA driver's library: "+library) {
			t.Error(r.Unknown)
		}
	})
	t.Run("an older library", func(t *testing.T) {
		dir = t.TempDir()
		source := filepath.Join(dir, "old.c")
		if err := os.WriteFile(source, []byte("int cuInit(unsigned flags) { return (int)flags; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", filepath.Join(dir, library), source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if r := run(t); !strings.HasPrefix(r.Unknown, library+" has no cuGetErrorName, the driver is older than 470") {
			t.Error(r.Unknown)
		}
	})
}
