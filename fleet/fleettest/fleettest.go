// Package fleettest makes recordings of many nodes that do not exist out of the built-in ones, with faults of which it is known how
// many nodes have them.
package fleettest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"busbar/internal/pciregs"
	"busbar/node"
	"busbar/node/example"
)

// Fault is what is wrong with one node of some.
type Fault struct {
	// Name says what it is.
	Name string
	// IDs and Status of the findings that tell it; both empty where none does.
	IDs    []string
	Status string
	// base is the built-in recording that it is planted in: the nodes number of every every nodes of that kind have it.
	base          string
	every, number int
	plant         func(node.Facts) node.Facts
	// spoil breaks the text instead.
	spoil func(string) string
}

// IsTrait reports that the fault is another version of what Name says than most of the node's equals have.
func (f Fault) IsTrait() bool { return len(f.IDs) == 0 && f.spoil == nil }

// Faults are all that are planted.
var Faults = []Fault{
	{Name: "ACS", IDs: []string{"pcie_acs.redirect"}, Status: "drift", base: "hgx-h100", every: 15, number: 3, plant: redirecting},
	{Name: "NVLink", IDs: []string{"nvlink.links"}, Status: "drift", base: "hgx-h100", every: 30, number: 7, plant: twoLinksDown},
	{Name: "memlock", IDs: []string{"limits.process"}, Status: "drift", base: "hgx-h100", every: 25, number: 11, plant: lowMemlock},
	{Name: "NUMA balancing", IDs: []string{"sysctl.running"}, Status: "drift", base: "hgx-a100-nps4", every: 10, number: 2, plant: balancing("1")},
	{Name: "nccl.conf", IDs: []string{"nccl.quoted_integer", "nccl.setting"}, Status: "drift", base: "hgx-h100", every: 40, number: 13, plant: quoted},
	{Name: "NVML", IDs: []string{"gpus.uniform", "gpus.mig", "gpus.ecc", "gpus.persistence"}, Status: "unknown", base: "hgx-a100-nps4", every: 15, number: 5, plant: silentGPU},
	{Name: "BIOS", base: "hgx-h100", every: 45, number: 17, plant: otherBIOS},
	{Name: "kernel", base: "hgx-a100-nps4", every: 15, number: 8, plant: otherKernel},
	{Name: "firmware of NICs 15b3:1021", base: "hgx-h100", every: 50, number: 34, plant: otherFirmware},
	{Name: "cut off", base: "hgx-h100", every: 60, number: 19, spoil: func(text string) string { return text[:len(text)/3] }},
	{Name: "newer", base: "hgx-h100", every: 80, number: 23, spoil: func(text string) string {
		return strings.Replace(text, `"format_version": "1.0"`, `"format_version": "2.0"`, 1)
	}},
}

// bases are the built-in recordings, of each ten nodes that follow each other.
var bases = []string{"hgx-h100", "hgx-h100", "hgx-a100-nps4", "hgx-h100", "hgx-h100", "gb200-tray", "hgx-h100", "hgx-a100-nps4", "hgx-h100", "vm-guest-2gpu"}

// of is the base of node i, how many nodes of that base come before it, and its fault, or nil.
func of(i int) (base string, before int, fault *Fault) {
	base = bases[i%len(bases)]
	for j, b := range bases {
		if b == base {
			before += i / len(bases)
			if j < i%len(bases) {
				before++
			}
		}
	}
	at := slices.IndexFunc(Faults, func(f Fault) bool { return f.base == base && before%f.every == f.number })
	if at >= 0 {
		fault = &Faults[at]
	}
	return base, before, fault
}

// Counts says how many of n nodes have each fault, by its name.
func Counts(n int) map[string]int {
	counts := map[string]int{}
	for i := range n {
		if _, _, fault := of(i); fault != nil {
			counts[fault.Name]++
		}
	}
	return counts
}

// Host is the host name of node i, from 0.
func Host(i int) string { return fmt.Sprintf("node-%05d", i) }

// hostPlaceholder stands for the host name in a text that several nodes share.
const hostPlaceholder = "fleettest-host"

// Recordings are the texts of n recordings, in the order of Host. The same ones every time.
func Recordings(n int) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		texts := map[string]string{} // by base and fault
		for i := range n {
			base, _, fault := of(i)
			name := ""
			if fault != nil {
				name = fault.Name
			}
			text, ok := texts[base+" "+name]
			if !ok {
				text = render(base, fault)
				texts[base+" "+name] = text
			}
			if !yield(i, []byte(identity(i).Replace(text))) {
				return
			}
		}
	}
}

// identity gives node i a name, and its NICs and GPUs addresses and ids, of its own.
func identity(i int) *strings.Replacer {
	octet := fmt.Sprintf("%02x", i%256)
	return strings.NewReplacer(hostPlaceholder, Host(i), "GPU-00000000-", fmt.Sprintf("GPU-%08x-", i), "a2:e1:0c:", "a2:e1:"+octet+":", "e1ff:fe0c", "e1ff:fe"+octet, "e103:000c", "e103:00"+octet)
}

