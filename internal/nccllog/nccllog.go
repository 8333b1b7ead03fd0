// Package nccllog reads what NCCL and RCCL write with NCCL_DEBUG=INFO: which transport each channel took, who took part, what was
// set, what failed. The lines are those of NCCL 2.4 to 2.30 (src/debug.cc, src/init.cc, src/transport/*.cc of NVIDIA/nccl).
//
// What a channel took is said by its own line alone ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"). That a network was chosen, that a
// module was found or that DMA-BUF is there are hints; they are kept apart.
package nccllog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Log is what one or more logs of a job say.
type Log struct {
	// Versions are those that were loaded, "2.28.9+cuda13.0", RCCL's with "RCCL " before it; sorted.
	Versions []string `json:"versions,omitempty"`
	// Lines were read in all, Messages of NCCL were found in them.
	Lines    int `json:"lines" range:"0:"`
	Messages int `json:"messages" range:"0:"`
	// Damaged channel lines say too little: they were cut off, or another process wrote into them.
	Damaged int `json:"damaged,omitempty" range:"0:"`
	// CutOff says why the log was not read to its end; empty where it was.
	CutOff string `json:"cut_off,omitempty"`
	// Communicators are in order of their IDs.
	Communicators []Communicator `json:"communicators,omitempty"`
	// Ranks are those that the log shows at work, by communicator and number.
	Ranks []Rank `json:"ranks,omitempty"`
	// Transports are the sums over pairs.
	Transports []Sum `json:"transports,omitempty"`
	// Pairs of ranks, by communicator, numbers and transport; PairsLeftOut more are only in the sums.
	Pairs        []Pair `json:"pairs,omitempty"`
	PairsLeftOut int    `json:"pairs_left_out,omitempty" range:"0:"`
	// Networks are those that processes chose ("Using network IB"), which says nothing of what was used.
	Networks []Network `json:"networks,omitempty"`
	// Devices are those that a network offered ("NET/IB : Using [0]mlx5_0:1/RoCE").
	Devices []Device `json:"devices,omitempty"`
	// NoHCA: a process found no RDMA device ("NET/IB : No device found.").
	NoHCA bool `json:"no_hca,omitempty"`
	// GPUDirect is what processes expected of devices, which is not what channels took.
	GPUDirect []GPUDirectHint `json:"gpudirect,omitempty"`
	// Variables that were in force, by name.
	Variables []Variable `json:"variables,omitempty"`
	// Warnings are in order of their first lines.
	Warnings []Warning `json:"warnings,omitempty"`
	// Failures are the processes in which calls of NCCL failed, in order of their first lines.
	Failures []Failure `json:"failures,omitempty"`
}

// Communicator is a group of ranks.
type Communicator struct {
	// ID is commId; empty before NCCL 2.18, which has none, and where a process had several and did not say which.
	ID string `json:"id,omitempty"`
	// Size is its number of ranks, Nodes that of nodes (said since 2.20); 0 where the log does not say.
	Size  int `json:"size,omitempty" range:"0:"`
	Nodes int `json:"nodes,omitempty" range:"0:"`
}

// Rank is a member of a communicator.
type Rank struct {
	Comm string `json:"comm,omitempty"`
	Rank int    `json:"rank" range:"0:"`
	// Host is as NCCL writes it, up to the first dot; empty where the line has none.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty" range:"0:"`
	// GPU is its PCI address, "0000:1b:00.0"; empty before NCCL 2.5.
	GPU string `json:"gpu,omitempty"`
	// CUDADevice is the number that CUDA gives the GPU in the process.
	CUDADevice int `json:"cuda_device" range:"0:"`
	// Complete: it was initialised ("Init COMPLETE").
	Complete bool `json:"complete"`
}

// Kind of a transport.
type Kind string

// The kinds.
const (
	P2P     Kind = "P2P"
	SHM     Kind = "SHM"
	NET     Kind = "NET"
	CollNet Kind = "COLLNET"
	NVLS    Kind = "NVLS"
)

// The networks that come with NCCL.
const (
	IB     = "IB"
	Socket = "Socket"
)

// MNNVL is P2P over an NVLink fabric of several nodes.
const MNNVL = "MNNVL"

