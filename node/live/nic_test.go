package live

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"busbar/internal/dcbnl"
	"busbar/internal/ethtool"
	"busbar/node"

	"golang.org/x/sys/unix"
)

const rail = "0000:17:00.0"

// railTree is an mlx5 NIC with network device eth0, up at 400 Gbit/s.
func railTree(more map[string]string) map[string]string {
	m := pciTree(function{above: "pci0000:15/0000:15:01.0", address: rail, ids: "15b3 1021 15b3 0023 020000", driver: "mlx5_core"})
	maps.Copy(m, netTree("eth0", "1", "../../../"+rail, map[string]string{"address": "02:00:00:00:00:01\n", "mtu": "9000\n", "carrier": "1\n", "operstate": "up\n", "speed": "400000\n"}))
	maps.Copy(m, more)
	return m
}

// dcbReplies answers DCB commands: those of a number with a recorded reply, or an error.
type dcbReplies map[byte]any

func (r dcbReplies) Exchange(_ uint16, payload []byte) ([]byte, error) {
	switch answer := r[payload[1]].(type) {
	case string:
		text, err := os.ReadFile("../../internal/dcbnl/testdata/" + answer + ".hex")
		if err != nil {
			return nil, err
		}
		return hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	case error:
		return nil, answer
	default:
		return nil, dcbnl.EOPNOTSUPP
	}
}

// Commands of dcbReplies.
const (
	ieeeGet      = 21
	capabilities = 11
)

// ioctlReplies answers ethtool commands by their number, an Errno or what stands behind the number.
type ioctlReplies map[byte]any

func (r ioctlReplies) Ioctl(_ string, data []byte) error {
	switch answer := r[data[0]].(type) {
	case []byte:
		copy(data[4:], answer)
		return nil
	case unix.Errno:
		return answer
	default:
		return unix.EOPNOTSUPP
	}
}

func driversOf(t *testing.T, entries map[string]string, dcb dcbnl.Conn, ioctl ethtool.Conn) drivers {
	t.Helper()
	return drivers{files: files{root: tree(t, entries), running: true}, dcb: dcb, ethtool: ioctl}
}

func TestLink(t *testing.T) {
	info := make([]byte, 192)
	copy(info, "mlx5_core")
	copy(info[64:], "28.39.1002 (MT_0000000838)")
	v := driversOf(t, railTree(nil), nil, ioctlReplies{0x03: info}).link(rail)
	yes := node.Known[string]
	known(t, v, node.LinkState{
		Netdev: "eth0", MAC: yes("02:00:00:00:00:01", node.Source{}), MTU: node.Known(9000, node.Source{}), Up: node.Known(true, node.Source{}), Carrier: node.Known(true, node.Source{}), OperState: yes("up", node.Source{}),
		Speed: node.Known(400_000, node.Source{}), Driver: yes("mlx5_core", node.Source{}), Firmware: yes("28.39.1002 (MT_0000000838)", node.Source{}),
	})
	if s := v.Source().Path; s != "/sys/class/net/eth0" {
		t.Error(s)
	}
	state, _ := driversOf(t, railTree(map[string]string{"sys/class/net/eth0/speed": "-1\n", "sys/class/net/eth0/carrier": "0\n", "sys/class/net/eth0/mtu": "x"}), nil, ioctlReplies{}).link(rail).Get()
	unknownAs(t, state.Speed, "there is no link")
	unknownAs(t, state.MTU, "is no number")
	known(t, state.Carrier, false)
	if unknownAs(t, state.Firmware, "the driver has none: operation not supported"); !state.Firmware.IsUnsupported() {
		t.Error("firmware is not unsupported")
	}
	// A tree does not answer for its drivers, but shows what stands in files.
	state, _ = ask(t, tree(t, railTree(nil)), node.Link, rail).Get()
	known(t, state.Speed, 400_000)
	unknownAs(t, state.Driver, "a directory tree does not answer")
}

