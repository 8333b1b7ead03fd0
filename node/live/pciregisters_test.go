package live

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/pciregs/pciregstest"
	"busbar/node"
)

// registerTree has a root port, a NIC below it and a GPU on the root bus, as sysfs shows them to root.
func registerTree(t testing.TB, more ...map[string]string) string {
	const port, nic, gpu = "sys/devices/pci0000:00/0000:00:02.0/", "sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/", "sys/devices/pci0000:00/0000:00:06.0/"
	return tree(t, append([]map[string]string{{
		"sys/bus/pci/devices/0000:00:02.0":            "-> ../../../devices/pci0000:00/0000:00:02.0",
		"sys/bus/pci/devices/0000:03:00.0":            "-> ../../../devices/pci0000:00/0000:00:02.0/0000:03:00.0",
		"sys/bus/pci/devices/0000:00:06.0":            "-> ../../../devices/pci0000:00/0000:00:06.0",
		"sys/devices/pci0000:00/power/runtime_status": "unsupported\n",
		port + "config":                               string(pciregstest.Config(t, "haswell-root-port")),
		port + "power_state":                          "D0\n",
		port + "power/runtime_status":                 "active\n",
		port + "resource":                             strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 17),
		port + "current_link_speed":                   "8.0 GT/s PCIe\n", port + "current_link_width": "8\n",
		port + "max_link_speed": "8.0 GT/s PCIe\n", port + "max_link_width": "8\n",
		nic + "config":               string(pciregstest.Config(t, "connectx3-endpoint")),
		nic + "power_state":          "D0\n",
		nic + "power/runtime_status": "active\n",
		nic + "resource":             "0x00000000c0100000 0x00000000c01fffff 0x0000000000040200\n0x0000000000000000 0x0000000000000000 0x0000000000000000\n0x00000000be000000 0x00000000bfffffff 0x000000000014220c\n" + strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 4),
		nic + "current_link_speed":   "2.5 GT/s PCIe\n", nic + "current_link_width": "4\n",
		nic + "max_link_speed": "8.0 GT/s PCIe\n", nic + "max_link_width": "8\n",
		gpu + "config": string(pciregstest.Config(t, "h200-in-guest")),
	}}, more...)...)
}

// answered is a value as it is recorded, sources left out.
func answered[T any](t testing.TB, v node.Value[T]) string {
	t.Helper()
	raw, err := json.Marshal(v)
	must(t, err)
	var any any
	must(t, json.Unmarshal(raw, &any))
	raw, err = json.Marshal(withoutSources(any))
	must(t, err)
	return string(raw)
}

func withoutSources(v any) any {
	if m, ok := v.(map[string]any); ok {
		delete(m, "source")
		for k := range m {
			m[k] = withoutSources(m[k])
		}
	}
	return v
}