// Transport is what a connection took.
type Transport struct {
	Kind Kind `json:"kind"`
	// Name is the way of P2P (IPC, CUMEM, MNNVL, direct pointer, common device, indirect), and the network of NET and COLLNET,
	// which can be a plugin's with blanks ("AWS Libfabric").
	Name string `json:"name,omitempty"`
	// GDRDMA: the NIC reads and writes GPU memory itself.
	GDRDMA bool `json:"gdrdma,omitempty"`
	// Side of NET and COLLNET that says so: send or receive.
	Side string `json:"side,omitempty"`
}

// String is as NCCL writes it, without devices and side: "P2P/CUMEM", "SHM", "NET/IB/GDRDMA".
func (t Transport) String() string {
	s := string(t.Kind)
	if t.Name != "" {
		s += "/" + t.Name
	}
	if t.GDRDMA {
		s += "/GDRDMA"
	}
	return s
}

// Scope says whether two ranks are on one node.
type Scope string

// The scopes.
const (
	IntraNode    Scope = "intra-node"
	InterNode    Scope = "inter-node"
	UnknownScope Scope = "unknown"
)

// Sum is how many pairs took a transport.
type Sum struct {
	Transport
	Scope Scope `json:"scope"`
	// Pairs of ranks, each direction for itself; of NVLS and COLLNET, the ranks.
	Pairs int `json:"pairs" range:"1:"`
	// Channels of all of them; 0 for NVLS, whose lines name none.
	Channels int `json:"channels" range:"0:"`
	// Example is the first of them, "0 -> 1", and Line where it stands.
	Example string `json:"example"`
	Line    int    `json:"line" range:"0:"`
}

// Pair is two ranks and a transport between them.
type Pair struct {
	Comm string `json:"comm,omitempty"`
	// From sends to To; To is -1 for COLLNET and NVLS, where it is the switch.
	From int `json:"from" range:"0:"`
	To   int `json:"to" range:"-1:"`
	Transport
	Scope    Scope `json:"scope"`
	Channels int   `json:"channels" range:"0:"`
	Line     int   `json:"line" range:"0:"`
}

// String is "0 -> 1", or the rank alone.
func (p Pair) String() string {
	if p.To < 0 {
		return fmt.Sprintf("rank %d", p.From)
	}
	return fmt.Sprintf("%d -> %d", p.From, p.To)
}

// Network is one that was chosen.
type Network struct {
	Name string `json:"name"`
	// Times that it is said, by one process or many.
	Times int `json:"times" range:"1:"`
	Line  int `json:"line" range:"0:"`
}

// Device is a NIC as a network names it.
type Device struct {
	Network string `json:"network"`
	Name    string `json:"name"`
	// Layer is IB or RoCE, empty for sockets.
	Layer string `json:"layer,omitempty"`
}

// GPUDirectHint is "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", which says whether a kernel module or DMA-BUF was found.
type GPUDirectHint struct {
	Network string `json:"network"`
	Device  string `json:"device"`
	Enabled bool   `json:"enabled"`
	Line    int    `json:"line" range:"0:"`
}

// Origin says who gave a variable its value.
type Origin string

// The origins. NCCL reads its files into the environment, so that its lines do not tell them apart.
const (
	FromEnvironment Origin = "environment or a file of NCCL's"
	FromProgram     Origin = "the program"
	FromPlugin      Origin = "a plugin"
)

// Variable is one in force.
type Variable struct {
	// Name is NCCL_X; of what a program sets through ncclConfig_t, the field's name.
	Name  string `json:"name"`
	Value string `json:"value" range:"0:"`
	// Origin, and in By the plugin that says so.
	Origin Origin `json:"origin"`
	By     string `json:"by,omitempty"`
	Line   int    `json:"line" range:"0:"`
}

// Warning is what NCCL complains of.
type Warning struct {
	// ID is of Advise; empty for what is not known here.
	ID string `json:"id,omitempty"`
	// Text is the first one's.
	Text  string `json:"text" range:"0:"`
	Host  string `json:"host,omitempty"`
	Times int    `json:"times" range:"1:"`
	Line  int    `json:"line" range:"0:"`
}