func TestFlowControl(t *testing.T) {
	on, tunable := make([]byte, 12), make([]byte, 14)
	on[4] = 1
	tunable[12] = 100
	for _, test := range []struct {
		name   string
		ioctl  ioctlReplies
		pause  node.Value[ethtool.Pause]
		storms node.Value[int]
	}{
		{"mlx5", ioctlReplies{0x12: on, 0x48: tunable}, node.Known(ethtool.Pause{Rx: true}, node.Source{}), node.Known(100, node.Source{})},
		{"other tunables only", ioctlReplies{0x12: on, 0x48: unix.EINVAL},
			node.Known(ethtool.Pause{Rx: true}, node.Source{}), node.Unsupported[int]("the driver has none: invalid argument", node.Source{})},
		{"neither", ioctlReplies{}, node.Unsupported[ethtool.Pause]("the driver has none: operation not supported", node.Source{}),
			node.Unsupported[int]("the driver has none: operation not supported", node.Source{})},
		{"unreadable", ioctlReplies{0x12: unix.EIO, 0x48: unix.EPERM}, node.Unknown[ethtool.Pause]("reading pause of eth0: input/output error", node.Source{}),
			node.Unknown[int]("reading the PFC storm prevention of eth0: operation not permitted", node.Source{})},
	} {
		t.Run(test.name, func(t *testing.T) {
			known(t, driversOf(t, railTree(nil), nil, test.ioctl).flowControl(rail), node.FlowControlState{Netdev: "eth0", Pause: test.pause, PFCStormPrevention: test.storms})
		})
	}
}

func TestDCB(t *testing.T) {
	d := driversOf(t, railTree(nil), dcbReplies{ieeeGet: "get-full"}, nil)
	state, ok := d.dataCenterBridging(rail).Get()
	if !ok || state.Netdev != "eth0" || state.Driver != "mlx5_core" {
		t.Fatalf("%+v", state)
	}
	known(t, state.PFC, dcbnl.PFC{Capacity: 8, Enabled: 1 << 3, Delay: 7})
	known(t, state.DCBX, dcbnl.DCBXHost|dcbnl.DCBXIEEE)
	known(t, state.Apps, []dcbnl.App{{Selector: dcbnl.Ethertype}, {Selector: dcbnl.DSCP, Protocol: 26, Priority: 3}, {Selector: dcbnl.DSCP, Protocol: 48, Priority: 6}, {Selector: dcbnl.PCP, Protocol: 1, Priority: 1}})
	known(t, state.TrustOrder, dcbnl.TrustOrder{dcbnl.DSCP, dcbnl.PCP})
	if ets, ok := state.ETS.Get(); !ok || ets.Algorithms[0] != dcbnl.Weighted {
		t.Errorf("%+v", state.ETS)
	}
	if rate, ok := state.MaxRate.Get(); !ok || rate[3] != 255_000_000 {
		t.Errorf("%+v", state.MaxRate)
	}
	if buffer, ok := state.Buffer.Get(); !ok || buffer.Total != 524160 {
		t.Errorf("%+v", state.Buffer)
	}
}

