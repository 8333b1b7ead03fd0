// Package nccltopo reads NCCL's topology XML, as NCCL_TOPO_DUMP_FILE writes it and NCCL_TOPO_FILE gives it back (src/graph/xml.cc and
// topo.cc of NVIDIA/nccl, version 1; version 2 of ROCm/rccl, which has xgmi for nvlink).
package nccltopo

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Topology is what a file says. What is written by hand often leaves attributes out, which NCCL looks up in sysfs by address then: they are
// empty here, and numbers that have another meaning when they are 0 are -1.
type Topology struct {
	// CPUs are NUMA nodes, in the file's order.
	CPUs []CPU
	// Devices of PCI, in the file's order, each behind the bridge above it.
	Devices []Device
	// GPUs and Nets, in the file's order.
	GPUs []GPU
	Nets []Net
}

// CPU is a NUMA node.
type CPU struct {
	// NUMANode is -1 where firmware did not say.
	NUMANode int
	// Arch is x86_64, arm64 or ppc64; Vendor GenuineIntel, AuthenticAMD ...
	Arch, Vendor string
	// HostHash tells nodes apart in a file of several; empty in one that has none.
	HostHash string
}

// Device is a PCI function, or a bridge that somebody made up to group devices (ffff:ff:01.0).
type Device struct {
	// Address is DDDD:BB:DD.F, lower case.
	Address string
	// Class is six hex digits, the IDs four; empty where the file does not say, or says 0000.
	Class, Vendor, Device, SubsystemVendor, SubsystemDevice string
	// Parent is the address of the bridge above it; empty at the processor.
	Parent string
	// CPU is its index in CPUs.
	CPU int
	// LinkSpeed is sysfs's text, "32.0 GT/s PCIe"; LinkWidth its lanes, 0 where the file does not say.
	LinkSpeed string
	LinkWidth int
}

// GPU is one that NCCL uses, or that the author says more of.
type GPU struct {
	// Address of its PCI function.
	Address string
	// Dev is NVML's number, Rank the job's; -1 where the file does not say.
	Dev, Rank int
	// SM is the compute capability, 90 for 9.0; 0 where the file does not say.
	SM int
	// GDR: the driver offers GPUDirect RDMA, as far as NCCL found.
	GDR bool
	// Links are NVLinks, or xGMI.
	Links []Link
	// C2C links to the processor.
	C2C int
}

// Link is a bundle of links to one target.
type Link struct {
	// Target is a PCI address; of an NVSwitch without a PCI function the one that NCCL makes up (fffffff:ffff:ff).
	Target string
	// Count of links.
	Count int
	// Class of the target: 068000 is an NVSwitch, 030200 and 120000 GPUs.
	Class string
}

// IsSwitch reports a link to an NVSwitch.
func (l Link) IsSwitch() bool { return strings.HasPrefix(l.Class, "0680") }

// Net is a network device as NCCL's network names it.
type Net struct {
	// Name is that of an RDMA device (mlx5_0), of a network interface for sockets, or a plugin's.
	Name string
	// Dev is its number in the network; -1 where the file does not say.
	Dev int
	// SpeedMbps in Mbit/s, 0 where the file does not say.
	SpeedMbps int
	// Port from 1; 0 where the file does not say.
	Port int
	// GDR: GPUDirect RDMA works with it, as far as NCCL found.
	GDR bool
	// Address of its PCI function; empty where the file has it at the processor.
	Address string
	// CPU is its index in CPUs.
	CPU int
}

const (
	maxElements = 1 << 16
	maxDepth    = 64
)

// ErrNoTopology is for XML that is something else, or no XML.
var ErrNoTopology = errors.New("it is no topology of NCCL: that is <system> with <cpu> in it")

// reader is where Parse is.
type reader struct {
	topology Topology
	// parents are the addresses of the PCI devices that are open, with "" for other elements.
	open []element
	seen map[string]bool
}

type element struct {
	name    string
	address string // of pci
}

// Parse reads a file. An error names the line.
func Parse(in io.Reader) (Topology, error) {
	decoder := xml.NewDecoder(in)
	r := reader{seen: map[string]bool{}}
	began := false
	for elements := 0; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		line, _ := decoder.InputPos()
		var syntax *xml.SyntaxError
		switch {
		case err != nil && !began:
			return Topology{}, ErrNoTopology
		case errors.As(err, &syntax) && strings.Contains(syntax.Msg, "unexpected EOF"):
			return Topology{}, fmt.Errorf("line %d: the topology is cut off", line)
		case err != nil:
			return Topology{}, fmt.Errorf("line %d: %w", line, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			elements++
			switch {
			case !began && t.Name.Local != "system":
				return Topology{}, ErrNoTopology
			case elements > maxElements || len(r.open) >= maxDepth:
				return Topology{}, fmt.Errorf("line %d: more than a machine can have", line)
			}
			began = true
			if err := r.start(t); err != nil {
				return Topology{}, fmt.Errorf("line %d: %w", line, err)
			}
		case xml.EndElement:
			r.open = r.open[:len(r.open)-1]
		}
	}
	if len(r.topology.CPUs) == 0 {
		return Topology{}, ErrNoTopology
	}
	return r.topology, nil
}

