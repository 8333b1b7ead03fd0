package ncclconf

import (
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Kind is how NCCL reads the value of a key.
type Kind string

// The kinds.
const (
	// Int64 goes through strtoll(3) with base 0; see Int.
	Int64 Kind = "int"
	// Enum is one of Key.Values.
	Enum Kind = "enum"
	// Tokens is a list of Key.Values, with '^' before it all but those.
	Tokens Kind = "tokens"
	// Tuning is NCCL_ALGO and NCCL_PROTO: Tokens, from 2.24 on also per
	// collective, "allreduce:tree,ring;broadcast:ring".
	Tuning Kind = "tuning"
	// Level is a topological distance, one of Key.Values in upper case or the
	// old numbers 0 to 5.
	Level Kind = "level"
	// HCAs is a List of RDMA devices.
	HCAs Kind = "hcas"
	// Interfaces is a List of network interfaces.
	Interfaces Kind = "interfaces"
	// Names is a List of devices of whatever network is in use.
	Names Kind = "names"
	// Path is a file.
	Path Kind = "path"
	// Library is a plugin: "none", a name, or the path of a shared object.
	Library Kind = "library"
	// CIDR is an address range, ADDRESS/LENGTH.
	CIDR Kind = "cidr"
	// String is taken as it stands.
	String Kind = "string"
)

// Harm is a value with a consequence that a system-wide file should not have.
type Harm struct {
	// Value is compared as Key.Kind is read: 1 is harm in "0x1" too.
	Value string
	// ID is that of the remark, Text the consequence.
	ID, Text string
}

// Key is an environment variable of NCCL. Facts are from NVIDIA's guide
// (docs.nvidia.com, "Environment Variables") and NCCL's source up to 2.30.7.
type Key struct {
	Name string
	Kind Kind
	// Min and Max bound an Int64, both included. Both zero: no bound is
	// documented.
	Min, Max int64
	// Values are the words of an Enum, Tokens, Tuning or Level. "MAX:N" stands
	// for MAX: and a positive number.
	Values []string
	// Sep separates Tokens; empty means ",".
	Sep string
	// ExactCase says that words of another case are not recognised.
	ExactCase bool
	// Default is what holds without the key, in words where it depends.
	Default string
	// Since is the first version with the key; zero: 2.4 or older, or not
	// recorded.
	Since Version
	// Strict is the first version that reads the key with the strict parser of
	// src/include/param, which refuses what it does not understand and keeps
	// the default; zero: none does.
	Strict Version
	// Unfit says why the key has no place in a file for every job of a node,
	// whatever NVIDIA lists under "Debugging" among them. Empty: it is fit.
	Unfit string
	// Fit are the values of an unfit key which do no harm there.
	Fit []string
	// Harm lists values with a consequence of their own.
	Harm []Harm
	// Empty is what an empty value does where that is not the same as none.
	Empty string
	// Inert says why the key has no effect in a configuration file.
	Inert string
	// Missing is what NCCL does when the file that a Path or Library names is
	// not there. Empty: the file need not exist.
	Missing string
	// Doc is one line for a reader.
	Doc string
}

// bounded says whether a range is documented.
func (k Key) bounded() bool { return k.Min != k.Max }

// LookupKey finds a key by its exact name. A name that is not found is not
// wrong: plugins read keys of their own, such as NCCL_FASTRAK_IFNAME.
func LookupKey(name string) (Key, bool) {
	for _, table := range [][]Key{documented, undocumented} {
		i, ok := slices.BinarySearchFunc(table, name, func(k Key, name string) int { return strings.Compare(k.Name, name) })
		if ok {
			return table[i], true
		}
	}
	return Key{}, false
}

// Suggest gives the known key that an unknown name was probably meant to be:
// the same but for case, else the nearest within two edits, the first by name
// of several. Empty: the name is known, or like no key.
func Suggest(name string) string {
	const most = 2
	if _, known := LookupKey(name); known {
		return ""
	}
	upper := strings.ToUpper(name)
	best, distance := "", most+1
	for _, table := range [][]Key{documented, undocumented} {
		for _, k := range table {
			if k.Name == upper {
				return k.Name
			}
			if d := len(k.Name) - len(name); d > most || d < -most {
				continue
			}
			d := levenshtein.Distance(upper, k.Name, nil)
			// Of a short name two edits leave little.
			if d < distance && 3*d <= len(strings.TrimPrefix(k.Name, prefix)) {
				best, distance = k.Name, d
			}
		}
	}
	return best
}

// prefix is that of every key of NCCL and its plugins.
const prefix = "NCCL_"

const debugging = `NVIDIA lists it under "Debugging", not for production`

var levels = []string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"}

var logLevels = []string{"VERSION", "WARN", "INFO", "ABORT", "TRACE"}

// documented is sorted by name.
var documented = []Key{
	{Name: "NCCL_ALGO", Kind: Tuning, Values: []string{"Tree", "Ring", "CollNet", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT"},
		Since: Version{2, 5, 0}, Default: "chosen by the tuner", Unfit: debugging + "; it overrides the tuner for every job",
		Doc: "algorithms that may be used; from 2.24 on an unknown word is an error"},
	{Name: "NCCL_BUFFSIZE", Kind: Int64, Default: "4194304", Unfit: debugging,
		Doc: "size in bytes of the buffers between pairs of GPUs"},
	{Name: "NCCL_CHECK_MODE", Kind: Enum, Values: []string{"DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"}, Since: Version{2, 29, 0}, Default: "DEFAULT",
		Doc: "how far the arguments of calls are checked"},
	{Name: "NCCL_COLLNET_ENABLE", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 6, 0},
		Doc: "use CollNet (SHARP) where the network offers it"},
	{Name: "NCCL_COLLNET_NODE_THRESHOLD", Kind: Int64, Default: "2", Since: Version{2, 9, 9},
		Doc: "fewest nodes for which CollNet is used"},
	{Name: "NCCL_COMM_ID", Kind: String,
		Unfit: "it is the address where the ranks of one job meet, and belongs to that job",
		Doc:   "HOST:PORT of the root of a communicator"},
	{Name: "NCCL_CONF_FILE", Kind: Path, Since: Version{2, 23, 0},
		Inert: "NCCL looks it up in the process environment before it reads any file",
		Doc:   "file that is read in place of ~/.nccl.conf"},
	{Name: "NCCL_CROSS_NIC", Kind: Int64, Max: 2, Default: "2", Since: Version{2, 4, 0},
		Doc: "may a ring use different NICs on different nodes: 0 never (rail-optimised fabric), 1 always, 2 if it must"},
	{Name: "NCCL_CTA_POLICY", Kind: Tokens, Sep: "|", Values: []string{"DEFAULT", "EFFICIENCY", "ZERO", "0", "1", "2"}, Default: "DEFAULT", Since: Version{2, 27, 0},
		Doc: "how many CTAs a collective may take"},
	{Name: "NCCL_CUMEM_ENABLE", Kind: Int64, Max: 1, Default: "automatic from 2.19, 0 in 2.18", Since: Version{2, 18, 0},
		Doc: "allocate with the CUDA cuMem functions"},
	{Name: "NCCL_CUMEM_HOST_ENABLE", Kind: Int64, Max: 1, Default: "1 from 2.24 with a driver for CUDA 12.6, 0 in 2.23", Since: Version{2, 23, 0},
		Doc: "allocate shared host memory with cuMem; containers need CAP_SYS_NICE for it"},
	{Name: "NCCL_DEBUG", Kind: Enum, Values: logLevels, Default: "none", Strict: Version{2, 30, 7},
		Unfit: "it makes every job on the node write its log", Fit: []string{"VERSION", "WARN"},
		Harm: []Harm{
			{"TRACE", "nccl.debug_trace", "every job on the node logs every call"},
			{"ABORT", "nccl.debug_abort", "every job on the node aborts at the first warning"},
		},
		Doc: "what is logged; WARN is fine for a whole system"},
	{Name: "NCCL_DEBUG_FILE", Kind: Path, Unfit: "every job on the node logs to it; without %h and %p they overwrite one another",
		Doc: "file that takes the log; %h is the host, %p the process"},
	{Name: "NCCL_DEBUG_SUBSYS", Kind: Tokens, Default: "INIT,BOOTSTRAP,ENV", Strict: Version{2, 30, 7},
		Values: []string{"INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL"},
		Doc:    "parts of NCCL whose INFO lines are logged"},
	{Name: "NCCL_DEBUG_TIMESTAMP_FORMAT", Kind: String, Default: "[%F %T] ", Since: Version{2, 26, 0},
		Doc: "strftime(3) format of the time in log lines; '_' stands for a blank"},
	{Name: "NCCL_DEBUG_TIMESTAMP_LEVELS", Kind: Tokens, Values: []string{"VERSION", "WARN", "INFO", "ABORT", "TRACE", "ALL"}, Default: "WARN", Since: Version{2, 26, 0}, Strict: Version{2, 30, 7},
		Doc: "log levels whose lines get the time"},
	{Name: "NCCL_DMABUF_ENABLE", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 13, 0},
		Doc: "use Linux dma-buf for GPUDirect RDMA where it is there"},
	{Name: "NCCL_GRAPH_DUMP_FILE", Kind: Path, Since: Version{2, 6, 0}, Unfit: debugging + "; every job on the node writes it",
		Doc: "file to which the graphs found are written"},
	{Name: "NCCL_GRAPH_FILE", Kind: Path, Since: Version{2, 6, 0},
		Missing: "NCCL fails with a system error", Empty: "NCCL opens a file without a name and fails with a system error",
		Doc: "XML file with the graphs to use instead of searching for them"},
	{Name: "NCCL_HOSTID", Kind: String, Default: "a hash of host name and boot id",
		Unfit: "two hosts with the same value take each other for one, and fail over P2P and SHM",
		Empty: "every host gets the same id, and takes the others for itself",
		Doc:   "identity of the host"},
	{Name: "NCCL_IB_ADAPTIVE_ROUTING", Kind: Int64, Max: 1, Default: "1 on InfiniBand, 0 on RoCE", Since: Version{2, 16, 0},
		Doc: "the fabric routes adaptively: send large messages so that order does not matter"},
	{Name: "NCCL_IB_ADDR_FAMILY", Kind: Enum, Values: []string{"AF_INET", "AF_INET6"}, ExactCase: true, Default: "AF_INET", Since: Version{2, 21, 0},
		Doc: "address family of the GID that is chosen"},
	{Name: "NCCL_IB_ADDR_RANGE", Kind: CIDR, Default: "::/0", Since: Version{2, 21, 0},
		Doc: "range in which the address of the chosen GID must lie"},
	{Name: "NCCL_IB_AR_THRESHOLD", Kind: Int64, Default: "8192", Since: Version{2, 6, 0},
		Doc: "size in bytes above which a message goes out for adaptive routing"},
	{Name: "NCCL_IB_DATA_DIRECT", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 27, 3},
		Doc: "use the Data Direct function of ConnectX-8"},
	{Name: "NCCL_IB_DISABLE", Kind: Int64, Max: 1, Default: "0", Unfit: debugging, Fit: []string{"0"},
		Harm: []Harm{{"1", "nccl.ib_disabled", "InfiniBand and RoCE are off: every job on the node falls back to TCP sockets"}},
		Doc:  "do not use InfiniBand or RoCE"},
	{Name: "NCCL_IB_ECE_ENABLE", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 23, 0},
		Doc: "agree on enhanced connection establishment (congestion control)"},
	{Name: "NCCL_IB_FIFO_TC", Kind: Int64, Min: -1, Max: 255, Default: "as NCCL_IB_TC", Since: Version{2, 22, 3},
		Doc: "traffic class of control messages: DSCP times 4"},
	{Name: "NCCL_IB_GDR_LEVEL", Kind: Level, Values: levels, ExactCase: true,
		Inert: "it was renamed: NCCL reads NCCL_NET_GDR_LEVEL",
		Doc:   "old name of NCCL_NET_GDR_LEVEL"},
	{Name: "NCCL_IB_GID_INDEX", Kind: Int64, Min: -1, Max: 255, Default: "-1 (chosen)",
		Unfit: "the index of an address moves when links flap or addresses change; from 2.21 on NCCL chooses by NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE and NCCL_IB_ROCE_VERSION_NUM",
		Fit:   []string{"-1"},
		Doc:   "index into the GID table of the port, for RoCE"},
	{Name: "NCCL_IB_HCA", Kind: HCAs, Default: "all with an active port",
		Doc: "RDMA devices to use: [^][=]NAME[:PORT[:RAIL[:PLANE]]],...; in the file an exact list begins with '==' after the key"},
	{Name: "NCCL_IB_MERGE_NICS", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 20, 0},
		Doc: "take the ports of one NIC as one device"},
	{Name: "NCCL_IB_OOO_RQ", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 30, 0},
		Doc: "let the receive queue take packets out of order"},
	{Name: "NCCL_IB_PCI_RELAXED_ORDERING", Kind: Int64, Max: 2, Default: "2", Since: Version{2, 12, 0},
		Doc: "PCI relaxed ordering of the NIC: 0 off, 1 on (fails where it is not supported), 2 where supported"},
	{Name: "NCCL_IB_PKEY", Kind: Int64, Max: 65535, Default: "0",
		Doc: "index of the partition key"},
	{Name: "NCCL_IB_QPS_PER_CONNECTION", Kind: Int64, Min: 1, Max: 128, Default: "1", Since: Version{2, 10, 0},
		Doc: "queue pairs of a connection; 2 to 4 spread RoCE over ECMP paths"},
	{Name: "NCCL_IB_RETRY_CNT", Kind: Int64, Min: 1, Max: 7, Default: "7",
		Doc: "retries of the NIC before it gives up"},
	{Name: "NCCL_IB_RETURN_ASYNC_EVENTS", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 23, 0},
		Doc: "report asynchronous events of the NIC as errors"},
	{Name: "NCCL_IB_ROCE_VERSION_NUM", Kind: Int64, Min: 1, Max: 2, Default: "2", Since: Version{2, 21, 0},
		Doc: "RoCE version of the GID that is chosen"},
	{Name: "NCCL_IB_SL", Kind: Int64, Min: -1, Max: 15, Default: "0",
		Doc: "InfiniBand service level"},
	{Name: "NCCL_IB_SPLIT_DATA_ON_QPS", Kind: Int64, Max: 1, Default: "0 from 2.20, 1 before", Since: Version{2, 18, 0},
		Doc: "split each message over the queue pairs instead of taking them in turn"},
	{Name: "NCCL_IB_TC", Kind: Int64, Min: -1, Max: 255, Default: "0",
		Doc: "traffic class: DSCP times 4"},
	{Name: "NCCL_IB_TIMEOUT", Kind: Int64, Max: 31, Default: "20 from 2.23, 18 from 2.14, 14 before",
		Doc: "InfiniBand acknowledge timeout: 4.096 microseconds times 2 to this power"},
	{Name: "NCCL_IGNORE_CPU_AFFINITY", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 4, 6},
		Doc: "set thread affinity by the GPU alone, whatever the job's own is"},
	{Name: "NCCL_IGNORE_DISABLED_P2P", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 12, 7},
		Unfit: "it hides a broken NVLink", Fit: []string{"0"},
		Doc: "do not fail where NVLink connects GPUs that have no P2P"},
	{Name: "NCCL_IPC_USE_ABSTRACT_SOCKET", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 29, 0},
		Doc: "use abstract Unix sockets between processes"},
	{Name: "NCCL_LAUNCH_ORDER_IMPLICIT", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 26, 0},
		Doc: "order the operations of several communicators on one GPU by host order"},
	{Name: "NCCL_MAX_CTAS", Kind: Int64, Since: Version{2, 17, 0},
		Doc: "most CTAs of a collective"},
	{Name: "NCCL_MAX_NCHANNELS", Kind: Int64, Unfit: debugging + "; NCCL_MAX_CTAS from 2.17 on",
		Doc: "most channels of a communicator"},
	{Name: "NCCL_MIN_CTAS", Kind: Int64, Since: Version{2, 17, 0},
		Doc: "fewest CTAs of a collective"},
	{Name: "NCCL_MIN_NCHANNELS", Kind: Int64, Unfit: debugging + "; NCCL_MIN_CTAS from 2.17 on",
		Doc: "fewest channels of a communicator"},
	{Name: "NCCL_MNNVL_CLIQUE_ID", Kind: Int64, Default: "that of the fabric", Since: Version{2, 25, 0},
		Doc: "clique of a multi-node NVLink domain"},
	{Name: "NCCL_MNNVL_ENABLE", Kind: Int64, Max: 2, Default: "2", Since: Version{2, 21, 0},
		Doc: "multi-node NVLink: 0 off, 1 required, 2 where it is there"},
	{Name: "NCCL_MNNVL_UUID", Kind: Int64, Default: "that of the fabric", Since: Version{2, 25, 0},
		Doc: "identity of a multi-node NVLink domain"},
	{Name: "NCCL_MULTI_RANK_GPU_ENABLE", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 30, 0},
		Doc: "allow several ranks on one GPU"},
	{Name: "NCCL_NET", Kind: String, Default: "chosen", Since: Version{2, 10, 0},
		Harm: []Harm{{"Socket", "nccl.ib_disabled", "TCP sockets are forced: no job on the node uses InfiniBand or RoCE"}},
		Doc:  "network to use: IB, Socket, or a plugin's; when it is not there NCCL fails instead of falling back"},
	{Name: "NCCL_NETDEVS_POLICY", Kind: Enum, Values: []string{"AUTO", "ALL", "MAX:N"}, Default: "AUTO", Since: Version{2, 28, 0},
		Doc: "how NICs are shared out to GPUs"},
	{Name: "NCCL_NET_GDR_C2C", Kind: Int64, Max: 1, Default: "1 from 2.27, 0 in 2.26", Since: Version{2, 26, 0},
		Doc: "GPUDirect RDMA over NVLink-C2C of a Grace CPU"},
	{Name: "NCCL_NET_GDR_LEVEL", Kind: Level, Values: levels, ExactCase: true, Default: "PXB, P2C with NVLink-C2C",
		Unfit: debugging + "; SYS uses GPUDirect RDMA across sockets, which may be slow or crash",
		Harm: []Harm{
			{"LOC", "nccl.gdr_disabled", "GPUDirect RDMA is off: every message between nodes goes through host memory"},
			{"0", "nccl.gdr_disabled", "GPUDirect RDMA is off (0 is LOC): every message between nodes goes through host memory"},
		},
		Doc: "greatest distance of GPU and NIC at which GPUDirect RDMA is used"},
	{Name: "NCCL_NET_GDR_READ", Kind: Int64, Max: 1, Default: "1 with NVLink", Since: Version{2, 4, 2},
		Doc: "GPUDirect RDMA for sending too"},
	{Name: "NCCL_NET_MERGE_POLICY", Kind: Enum, Values: []string{"ALL", "RAIL"}, Default: "ALL", Since: Version{2, 30, 5},
		Doc: "which NICs may be merged"},
	{Name: "NCCL_NET_PLUGIN", Kind: Library, Default: "libnccl-net.so if it is there", Since: Version{2, 11, 0},
		Missing: "NCCL does not load the plugin and falls back to its own network",
		Doc:     "network plugin: none, a suffix of libnccl-net-, or a path"},
	{Name: "NCCL_NET_SHARED_BUFFERS", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 8, 0},
		Doc: "share network buffers between connections"},
	{Name: "NCCL_NET_SHARED_COMMS", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 12, 0},
		Doc: "share network connections between channels"},
	{Name: "NCCL_NSOCKS_PERTHREAD", Kind: Int64, Min: 1, Max: 16, Default: "1, 8 on AWS", Since: Version{2, 4, 8},
		Doc: "sockets of a helper thread; times NCCL_SOCKET_NTHREADS at most 64"},
	{Name: "NCCL_NTHREADS", Kind: Int64, Min: 64, Max: 512, Default: "512, fewer on a slow path", Unfit: debugging,
		Doc: "CUDA threads of a block: 64, 128, 256 or 512"},
	{Name: "NCCL_NVB_DISABLE", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 11, 0},
		Doc: "do not reach a GPU by NVLink through another GPU"},
	{Name: "NCCL_NVLS_ENABLE", Kind: Int64, Max: 2, Default: "2", Since: Version{2, 17, 0},
		Doc: "NVLink SHARP: 0 off, 1 required, 2 where it is there"},
	{Name: "NCCL_OOB_NET_ENABLE", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 23, 0},
		Doc: "bootstrap over the network of the collectives instead of sockets"},
	{Name: "NCCL_OOB_NET_IFNAME", Kind: Names, Since: Version{2, 23, 0},
		Doc: "devices for the bootstrap with NCCL_OOB_NET_ENABLE, written as NCCL_SOCKET_IFNAME"},
	{Name: "NCCL_P2P_DIRECT_DISABLE", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 12, 12}, Unfit: debugging, Fit: []string{"0"},
		Doc: "no direct access between GPUs of one process"},
	{Name: "NCCL_P2P_DISABLE", Kind: Int64, Max: 1, Default: "0", Unfit: debugging, Fit: []string{"0"},
		Harm: []Harm{{"1", "nccl.p2p-disabled", "P2P between GPUs is off, NVLink too: every job on the node goes through host memory"}},
		Doc:  "do not use P2P between GPUs, over NVLink or PCI"},
	{Name: "NCCL_P2P_LEVEL", Kind: Level, Values: levels, ExactCase: true, Default: "PXB from 2.23, by platform before", Unfit: debugging,
		Harm: []Harm{
			{"LOC", "nccl.p2p-disabled", "P2P between GPUs is off, NVLink too: every job on the node goes through host memory"},
			{"0", "nccl.p2p-disabled", "P2P between GPUs is off (0 is LOC), NVLink too: every job on the node goes through host memory"},
		},
		Doc: "greatest distance of two GPUs at which P2P is used"},
	{Name: "NCCL_P2P_PXN_LEVEL", Kind: Int64, Max: 2, Default: "2", Since: Version{2, 12, 0},
		Doc: "PXN for send and receive: 0 off, 1 where better, 2 always"},
	{Name: "NCCL_PROTO", Kind: Tuning, Values: []string{"LL", "LL128", "Simple"}, Since: Version{2, 5, 0}, Default: "chosen by the tuner",
		Unfit: debugging + "; LL128 corrupts data on hardware that does not support it",
		Doc:   "protocols that may be used; from 2.24 on an unknown word is an error"},
	{Name: "NCCL_PXN_C2C", Kind: Int64, Max: 1, Default: "1 from 2.28, 0 in 2.27", Since: Version{2, 27, 0},
		Doc: "PXN over NVLink-C2C of a Grace CPU"},
	{Name: "NCCL_PXN_DISABLE", Kind: Int64, Max: 1, Default: "0", Since: Version{2, 12, 0},
		Doc: "do not reach a NIC through another GPU of the node"},
	{Name: "NCCL_RAS_ADDR", Kind: String, Default: "localhost:28028", Since: Version{2, 24, 0},
		Unfit: "anyone who reaches the address may query every job; keep it on the loopback",
		Doc:   "HOST:PORT on which the RAS thread listens"},
	{Name: "NCCL_RAS_ENABLE", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 24, 0},
		Doc: "run the RAS thread"},
	{Name: "NCCL_RUNTIME_CONNECT", Kind: Int64, Max: 1, Default: "1", Since: Version{2, 22, 0},
		Doc: "connect at the first use instead of at the start; the log then shows fewer channels"},
	{Name: "NCCL_SET_THREAD_NAME", Kind: Int64, Max: 1, Default: "0", Strict: Version{2, 30, 7}, Since: Version{2, 12, 0},
		Doc: "name NCCL's threads"},
	{Name: "NCCL_SHM_DISABLE", Kind: Int64, Max: 1, Default: "0", Unfit: debugging, Fit: []string{"0"},
		Harm: []Harm{{"1", "nccl.shm_disabled", "shared memory is off: GPUs of one node without P2P talk over the network"}},
		Doc:  "do not use shared host memory between GPUs of a node"},
	{Name: "NCCL_SOCKET_FAMILY", Kind: Enum, Values: []string{"AF_INET", "AF_INET6"}, ExactCase: true, Default: "either", Since: Version{2, 4, 0},
		Doc: "address family of the interfaces"},
	{Name: "NCCL_SOCKET_IFNAME", Kind: Interfaces, Default: "ib*, else all but docker*, lo and virbr*",
		Doc: "interfaces for TCP and bootstrap: [^][=]NAME,..."},
	{Name: "NCCL_SOCKET_NTHREADS", Kind: Int64, Min: 1, Max: 16, Default: "1, 2 on AWS, 4 with gVNIC", Since: Version{2, 4, 8},
		Doc: "helper threads of a connection; times NCCL_NSOCKS_PERTHREAD at most 64"},
	{Name: "NCCL_SOCKET_POLL_TIMEOUT_MSEC", Kind: Int64, Default: "0", Since: Version{2, 28, 0},
		Doc: "milliseconds to poll a socket"},
	{Name: "NCCL_SOCKET_RETRY_CNT", Kind: Int64, Default: "34", Since: Version{2, 24, 0},
		Doc: "attempts to connect a socket"},
	{Name: "NCCL_SOCKET_RETRY_SLEEP_MSEC", Kind: Int64, Default: "100", Since: Version{2, 24, 0},
		Doc: "milliseconds before the first new attempt"},
	{Name: "NCCL_TOPO_DUMP_FILE", Kind: Path, Since: Version{2, 6, 0}, Unfit: debugging + "; every job on the node writes it",
		Doc: "file to which the topology found is written"},
	{Name: "NCCL_TOPO_FILE", Kind: Path, Default: "/var/run/nvidia-topologyd/virtualTopology.xml if it is there", Since: Version{2, 6, 0},
		Missing: "NCCL says so in an INFO line only, and goes on with what it detects",
		Doc:     "XML file with the topology of the node; it must be that of this machine type"},
}