// What a driver lacks is no value, and is told from what could not be read.
func TestDCBThatIsNotShown(t *testing.T) {
	for _, test := range []struct {
		name     string
		dcb      dcbReplies
		pfc, ets string // reasons
		failed   bool   // pfc is unknown, not unsupported
	}{
		{"nothing, and the driver does not say what it has", dcbReplies{ieeeGet: "get-nothing"}, "has no such operation, or it failed", "has no such operation, or it failed", false},
		{"nothing, although the driver says that it has PFC", dcbReplies{ieeeGet: "get-nothing", capabilities: "capabilities"}, "says that it has it and shows nothing", "has no such operation", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			state, ok := driversOf(t, railTree(nil), test.dcb, nil).dataCenterBridging(rail).Get()
			if !ok {
				t.Fatal("unknown")
			}
			unknownAs(t, state.PFC, test.pfc)
			unknownAs(t, state.ETS, test.ets)
			if state.PFC.IsUnsupported() == test.failed || !state.ETS.IsUnsupported() || !state.Buffer.IsUnsupported() || !state.MaxRate.IsUnsupported() || !state.DCBX.IsUnsupported() {
				t.Errorf("%+v", state)
			}
			known(t, state.Apps, []dcbnl.App{})
		})
	}
	none := driversOf(t, railTree(nil), dcbReplies{}, nil).dataCenterBridging(rail)
	if unknownAs(t, none, "the driver has no DCB operations for eth0"); !none.IsUnsupported() {
		t.Error("no operations: not unsupported")
	}
	gone := driversOf(t, railTree(nil), dcbReplies{ieeeGet: dcbnl.ENODEV}, nil).dataCenterBridging(rail)
	if unknownAs(t, gone, "reading DCB of eth0: no such network device"); gone.IsUnsupported() {
		t.Error("a device that is gone: unsupported")
	}
	if v := driversOf(t, railTree(nil), dcbReplies{ieeeGet: "capabilities"}, nil).dataCenterBridging(rail); !v.IsKnown() {
		t.Error(v.Reason()) // a reply without the nest shows nothing
	}
	unknownAs(t, ask(t, tree(t, railTree(nil)), node.DCB, rail), "a directory tree does not answer")
}

func TestTrust(t *testing.T) {
	ofed := func(text string) map[string]string {
		return railTree(map[string]string{"sys/class/net/eth0/qos/trust": text})
	}
	for _, test := range []struct {
		name, reply, want, source string
		entries                   map[string]string
	}{
		{"the file of MLNX_OFED wins", "get-full", node.TrustPCP, "/sys/class/net/eth0/qos/trust", ofed("pcp\n")},
		{"the driver's order", "get-full", node.TrustDSCP, "rtnetlink RTM_GETDCB, trust order", railTree(nil)},
		{"an APP table without a DSCP", "get-default", node.TrustPCP, "rtnetlink RTM_GETDCB, APP table", railTree(nil)},
	} {
		t.Run(test.name, func(t *testing.T) {
			state, _ := driversOf(t, test.entries, dcbReplies{ieeeGet: test.reply}, nil).dataCenterBridging(rail).Get()
			known(t, state.Trust, test.want)
			if s := state.Trust.Source().String(); s != test.source {
				t.Error(s)
			}
		})
	}
	known(t, trusted([]dcbnl.Selector{dcbnl.Ethertype, dcbnl.DSCP}, node.TrustPCP, ""), node.TrustDSCP)
	known(t, trusted([]dcbnl.Selector{dcbnl.PCP, dcbnl.DSCP}, node.TrustNone, ""), node.TrustDSCP)
	known(t, trusted([]dcbnl.Selector{dcbnl.PCP}, node.TrustNone, ""), node.TrustPCP)
	known(t, trusted(nil, node.TrustNone, ""), node.TrustNone)
}

