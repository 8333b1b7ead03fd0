//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sameOutside expects that a plan made here, of a recording that is taken in the guest, is the
// one that is made there. They differ in where the facts come from and when they were read.
func (g *guest) sameOutside(code int) {
	g.t.Helper()
	dir := g.t.TempDir()
	get := func(name string) []byte {
		text, err := g.Get(g.ctx, name)
		if err != nil {
			g.t.Fatal(err)
		}
		return []byte(text)
	}
	write := func(name string, data []byte, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), data, mode); err != nil {
			g.t.Fatal(err)
		}
	}
	// The profile has the same name there and here.
	g.sh("cd /etc/busbar && busbar capture --raw -o /root/node.json node.hcl && busbar plan --json node.hcl >/root/plan.json || true")
	write("busbar", busbar, 0o700)
	write("node.hcl", get("/etc/busbar/node.hcl"), 0o600)
	write("node.json", get("/root/node.json"), 0o600)
	cmd := exec.CommandContext(g.ctx, "./busbar", "plan", "--json", "--node", "node.json", "node.hcl")
	cmd.Dir = dir
	var outside bytes.Buffer
	cmd.Stdout, cmd.Stderr = &outside, os.Stderr
	_ = cmd.Run() // the documents have the code
	if got := cmd.ProcessState.ExitCode(); got != code {
		g.t.Errorf("outside: exit %d, wanted %d", got, code)
	}
	var there, here, recording map[string]any
	for into, text := range map[*map[string]any][]byte{&there: get("/root/plan.json"), &here: outside.Bytes(), &recording: get("/root/node.json")} {
		if err := json.Unmarshal(text, into); err != nil {
			g.t.Fatalf("%v: %s", err, text)
		}
	}
	at, _ := there["node"].(map[string]any)
	at["recording"], at["observed_at"] = "node.json", recording["observed_at"]
	if diff := cmp.Diff(there, here); diff != "" {
		g.t.Errorf("the plan of the recording differs (-there +here):\n%s", diff)
	}
	if there["exit_code"] != float64(code) {
		g.t.Errorf("there: exit code %v, wanted %d", there["exit_code"], code)
	}
}

// TestRDMA: RDMA devices exist once a module is loaded, and a moment later. What hangs on their
// names is done in the same run.
func TestRDMA(t *testing.T) {
	g := scenario(t, "what needs an RDMA device that a module brings is deferred, and done in a second pass; recordings of every stage plan the same elsewhere")
	g.file("/etc/udev/rules.d/99-rxe.rules", `ACTION=="add", SUBSYSTEM=="module", KERNEL=="rdma_rxe", `+
		`RUN+="/bin/sh -c 'sleep 1; rdma link add rxe0 type rxe netdev $$(ls /sys/bus/pci/devices/0000:23:00.0/net)'"`+"\n")
	g.sh("udevadm control --reload")
	g.drifted()
	g.sameOutside(2)

	g.profile(`
kernel_module "rdma_rxe" {
  state = "loaded"
}

nccl {
  settings = {
    NCCL_IB_HCA = "=${join(",", [for n in node.nics : n.rdma if n.address == "0000:23:00.0"])}"
  }
}
`)
	d := g.busbar(2, "plan")
	d.has("deferred", "nccl.withheld")
	if len(d.Deferred) != 1 || d.Deferred[0].UnlockedBy != "load-module:rdma_rxe" {
		t.Errorf("deferred: %+v", d.Deferred)
	}
	g.sameOutside(2)
	d = g.busbar(0, "apply", "--yes")
	if d.Run.Passes != 2 {
		t.Errorf("%d passes", d.Run.Passes)
	}
	g.is("# BEGIN busbar\nNCCL_IB_HCA==rxe0\n# END busbar", "cat /etc/nccl.conf")
	g.busbar(0, "apply", "--yes").noStep()
	g.sameOutside(0)

	// Nobody makes the device: the run waits, tells what it waited for, and is no success.
	g.sh("rm /etc/udev/rules.d/99-rxe.rules && udevadm control --reload && modprobe -r rdma_rxe")
	d = g.busbar(4, "apply", "--yes")
	d.step("done", "load-module:rdma_rxe")
	d.has("unknown", "nccl.withheld")
	g.is("# BEGIN busbar\nNCCL_IB_HCA==rxe0\n# END busbar", "cat /etc/nccl.conf")
}