func TestPCIRegisters(t *testing.T) {
	root := registerTree(t)
	const off = `{"value":{"present":false}}`
	for address, want := range map[string]string{
		"0000:00:02.0": `{"value":{"acs":{"value":{"enabled":["SrcValid","TransBlk","ReqRedir","CmpltRedir","UpstreamFwd"],"present":true,"supported":["SrcValid","TransBlk","ReqRedir","CmpltRedir","UpstreamFwd"]}},` +
			`"ats":` + off + `,"bars":{"value":[]},"express":{"value":{"max_payload":256,"max_payload_supported":256,"max_read_request":128,"port_type":"root-port","present":true}}}}`,
		"0000:03:00.0": `{"value":{"acs":` + off + `,"ats":` + off + `,"bars":{"value":[{"index":0,"size_bytes":1048576},{"index":2,"prefetchable":true,"size_bytes":33554432}]},` +
			`"express":{"value":{"max_payload":256,"max_payload_supported":256,"max_read_request":512,"port_type":"endpoint","present":true}}}}`,
		"0000:00:06.0": `{"value":{"acs":` + off + `,"ats":` + off + `,"bars":{"reason":"no such file or directory"},` +
			`"express":{"value":{"max_payload":256,"max_payload_supported":256,"max_read_request":4096,"port_type":"endpoint","present":true,"relaxed_ordering":true}}}}`,
		"0000:04:00.0":        `{"reason":"there is no PCI function 0000:04:00.0"}`,
		"04:00.0":             `{"reason":"is no PCI address DDDD:BB:DD.F"}`,
		"../../etc/passwd":    `{"reason":"is no PCI address DDDD:BB:DD.F"}`,
		"0000:03:00.0/config": `{"reason":"is no PCI address DDDD:BB:DD.F"}`,
	} {
		t.Run(address, func(t *testing.T) {
			if diff := cmp.Diff(want, answered(t, ask(t, root, node.PCIRegisters, address))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	state, _ := ask(t, root, node.PCIRegisters, "0000:03:00.0").Get()
	if got := []string{state.Express.Source().Path, state.ATS.Source().Path, state.BARs.Source().Path}; got[0] != "/sys/bus/pci/devices/0000:03:00.0/config" || got[1] != got[0] || got[2] != "/sys/bus/pci/devices/0000:03:00.0/resource" {
		t.Errorf("sources %q", got)
	}
}

func TestPCILink(t *testing.T) {
	const port, nic, gpu = "sys/devices/pci0000:00/0000:00:02.0/", "sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/", "sys/devices/pci0000:00/0000:00:06.0/"
	both := func(now, best string) string { return `{"value":{"current":` + now + `,"max":` + best + `}}` }
	link := func(speed, width string) string {
		return `{"value":{"speed_gt_s":` + speed + `,"width":` + width + `}}`
	}
	for name, tt := range map[string]struct {
		files         map[string]string
		address, want string
	}{
		"idle":      {nil, "0000:03:00.0", both(link("2.5", "4"), link("8", "8"))},
		"as it can": {nil, "0000:00:02.0", both(link("8", "8"), link("8", "8"))},
		"attributes that do not tell": {map[string]string{
			gpu + "current_link_speed": "Unknown\n", gpu + "current_link_width": "16\n", gpu + "max_link_speed": "Unknown speed\n", gpu + "max_link_width": "16\n",
		}, "0000:00:06.0", both(link("32", "16"), link("32", "16"))},
		"no attributes": {nil, "0000:00:06.0", both(link("32", "16"), link("32", "16"))},
		"no attributes, without root": {map[string]string{gpu + "config": string(pciregstest.Config(t, "h200-in-guest")[:64])}, "0000:00:06.0",
			both(`{"reason":"the kernel shows no PCI Express link of it"}`, `{"reason":"the kernel shows no PCI Express link of it"}`)},
		"unknown, without root": {map[string]string{port + "config": string(pciregstest.Config(t, "haswell-root-port")[:64]), port + "current_link_speed": "Unknown\n"}, "0000:00:02.0",
			both(`{"reason":"the kernel shows \"Unknown\" as the link's speed"}`, link("8", "8"))},
		"an attribute that does not tell, and one that does": {map[string]string{nic + "max_link_speed": "Unknown\n"}, "0000:03:00.0", both(link("2.5", "4"), link("8", "8"))},
		"an empty slot": {map[string]string{
			port + "config": string(changed(pciregstest.Config(t, "haswell-root-port"), 0xa2, 0x01, 0x00)), port + "current_link_speed": "2.5 GT/s PCIe\n", port + "current_link_width": "0\n",
		}, "0000:00:02.0", both(`{"reason":"no link is up","unsupported":true}`, link("8", "8"))},
		"half an attribute": {map[string]string{port + "max_link_width": "-> nowhere", port + "config": ""}, "0000:00:02.0",
			both(link("8", "8"), `{"reason":"no such file or directory"}`)},
		"no link": {map[string]string{gpu + "config": string(pciregstest.Config(t, "skylake-graphics"))}, "0000:00:06.0",
			both(`{"reason":"the function has no PCI Express link","unsupported":true}`, `{"reason":"the function has no PCI Express link","unsupported":true}`)},
		"not there": {nil, "0000:04:00.0", `{"reason":"there is no PCI function 0000:04:00.0"}`},
	} {
		t.Run(name, func(t *testing.T) {
			root := registerTree(t)
			for p := range tt.files {
				_ = os.Remove(root + "/" + p)
			}
			overlay(t, root, tt.files)
			if diff := cmp.Diff(tt.want, answered(t, ask(t, root, node.PCILink, tt.address))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// overlay puts files into a tree.
func overlay(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for p, content := range files {
		host := root + "/" + p
		_ = os.Remove(host)
		if target, link := strings.CutPrefix(content, "-> "); link {
			must(t, os.Symlink(target, host))
			continue
		}
		must(t, os.WriteFile(host, []byte(content), 0o644))
	}
}

// changed is config with other bytes at offset.
func changed(config []byte, offset int, bytes ...byte) []byte {
	copy(config[offset:], bytes)
	return config
}

// What cannot be read, or not without waking something, is unknown and says why; what can be is read all the same.
func TestPCIRegistersUnknown(t *testing.T) {
	const (
		port = "sys/devices/pci0000:00/0000:00:02.0/"
		nic  = port + "0000:03:00.0/"

		noPower      = "it is without power (D3cold), and reading would wake it"
		bridgeSleeps = "its bridge sleeps, and reading would wake it"
		sleeps       = "it sleeps, and whether reading would wake it cannot be told before Linux 5.11"
		rootOnly     = "all but the first 64 bytes of configuration space are shown to root alone: run as root"
		noExtended   = "the kernel reaches only the first 256 bytes of configuration space"
		gone         = "it reads as all ones: the device does not answer (unplugged, in reset or without power)"
	)
	config := string(pciregstest.Config(t, "connectx3-endpoint"))
	for name, tt := range map[string]struct {
		files                    map[string]string
		express, acs, bars, link string // the reasons; empty where they are known
	}{
		"all is well":              {},
		"without root":             {map[string]string{nic + "config": config[:64]}, rootOnly, rootOnly, "", ""},
		"256 bytes":                {map[string]string{nic + "config": config[:256]}, "", noExtended, "", ""},
		"gone":                     {map[string]string{nic + "config": strings.Repeat("\xff", 4096)}, gone, gone, "", ""},
		"no power":                 {map[string]string{nic + "power_state": "D3cold\n"}, noPower, noPower, "", noPower},
		"D3hot answers":            {map[string]string{nic + "power_state": "D3hot\n", nic + "power/runtime_status": "suspended\n"}, "", "", "", ""},
		"the bridge sleeps":        {map[string]string{port + "power/runtime_status": "suspended\n"}, bridgeSleeps, bridgeSleeps, "", bridgeSleeps},
		"the bridge goes to sleep": {map[string]string{port + "power/runtime_status": "suspending\n"}, bridgeSleeps, bridgeSleeps, "", bridgeSleeps},
		"an old kernel":            {map[string]string{nic + "power_state": "-> nowhere"}, "", "", "", ""},
		"an old kernel, asleep":    {map[string]string{nic + "power_state": "-> nowhere", nic + "power/runtime_status": "suspended\n"}, sleeps, sleeps, "", sleeps},
		"no config":                {map[string]string{nic + "config": "-> nowhere"}, "no such file or directory", "no such file or directory", "", ""},
		"a directory":              {map[string]string{nic + "config": "-> power"}, "is a directory", "is a directory", "", ""},
		"regions cut off":          {map[string]string{nic + "resource": "0x0 0x0 0x0\n"}, "", "", "it has lines for 1 of 6 base address registers", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := registerTree(t)
			overlay(t, root, tt.files)
			state, ok := ask(t, root, node.PCIRegisters, "0000:03:00.0").Get()
			if !ok {
				t.Fatal("unknown as a whole")
			}
			got := []string{state.Express.Reason(), state.ACS.Reason(), state.ATS.Reason(), state.BARs.Reason(), ask(t, root, node.PCILink, "0000:03:00.0").Reason()}
			if diff := cmp.Diff([]string{tt.express, tt.acs, tt.acs, tt.bars, tt.link}, got); diff != "" {
				t.Errorf("express, acs, ats, bars, link (-want +got):\n%s", diff)
			}
		})
	}
	for _, v := range []node.Value[node.PCIRegisterState]{
		get(t, New(Options{Root: registerTree(t)}), node.PCIRegisters, "0000:03:00.0"), // --root
		ask(t, tree(t), node.PCIRegisters, "0000:03:00.0"),                             // a capture without sysfs
	} {
		if r := v.Reason(); r != "not read: --root" && r != "no such file or directory" {
			t.Error(r)
		}
	}
}

// A function that hangs costs its deadline, and no registers of others; their links come from another child.
func TestPCIFunctionThatHangs(t *testing.T) {
	starts := 0
	r := New(Options{Root: registerTree(t), Running: true, Child: func() *exec.Cmd {
		if starts++; starts == 1 {
			return exec.Command("/proc/self/exe", brokenChild, "stopped")
		}
		return self()
	}})
	r.deadline = func(kind string) time.Duration {
		if kind == node.PCIRegisters.Name() {
			return 300 * time.Millisecond
		}
		return time.Minute
	}
	facts := r.Read(context.Background(), node.Inventory{}, []node.Query{
		node.PCIRegisters.Query("0000:00:02.0"), node.PCIRegisters.Query("0000:03:00.0"), node.PCILink.Query("0000:03:00.0"),
	})
	unknownAs(t, node.PCIRegisters.Get(facts, "0000:00:02.0"), "no answer within 300ms from PCI function 0000:00:02.0")
	unknownAs(t, node.PCIRegisters.Get(facts, "0000:03:00.0"), "not asked: no answer within 300ms")
	if v := node.PCILink.Get(facts, "0000:03:00.0"); !v.IsKnown() {
		t.Error(v.Reason())
	}
}

// The functions of this machine answer root.
func TestThisMachinesRegisters(t *testing.T) {
	r := New(Options{})
	functions, _ := r.Inventory(context.Background()).PCI.Get()
	if len(functions) == 0 || os.Geteuid() != 0 {
		t.Skip("there is no PCI bus, or this is not root")
	}
	read := 0
	for _, f := range functions {
		state, ok := get(t, r, node.PCIRegisters, f.Address).Get()
		if !ok || !state.BARs.IsKnown() {
			t.Errorf("%s: %v, %s", f.Address, ok, state.BARs.Reason())
		}
		if state.Express.IsKnown() {
			read++
		}
	}
	if read == 0 {
		t.Error("no function answers")
	}
}

// And nobody else.
func TestRegistersWithoutRoot(t *testing.T) {
	if !asUser(t, "TestRegistersWithoutRoot") {
		return
	}
	f := files{running: true}
	functions, _ := f.pci().Get()
	for _, function := range functions {
		state, _ := f.pciRegisters(function.Address).Get()
		if header, err := os.ReadFile(pciDevices + "/" + function.Address + "/config"); err != nil || len(header) < 64 || header[6]&0x10 == 0 {
			continue // no list of capabilities to be refused
		}
		if why := state.Express.Reason(); !strings.Contains(why, "run as root") && !strings.Contains(why, "wake it") {
			t.Errorf("%s: %q", function.Address, why)
		}
	}
}