// A port is found by its PCI address, whatever its network device is called.
func TestPort(t *testing.T) {
	entries := railTree(map[string]string{
		"sys/class/net/eth0/phys_port_name":             "p0\n",
		"sys/class/infiniband/mlx5_0/device":            "-> ../../../" + rail,
		"sys/class/infiniband/mlx5_0/ports/1/state":     "4: ACTIVE\n",
		"sys/class/infiniband/mlx5_0/ports/2/state":     "1: DOWN\n",
		"sys/class/infiniband/rxe0/parent":              "usb0\n",
		"sys/class/infiniband/rxe0/ports/1/state":       "4: ACTIVE\n",
		"sys/class/infiniband/siw0/ports/x/state":       "",
		"sys/bus/virtio/devices/virtio3":                "-> ../../../devices/pci0000:80/0000:81:00.0/virtio3",
		"sys/bus/pci/devices/0000:81:00.0/driver":       "-> ../../../../bus/pci/drivers/virtio-pci",
		"sys/class/infiniband/mlx5_bond_0/device":       "-> ../../../0000:80:00.0",
		"sys/class/infiniband/mlx5_bond_0/ports/1/rate": "",
	})
	for _, m := range []map[string]string{
		netTree("aep0", "1", "../../../"+rail, map[string]string{"phys_port_name": "pf0vf0\n"}),
		netTree("eth1", "1", "../../../"+rail, map[string]string{"dev_port": "1\n"}),
		netTree("vnet", "1", "../../../virtio3", nil), netTree("usb0", "1", "../../../1-1:1.0", nil),
	} {
		maps.Copy(entries, m)
	}
	f := files{root: tree(t, entries), running: true}
	for key, want := range map[string]port{
		rail:             {address: rail, number: 1, netdev: "eth0", rdma: "mlx5_0", rdmaPort: 1},
		rail + "/2":      {address: rail, number: 2, netdev: "eth1", rdma: "mlx5_0", rdmaPort: 2},
		rail + "/3":      {address: rail, number: 3},
		"0000:81:00.0":   {address: "0000:81:00.0", number: 1, netdev: "vnet"},
		"0000:80:00.0":   {address: "0000:80:00.0", number: 1, rdma: "mlx5_bond_0", rdmaPort: 1},
		"0000:80:00.0/2": {address: "0000:80:00.0", number: 2},
	} {
		if got, err := f.port(key); err != nil || got != want {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
	// An RDMA device on no function is found by its network device.
	soft := files{root: tree(t, railTree(map[string]string{"sys/class/infiniband/rxe0/parent": "eth0\n", "sys/class/infiniband/rxe0/ports/1/state": "4: ACTIVE\n"})), running: true}
	if got, err := soft.port(rail); err != nil || got.rdma != "rxe0" || got.rdmaPort != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := (files{root: tree(t), running: true}).port(rail); err == nil {
		t.Error("found without a sysfs")
	}
}

// renaming is a driver that is asked while udev gives its device another name.
type renaming struct{ root string }

func (r renaming) Ioctl(string, []byte) error {
	return os.Rename(r.root+netClass+"/eth0", r.root+netClass+"/rail0")
}

// What was read by a name that is another's meanwhile is not known.
func TestRenamedWhileRead(t *testing.T) {
	d := driversOf(t, railTree(nil), nil, nil)
	d.ethtool = renaming{d.root}
	unknownAs(t, d.link(rail), "renamed or removed while it was read")
	d.ethtool = ioctlReplies{}
	if state, ok := d.link(rail).Get(); !ok || state.Netdev != "rail0" {
		t.Errorf("%+v", state)
	}
}

// A query about what is not there is answered without a child; what has no network device, by it.
func TestNICThatCannotBeAsked(t *testing.T) {
	root := tree(t, pciTree(
		function{above: "pci0000:15", address: rail, ids: "15b3 1021 15b3 0023 020000"},
		function{above: "pci0000:15", address: "0000:18:00.0", ids: "15b3 1021 15b3 0023 020000", driver: "vfio-pci"},
	), map[string]string{"sys/class/net/lo/type": "772\n"})
	started := 0
	r := New(Options{Root: root, Running: true, Child: func() *exec.Cmd {
		started++
		return self()
	}})
	for key, why := range map[string]string{
		"0000:99:00.0": "there is no PCI function 0000:99:00.0",
		rail:           "no driver is bound to the NIC",
		"eth0":         "is not a NIC's PCI address",
		"../../etc":    "is not a NIC's PCI address",
		rail + "/1":    "is not a NIC's PCI address",
		"":             "is not a NIC's PCI address",
	} {
		unknownAs(t, get(t, r, node.DCB, key), why)
		unknownAs(t, get(t, r, node.Link, key), why)
	}
	if started != 0 {
		t.Errorf("%d children", started)
	}
	unknownAs(t, get(t, r, node.Link, "0000:18:00.0"), "driver vfio-pci has made no network device for port 1 of the NIC")
	unknownAs(t, get(t, r, node.FlowControl, "0000:18:00.0/2"), "for port 2 of the NIC")
	unknownAs(t, get(t, New(Options{Root: root}), node.Link, rail), "not read: --root")
}

// Through the child: nothing of what a fact says is lost.
func TestNICThroughChild(t *testing.T) {
	r := New(Options{Root: tree(t, railTree(nil)), Running: true})
	queries := []node.Query{node.Link.Query(rail), node.FlowControl.Query(rail), node.DCB.Query(rail), node.RoCE.Query(rail)}
	facts := r.Read(context.Background(), node.Inventory{}, queries)
	link, _ := node.Link.Get(facts, rail).Get()
	known(t, link.Speed, 400_000)
	roce, ok := node.RoCE.Get(facts, rail).Get()
	if !ok || !roce.NotificationPoint.IsUnsupported() || roce.DefaultToS.Needs() != node.CapabilityRDMA {
		t.Errorf("%+v", roce)
	}
	for _, v := range []node.Value[int]{node.Unsupported[int]("none", node.Source{Path: "/x"}), node.Awaiting[int]("later", "it", node.Source{Call: "y"}), node.Known(3, node.Source{})} {
		if again := decodeValue[int](encodeValue(v)); again != v {
			t.Errorf("%+v became %+v", v, again)
		}
	}
}

func TestReaderChangesNothing(t *testing.T) {
	if _, err := (rtnetlink{}).Exchange(dcbnl.SetDCB, []byte{0, 20, 0, 0}); err == nil || !strings.Contains(err.Error(), "a reader sends no message of type 79") {
		t.Error(err)
	}
	if err := (ethtoolIoctl{}).Ioctl(strings.Repeat("x", 16), make([]byte, 16)); !errors.Is(err, unix.ENODEV) {
		t.Error(err)
	}
}

// askLoopback, as the test binary's first argument, makes it ask about the loopback of a network namespace and print
// what it was told.
const askLoopback = "__ask-loopback"

func runAskLoopback() int {
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	d := drivers{files: files{running: true}, dcb: rtnetlink{}, ethtool: ethtoolIoctl{}}
	for _, netdev := range []string{"lo", "gone0"} {
		_, err := dcbnl.Get(d.dcb, netdev)
		_, claims := dcbnl.GetClaims(d.dcb, netdev)
		fmt.Printf("%v (%t), %v\n", err, errors.Is(err, dcbnl.ErrNoOperations), claims)
	}
	_, pause := ethtool.GetPause(d.ethtool, "lo")
	_, storm := ethtool.GetPFCStormPrevention(d.ethtool, "lo")
	driver := d.driver("lo")
	fmt.Printf("%v\n%v\n%s (%t)\n", pause, storm, driver.Reason(), driver.IsUnsupported())
	fmt.Println(d.carrier(netClass+"/lo/carrier").Reason(), "|", d.speed(netClass+"/lo/speed").Reason())
	return 0
}

// A real kernel: the loopback takes no part in DCB, and nobody is called gone0.
func TestLoopback(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", askLoopback)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("needs namespaces: %v", err)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := `reading DCB of lo: the driver has no DCB operations (true), asking the driver of lo for its DCB capabilities: operation not supported
reading DCB of gone0: no such network device (false), asking the driver of gone0 for its DCB capabilities: no such network device
reading pause of lo: operation not supported
reading the PFC storm prevention of lo: operation not supported
the driver has none: operation not supported (true)
the network device is down | the network device is down, or its driver has no speed
`
	if string(out) != want {
		t.Errorf("%s\nwanted\n%s", out, want)
	}
}