// Failure is a process in which calls failed.
type Failure struct {
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty" range:"0:"`
	// Init: it failed before a communicator was complete.
	Init bool `json:"init"`
	// Where is the source line that says so first, "init.cc:1270".
	Where string `json:"where"`
	// Code is the ncclResult_t.
	Code int `json:"code" range:"1:"`
	// Warning is the last one that the process wrote before; empty where it wrote none.
	Warning string `json:"warning,omitempty"`
	Line    int    `json:"line" range:"0:"`
}

// Result is what nccl.h calls the code.
func (f Failure) Result() string {
	names := []string{1: "unhandled CUDA error", 2: "system error", 3: "internal error", 4: "invalid argument", 5: "invalid usage", 6: "remote error"}
	if f.Code < len(names) && f.Code > 0 {
		return names[f.Code]
	}
	return fmt.Sprintf("result %d", f.Code)
}

// Address is the PCI address that NCCL's busId stands for: the hexadecimal digits of DOMAIN:BUS:DEVICE.FUNCTION without what is between
// them (busIdToInt64 in src/misc/utils.cc); empty for what is none.
func Address(busID string) string {
	busID = strings.TrimPrefix(busID, "0x")
	if busID == "" || len(busID) > 9 || strings.Trim(busID, "0123456789abcdef") != "" {
		return ""
	}
	s := strings.Repeat("0", 9-len(busID)) + busID
	if s[8] > '7' {
		return ""
	}
	return s[:4] + ":" + s[4:6] + ":" + s[6:8] + "." + s[8:]
}

// SingleNode reports whether all ranks are known to be on one node: known is false where the log does not say.
func (l Log) SingleNode() (single, known bool) {
	if slices.ContainsFunc(l.Transports, func(s Sum) bool { return s.Scope == InterNode }) {
		return false, true
	}
	if len(l.Communicators) == 0 {
		return false, false
	}
	hosts := map[string]map[int]string{}
	for _, r := range l.Ranks {
		if hosts[r.Comm] == nil {
			hosts[r.Comm] = map[int]string{}
		}
		hosts[r.Comm][r.Rank] = r.Host
	}
	single, known = true, true
	for _, c := range l.Communicators {
		names := map[string]bool{}
		for _, h := range hosts[c.ID] {
			names[h] = true
		}
		switch {
		case c.Nodes > 1 || len(names) > 1:
			return false, true
		case c.Nodes == 1, c.Size == 1:
		case c.Size == 0 || len(hosts[c.ID]) < c.Size || names[""]:
			single, known = false, false
		}
	}
	return single, known
}

// Alone reports that no communicator has more than one rank, so that there is nobody to talk to.
func (l Log) Alone() bool {
	return len(l.Communicators) > 0 && !slices.ContainsFunc(l.Communicators, func(c Communicator) bool { return c.Size != 1 })
}

// Incomplete are the ranks that began and were not initialised.
func (l Log) Incomplete() []Rank {
	return slices.DeleteFunc(slices.Clone(l.Ranks), func(r Rank) bool { return r.Complete })
}

// InitFailed reports whether a process failed before a communicator was complete.
func (l Log) InitFailed() bool {
	return slices.ContainsFunc(l.Failures, func(f Failure) bool { return f.Init })
}

// Of are the sums of a scope.
func (l Log) Of(scope Scope) []Sum {
	var list []Sum
	for _, s := range l.Transports {
		if s.Scope == scope {
			list = append(list, s)
		}
	}
	return list
}

// Value is the variable's value and where it came from; false where the log does not have it. Of several values it is the first one's.
func (l Log) Value(name string) (Variable, bool) {
	i := slices.IndexFunc(l.Variables, func(v Variable) bool { return v.Name == name })
	if i < 0 {
		return Variable{}, false
	}
	return l.Variables[i], true
}

func compareSums(a, b Sum) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), compareTransports(a.Transport, b.Transport))
}

func compareTransports(a, b Transport) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Side, b.Side), compareBools(a.GDRDMA, b.GDRDMA))
}

func comparePairs(a, b Pair) int {
	return cmp.Or(cmp.Compare(a.Comm, b.Comm), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), compareTransports(a.Transport, b.Transport), cmp.Compare(a.Scope, b.Scope))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