// parent is the address of the innermost PCI device that is open.
func (r *reader) parent() string {
	for _, e := range slices.Backward(r.open) {
		if e.address != "" {
			return e.address
		}
	}
	return ""
}

// start takes an element. What NCCL does not know it skips, and so is it here.
func (r *reader) start(e xml.StartElement) error {
	attributes := map[string]string{}
	for _, a := range e.Attr {
		attributes[a.Name.Local] = a.Value
	}
	name, address := e.Name.Local, ""
	number := func(key string, otherwise int) int {
		n, err := strconv.ParseInt(attributes[key], 0, 32)
		if err != nil {
			return otherwise
		}
		return int(n)
	}
	cpu := len(r.topology.CPUs) - 1
	switch {
	case name == "system" || name == "":
	case name == "cpu":
		r.topology.CPUs = append(r.topology.CPUs, CPU{NUMANode: max(number("numaid", -1), -1), Arch: attributes["arch"], Vendor: attributes["vendor"], HostHash: attributes["host_hash"]})
	case cpu < 0:
		return fmt.Errorf("<%s> stands outside of <cpu>", name)
	case name == "pci":
		if address = normal(attributes["busid"]); address == "" {
			return fmt.Errorf("%q is no PCI address", attributes["busid"])
		}
		if r.seen[r.topology.CPUs[cpu].HostHash+address] {
			return fmt.Errorf("%s is there twice", address)
		}
		r.seen[r.topology.CPUs[cpu].HostHash+address] = true
		r.topology.Devices = append(r.topology.Devices, Device{
			Address: address, Class: hex(attributes["class"], 6), Vendor: hex(attributes["vendor"], 4), Device: hex(attributes["device"], 4),
			SubsystemVendor: hex(attributes["subsystem_vendor"], 4), SubsystemDevice: hex(attributes["subsystem_device"], 4),
			Parent: r.parent(), CPU: cpu, LinkSpeed: attributes["link_speed"], LinkWidth: max(number("link_width", 0), 0),
		})
	case name == "gpu":
		r.topology.GPUs = append(r.topology.GPUs, GPU{
			Address: r.parent(), Dev: max(number("dev", -1), -1), Rank: max(number("rank", -1), -1), SM: max(number("sm", 0), 0), GDR: number("gdr", 0) == 1,
		})
	case (name == "nvlink" || name == "xgmi" || name == "c2c") && len(r.open) > 0 && r.open[len(r.open)-1].name == "gpu":
		gpu := &r.topology.GPUs[len(r.topology.GPUs)-1]
		count := max(number("count", 0), 0)
		if name == "c2c" {
			gpu.C2C = count
			break
		}
		target := attributes["target"]
		gpu.Links = append(gpu.Links, Link{Target: cmp.Or(normal(target), target), Count: count, Class: hex(attributes["tclass"], 6)})
	case name == "net":
		r.topology.Nets = append(r.topology.Nets, Net{
			Name: attributes["name"], Dev: max(number("dev", -1), -1), SpeedMbps: max(number("speed", 0), 0), Port: max(number("port", 0), 0),
			GDR: number("gdr", 0) == 1, Address: r.parent(), CPU: cpu,
		})
	}
	r.open = append(r.open, element{name, address})
	return nil
}

// hex is the digits of 0x10de, lower case; empty for what has not so many, and for 0000.
func hex(s string, digits int) string {
	s = strings.ToLower(strings.TrimPrefix(s, "0x"))
	if len(s) != digits || strings.Trim(s, "0123456789abcdef") != "" || digits == 4 && s == "0000" {
		return ""
	}
	return s
}

// normal is a PCI address in lower case with a domain of four digits; empty for what is none. NVML writes eight.
func normal(s string) string {
	s = strings.ToLower(s)
	parts := strings.Split(s, ":")
	if len(parts) == 2 {
		parts = slices.Insert(parts, 0, "0000")
	}
	if len(parts) != 3 {
		return ""
	}
	if len(parts[0]) == 8 {
		parts[0] = strings.TrimPrefix(parts[0], "0000")
	}
	device, function, ok := strings.Cut(parts[2], ".")
	if !ok || notHex(parts[0], 4) || notHex(parts[1], 2) || notHex(device, 2) || notHex(function, 1) {
		return ""
	}
	return strings.Join(parts, ":")
}

// notHex reports text that is not so many hex digits.
func notHex(s string, digits int) bool {
	return len(s) != digits || strings.Trim(s, "0123456789abcdef") != ""
}