// Archive writes n recordings as a tar archive that gzip compressed.
func Archive(w io.Writer, n int) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	for i, text := range Recordings(n) {
		header := tar.Header{Name: "fleet/" + Host(i) + ".json", Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := archive.Write(text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// render writes a recording of a base with a fault, or without one where that is nil.
func render(base string, fault *Fault) string {
	f, err := example.Open(base)
	if err != nil {
		panic(err) // bases names what there is
	}
	facts, err := node.ReadRecording(f)
	if err != nil {
		panic(err)
	}
	inv := facts.Inventory
	inv.Hostname = hostPlaceholder
	facts = facts.WithInventory(inv)
	if fault != nil && fault.plant != nil {
		facts = fault.plant(facts)
	}
	var b bytes.Buffer
	if err := node.WriteRecording(&b, facts); err != nil {
		panic(err)
	}
	if fault != nil && fault.spoil != nil {
		return fault.spoil(b.String())
	}
	return b.String()
}

// change edits the answer to a query, which must be known.
func change[T any](facts node.Facts, kind node.Kind[T], key string, edit func(*T)) node.Facts {
	answer := kind.Get(facts, key)
	value, ok := answer.Get()
	if !ok {
		panic(kind.Query(key).String() + " is not in the recording")
	}
	edit(&value)
	return facts.With(kind.Answer(key, node.Known(value, answer.Source())))
}

// redirecting: ACS redirects at the switch ports above two GPUs.
func redirecting(facts node.Facts) node.Facts {
	gpus, _ := facts.Inventory.GPUs().Get()
	for _, g := range gpus[:2] {
		function, _ := facts.Inventory.PCIFunction(g.Address)
		facts = change(facts, node.PCIRegisters, function.Parent, func(r *node.PCIRegisterState) {
			acs, _ := r.ACS.Get()
			acs.Enabled = pciregs.SrcValid | pciregs.ReqRedir | pciregs.CmpltRedir | pciregs.UpstreamFwd
			r.ACS = node.Known(acs, r.ACS.Source())
		})
	}
	return facts
}

func twoLinksDown(facts node.Facts) node.Facts {
	gpus, _ := facts.Inventory.GPUs().Get()
	return change(facts, node.NVLinks, gpus[2].Address, func(s *node.NVLinkState) {
		links := slices.Clone(s.Links)
		for _, i := range []int{3, 5} {
			links[i].State = node.Known("inactive", node.Source{})
		}
		s.Links = links
	})
}

func lowMemlock(facts node.Facts) node.Facts {
	return change(facts, node.ProcLimits, "containerd.service", func(p *node.ProcessLimits) {
		lines := strings.Split(p.Text, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "Max locked memory") {
				lines[i] = "Max locked memory         8388608              8388608              bytes     "
			}
		}
		p.Text = strings.Join(lines, "\n")
	})
}

func balancing(value string) func(node.Facts) node.Facts {
	return func(facts node.Facts) node.Facts {
		return change(facts, node.Sysctl, "kernel.numa_balancing", func(s *string) { *s = value })
	}
}

func quoted(facts node.Facts) node.Facts {
	return change(facts, node.File, "/etc/nccl.conf", func(s *node.FileState) { s.Text = strings.ReplaceAll(s.Text, "NCCL_IB_TC=104", `NCCL_IB_TC="104"`) })
}

func silentGPU(facts node.Facts) node.Facts {
	gpus, _ := facts.Inventory.GPUs().Get()
	address := gpus[0].Address
	return facts.With(node.GPUInfo.Answer(address, node.Unknown[node.GPUState]("no answer within 10s from NVML about GPU "+address, node.Source{Call: "NVML"})))
}

func otherBIOS(facts node.Facts) node.Facts {
	inv := facts.Inventory
	dmi, _ := inv.DMI.Get()
	dmi.BIOSVersion = "2.1.0"
	inv.DMI = node.Known(dmi, inv.DMI.Source())
	return facts.WithInventory(inv)
}

func otherKernel(facts node.Facts) node.Facts {
	inv := facts.Inventory
	inv.Kernel = node.Known("5.15.0-91-generic", inv.Kernel.Source())
	return facts.WithInventory(inv)
}

func otherFirmware(facts node.Facts) node.Facts {
	for _, q := range facts.Queries() {
		if q.Kind != node.RDMAPort.Name() {
			continue
		}
		facts = change(facts, node.RDMAPort, q.Key, func(p *node.RDMAPortState) {
			if version, _ := p.Firmware.Get(); strings.HasPrefix(version, "28.") { // ConnectX-7, the rails
				p.Firmware = node.Known("28.38.1002", p.Firmware.Source())
			}
		})
	}
	return facts
}
