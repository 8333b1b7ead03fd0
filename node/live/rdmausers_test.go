package live

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"

	"busbar/node"
)

// attribute is a netlink attribute, and its padding.
func attribute(kind uint16, value []byte) []byte { return nl.NewRtAttr(int(kind), value).Serialize() }

// dump is a message of RDMA_NLDEV_CMD_RES_QP_GET, laid out as fill_res_qp_entry of drivers/infiniband/core/nldev.c does.
func dump(entries ...[]byte) []byte {
	var table []byte
	for _, e := range entries {
		table = append(table, attribute(nldevResQPEntry|0x8000, e)...) // NLA_F_NESTED
	}
	return append(append(attribute(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(0)), attribute(nl.RDMA_NLDEV_ATTR_DEV_NAME, nl.ZeroTerminated("mlx5_0"))...), attribute(nldevResQP|0x8000, table)...)
}

func entry(kind byte, more ...[]byte) []byte {
	e := append(attribute(3, nl.Uint32Attr(1)), attribute(21, nl.Uint32Attr(4711))...) // port, number
	e = append(append(e, attribute(nldevResType, []byte{kind})...), attribute(27, []byte{3})...)
	for _, m := range more {
		e = append(e, m...)
	}
	return e
}

func ofProcess(pid uint32) []byte { return attribute(nldevResPID, nl.Uint32Attr(pid)) }

func ofKernel(name string) []byte { return attribute(nldevResKernName, nl.ZeroTerminated(name)) }

func TestDecodeQueuePairs(t *testing.T) {
	got, err := decodeQueuePairs(dump(entry(1, ofKernel("ib_core")), entry(2, ofProcess(812)), entry(2)))
	if diff := cmp.Diff([]queuePair{{kind: 1, kernel: "ib_core"}, {kind: 2, pid: 812}, {kind: 2}}, got, cmp.AllowUnexported(queuePair{})); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	if got, err := decodeQueuePairs(dump()); err != nil || got != nil {
		t.Errorf("none: %v, %v", got, err)
	}
	for name, message := range map[string][]byte{"cut off": dump(entry(1))[:30], "no type": dump(ofProcess(7))} {
		if got, err := decodeQueuePairs(message); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzDecodeQueuePairs(f *testing.F) {
	f.Add(dump(entry(1, ofKernel("ib_core")), entry(2, ofProcess(812))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, message []byte) {
		pairs, err := decodeQueuePairs(message)
		if err == nil {
			for _, p := range pairs {
				if strings.Contains(p.kernel, "\x00") {
					t.Errorf("%s: %+v", hex.EncodeToString(message), p)
				}
			}
		}
	})
}

func TestRDMAUsage(t *testing.T) {
	quiet := []queuePair{{kind: qpSMI, kernel: "ib_core"}, {kind: qpGSI, kernel: "ib_core"}, {kind: 4, kernel: "ib_ipoib"}, {kind: 2, kernel: "mlx5_ib"}}
	with := func(more ...queuePair) deviceUse {
		all := append(append([]queuePair{}, quiet...), more...)
		return deviceUse{pairs: all, total: uint64(len(all))}
	}
	names := func(pid int) string { return map[int]string{7: "python3", 9: "ib_write_bw"}[pid] }
	for _, c := range []struct {
		name    string
		devices map[string]deviceUse
		want    node.RDMAUsage
	}{
		{"nobody", map[string]deviceUse{"mlx5_0": with(), "mlx5_1": with()}, node.RDMAUsage{}},
		{
			"processes and a disk", map[string]deviceUse{"mlx5_1": with(queuePair{kind: 2, pid: 7}, queuePair{kind: 2, kernel: "nvme_rdma"}), "mlx5_0": with(queuePair{kind: 2, pid: 9}, queuePair{kind: 2, pid: 7}, queuePair{kind: 2, pid: 7})},
			node.RDMAUsage{Users: []node.RDMAUser{{Name: "nvme_rdma", Devices: []string{"mlx5_1"}}, {PID: 7, Name: "python3", Devices: []string{"mlx5_0", "mlx5_1"}}, {PID: 9, Name: "ib_write_bw", Devices: []string{"mlx5_0"}}}},
		},
		{"a container that is listed without a process", map[string]deviceUse{"mlx5_0": with(queuePair{kind: 2})}, node.RDMAUsage{Unseen: []string{"mlx5_0"}}},
		{"a container that is not listed", map[string]deviceUse{"mlx5_0": with(), "mlx5_1": {pairs: quiet, total: uint64(len(quiet)) + 1}}, node.RDMAUsage{Unseen: []string{"mlx5_1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rdmaUsage(c.devices, names)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRDMAUsersWithout(t *testing.T) {
	known(t, ask(t, tree(t), node.RDMAUsers, ""), node.RDMAUsage{})
	known(t, ask(t, tree(t, map[string]string{"sys/class/infiniband/": ""}), node.RDMAUsers, ""), node.RDMAUsage{})
	unknownAs(t, ask(t, tree(t, map[string]string{"sys/class/infiniband/mlx5_0/": ""}), node.RDMAUsers, ""), errNoAnswers.Error())
	unknownAs(t, get(t, New(Options{Root: tree(t)}), node.RDMAUsers, ""), "--root")
	if v := get(t, New(Options{}), node.RDMAUsers, ""); v.Reason() == "not recorded" {
		t.Error("no answer here")
	}
}

func TestSlurmJobs(t *testing.T) {
	processes := map[string]string{
		"proc/1/comm": "systemd\n", "proc/1/cmdline": "/sbin/init\x00",
		"proc/60/comm": "slurmstepd\n", "proc/60/cmdline": "slurmstepd: [3385.batch]\x00",
		"proc/61/comm": "slurmstepd\n", "proc/61/cmdline": "slurmstepd: [3385.0]\x00\x00\x00",
		"proc/62/comm": "slurmstepd\n", "proc/62/cmdline": "slurmstepd: [40555]\x00",
		"proc/63/comm": "slurmstepd\n", "proc/63/cmdline": "/usr/sbin/slurmstepd\x00infinity\x00",
		"proc/64/comm": "slurmd\n", "proc/64/cmdline": "slurmstepd: [7.0]\x00",
		"proc/65/comm":   "slurmstepd\n",
		"proc/self/comm": "slurmstepd\n",
	}
	known(t, ask(t, tree(t, processes), node.SlurmJobs, ""), []string{"3385", "40555"})
	known(t, ask(t, tree(t, map[string]string{"proc/1/comm": "init\n"}), node.SlurmJobs, ""), []string{})
	unknownAs(t, ask(t, tree(t), node.SlurmJobs, ""), "no such file")
	if v := get(t, New(Options{}), node.SlurmJobs, ""); !v.IsKnown() {
		t.Error(v.Reason())
	}
}
