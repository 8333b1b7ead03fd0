package checks

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"busbar/internal/ncclconf"
	"busbar/internal/nccllog"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/sink"
)

// NCCLTransport is check "nccl_transport": what a job's own log says of the ways that NCCL took between its ranks.
type NCCLTransport struct{}

var _ plan.Validator = NCCLTransport{}

// What can be wanted.
const (
	wantP2P    = "p2p"
	wantSHM    = "shm"
	wantGDRDMA = "gdrdma"
	wantIB     = "ib"
	wantAny    = "any"
)

// Spec of check "nccl_transport".
func (NCCLTransport) Spec() plan.Spec {
	return plan.Spec{
		Name: "nccl_transport", Check: true, Label: plan.LabelRequired, LabelDoc: labelDoc,
		Doc: "The transports that NCCL took, as the log of a job says that ran with NCCL_DEBUG=INFO. What a channel took counts, not what NCCL found or chose before.",
		Attributes: []plan.Attribute{
			{Name: "log", Type: cty.String, Required: true, Example: `"/var/log/nccl.%h"`, Doc: "The log, as NCCL_DEBUG_FILE names it: %h is the name of the host, %p a process; of many processes the newest 64 are read."},
			{
				Name: "intra_node", Type: cty.String, Enum: []string{wantP2P, wantSHM, wantAny}, Example: `"p2p"`,
				Doc: "What ranks of one node must use: P2P (over NVLink or PCIe), P2P or shared memory, or anything. Left out, P2P where it is possible, as far as facts of the node and the log tell.",
			},
			{
				Name: "inter_node", Type: cty.String, Enum: []string{wantGDRDMA, wantIB, wantAny}, Example: `"gdrdma"`,
				Doc: "What ranks of different nodes must use: GPUDirect RDMA, any network but sockets, or anything. Left out, no sockets, and GPUDirect RDMA with NCCL's own IB network.",
			},
		},
	}
}

type ncclTransportConfig struct {
	Log   string  `cty:"log"`
	Intra *string `cty:"intra_node"`
	Inter *string `cty:"inter_node"`
}

// Validate finds a path that no file can be looked for by.
func (NCCLTransport) Validate(b plan.Block) []plan.Problem {
	log := b.Attributes["log"]
	if log == cty.NilVal || log.IsNull() || !log.IsKnown() {
		return nil
	}
	if dir, _ := path.Split(log.AsString()); strings.Contains(strings.ReplaceAll(dir, "%%", ""), "%p") {
		return []plan.Problem{{Attribute: "log", Summary: "%p in the name of a directory", Detail: "Files are looked for in one directory: write %p in the name of the file alone."}}
	}
	return nil
}

// Queries are the log, what the driver allows GPUs, and where a variable can come from.
func (NCCLTransport) Queries(b plan.Block, inv node.Inventory) []node.Query {
	var c ncclTransportConfig
	if b.Decode(&c) != nil {
		return nil
	}
	queries := []node.Query{node.NCCLLog.Query(c.Log), node.File.Query(sink.NCCLPath), node.NCCLUserFiles.Query("")}
	if gpus := eachGPU(inv, node.GPUInfo); len(gpus) > 0 {
		queries = append(append(queries, gpus...), node.P2P.Query(""))
	}
	return queries
}

const (
	ncclLogID      = "nccl_transport.log"
	ncclInitID     = "nccl_transport.init"
	ncclIntraID    = "nccl_transport.intra_node"
	ncclInterID    = "nccl_transport.inter_node"
	ncclChannelsID = "nccl_transport.channels"
)

// transports is a log while it is judged.
type transports struct {
	ncclTransportConfig
	facts  node.Facts
	state  node.NCCLLogState
	log    nccllog.Log
	source node.Source
	a      plan.Assessment
}

// Assess judges the log.
func (NCCLTransport) Assess(b plan.Block, facts node.Facts) plan.Assessment {
	var c ncclTransportConfig
	if len(b.Withheld) > 0 || b.Decode(&c) != nil {
		return plan.Assessment{}
	}
	v := node.NCCLLog.Get(facts, c.Log)
	state, ok := v.Get()
	t := &transports{ncclTransportConfig: c, facts: facts, state: state, log: state.Log, source: v.Source()}
	switch {
	case !ok:
		f := plan.Unread(ncclLogID, "what NCCL took", v)
		f.Target = c.Log
		t.add(f)
		return t.a
	case len(state.Files) == 0:
		t.add(plan.Finding{
			ID: ncclLogID, Target: c.Log, Status: plan.Undetermined, Source: t.source, Summary: "no job has left " + c.Log,
			Fix: "run one with NCCL_DEBUG=INFO and NCCL_DEBUG_FILE=" + c.Log,
		})
		return t.a
	case t.log.Messages == 0:
		t.add(plan.Finding{
			ID: ncclLogID, Target: c.Log, Status: plan.Undetermined, Source: t.source, Summary: c.Log + " holds no message of NCCL's",
			Fix: "run the job with NCCL_DEBUG=INFO",
		})
		return t.a
	}
	t.warnings()
	if t.initialisation() {
		t.judge(nccllog.IntraNode)
		t.judge(nccllog.InterNode)
		t.judge(nccllog.UnknownScope)
		t.channels()
		t.hints()
	}
	t.variables()
	return t.a
}

func (t *transports) add(f plan.Finding) { t.a.Findings = append(t.a.Findings, f) }

// at is the place of a line. Of several files that are read as one it is the pattern.
func (t *transports) at(line int) node.Source {
	source := t.source
	switch files, starts := t.state.Files, t.state.Starts; {
	case len(files) == 1:
		source.Line = line
	case len(starts) == len(files) && line > 0:
		i, exact := slices.BinarySearch(starts, line)
		if !exact {
			i--
		}
		if i >= 0 {
			source = node.Source{Path: files[i], Line: line - starts[i] + 1}
		}
	}
	return source
}

// initialisation judges whether communicators came about, and reports whether what they took can be judged.
func (t *transports) initialisation() bool {
	judged := true
	for _, f := range t.log.Failures {
		who := processName(f.Host, f.PID)
		found := plan.Finding{
			ID: "nccl_transport.run", Target: who, Status: plan.Drift, Want: "no error", Found: f.Result(), Source: t.at(f.Line),
			Summary: fmt.Sprintf("%s failed with NCCL's %s after it had begun (%s)", who, f.Result(), f.Where),
		}
		if f.Init {
			judged = false
			found.ID, found.Want, found.Found = ncclInitID, "initialised", f.Result()
			found.Summary = fmt.Sprintf("%s could not initialise NCCL: %s (%s)", who, f.Result(), f.Where)
			found.Why = "the job did not run; that is no slow transport"
		}
		found.Fix = "look for the first warning, on all ranks"
		if f.Warning != "" {
			found.Fix = fmt.Sprintf("it warned before: %q", f.Warning)
		}
		t.add(found)
	}
	if !judged {
		t.add(plan.Finding{ID: ncclChannelsID, Target: "transports", Status: plan.Skipped, Source: t.source, Summary: "what channels took is not judged: the initialisation failed"})
		return false
	}
	if left := t.log.Incomplete(); len(left) > 0 && len(t.log.Failures) == 0 && !t.log.Alone() {
		severity := plan.Warning
		if len(t.log.Transports) > 0 {
			severity = plan.Info
		}
		t.add(plan.Finding{
			ID: ncclInitID, Target: fmt.Sprintf("rank %d", left[0].Rank), Status: plan.Drift, Severity: severity, Want: "initialised", Found: "begun", Source: t.source,
			Summary: fmt.Sprintf("%s began to initialise NCCL and the log does not say that it ended", ranks(len(left), left[0].Rank)),
			Fix:     "the log is cut off, or the initialisation hangs: wait for it, and look for ranks that did not start, and for firewalls between nodes",
		})
	}
	return true
}

func ranks(n, first int) string {
	if n == 1 {
		return fmt.Sprintf("rank %d", first)
	}
	return fmt.Sprintf("%d ranks", n)
}

func processName(host string, pid int) string {
	if host == "" {
		return "a process"
	}
	return fmt.Sprintf("process %d on %s", pid, host)
}

// group is the sums of one transport, both sides together.
type group struct {
	nccllog.Transport
	scope    nccllog.Scope
	pairs    int
	channels int
	first    nccllog.Sum
	// sides are the pairs of each side, "" where it is not said.
	sides map[string]int
}

func (t *transports) groups(scope nccllog.Scope) []*group {
	var list []*group
	for _, s := range t.log.Of(scope) {
		key := s.Transport
		key.Side = ""
		i := slices.IndexFunc(list, func(g *group) bool { return g.Transport == key })
		if i < 0 {
			i = len(list)
			list = append(list, &group{Transport: key, scope: scope, first: s, sides: map[string]int{}})
		}
		g := list[i]
		// Sender and receiver each tell of a connection.
		g.pairs, g.channels = max(g.pairs, s.Pairs), max(g.channels, s.Channels)
		g.sides[s.Side] += s.Pairs
		if s.Line < g.first.Line {
			g.first = s
		}
	}
	return list
}

// words say what took the transport: "2 pairs of ranks of one node (0 -> 1 ...) took SHM".
func (g *group) words() string {
	where := map[nccllog.Scope]string{nccllog.IntraNode: "ranks of one node", nccllog.InterNode: "ranks of different nodes", nccllog.UnknownScope: "ranks"}[g.scope]
	switch {
	case g.Kind == nccllog.NVLS || g.Kind == nccllog.CollNet:
		return fmt.Sprintf("%d ranks use %s", g.pairs, g)
	case g.pairs == 1:
		return fmt.Sprintf("%s (%s) took %s", where, g.first.Example, g)
	default:
		return fmt.Sprintf("%d pairs of %s (%s and others) took %s", g.pairs, where, g.first.Example, g)
	}
}

// judge judges the transports of a scope.
func (t *transports) judge(scope nccllog.Scope) {
	id := ncclInterID
	if scope == nccllog.IntraNode {
		id = ncclIntraID
	}
	groups := t.groups(scope)
	for _, g := range groups {
		f := plan.Finding{ID: id, Target: g.String(), Status: plan.OK, Found: g.String(), Source: t.at(g.first.Line), Summary: g.words()}
		if scope == nccllog.UnknownScope {
			f.Target += ", nodes unknown"
		}
		if scope == nccllog.IntraNode {
			t.intraNode(&f, g)
		} else {
			t.interNode(&f, g, groups)
		}
		t.add(f)
	}
}

// intraNode judges a transport within a node.
func (t *transports) intraNode(f *plan.Finding, g *group) {
	want := t.wanted(t.Intra)
	if want != "" {
		f.Want = want
	}
	switch {
	case g.Kind != nccllog.SHM && g.Kind != nccllog.NET, want == wantAny, g.Kind == nccllog.SHM && want == wantSHM:
		return
	case g.Kind == nccllog.SHM:
		t.sharedMemory(f)
	default:
		f.Status, f.Want = plan.Drift, cmp.Or(want, wantP2P)
		f.Summary += ": a network, though they share one machine"
		f.Why = "what could go over NVLink or PCIe goes out through a NIC or the TCP stack; two H200s had 3.4 GB/s over a socket where NVLink gave 297 GB/s"
		f.Fix = t.because("neither P2P nor shared memory worked between them: ranks in containers of their own need one /dev/shm and one IPC namespace (--ipc=host)",
			[]string{"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_LEVEL", "NCCL_HOSTID"}, "shm_size", "shm", "p2p_disabled", "p2p_not_enabled")
		if g.GDRDMA {
			f.Severity = plan.Warning
			f.Fix = "NCCL takes a NIC between GPUs of one node where that is faster than the way through the processors: " + f.Fix
		}
	}
}

// sharedMemory judges SHM. It is an error where P2P was possible or is wanted, and by design where it was not.
func (t *transports) sharedMemory(f *plan.Finding) {
	want := t.wanted(t.Intra)
	f.Want = wantP2P
	f.Status = plan.Drift
	f.Summary += ": host memory, not GPU to GPU"
	f.Why = "every byte is copied into host memory and out again; two H200s had 28 GB/s so where NVLink gave 297 GB/s"
	f.Fix = t.because("look at what the driver allows (nvidia-smi topo -p2p r, check p2p), at ACS and the IOMMU (blocks pcie_acs, iommu), at MIG, and whether the ranks' containers share an IPC namespace",
		[]string{"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"}, "p2p_disabled_nvlink", "p2p_disabled", "p2p_not_enabled")
	why, known := t.noPeerAccess()
	switch off := t.restraints("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"); {
	case want == wantP2P, len(off) > 0:
	case known && why != "":
		f.Status, f.Want, f.Why, f.Fix = plan.OK, "", "", ""
		f.Summary += "; " + why
	case !known:
		f.Severity = plan.Warning
		f.Summary += "; whether P2P is possible between these GPUs is not known"
	}
}

// noPeerAccess says why the GPUs that took shared memory cannot reach each other, or why NCCL does not want it of them; empty where they
// can. known is false where the log does not tell which GPUs they are, or the driver did not answer.
func (t *transports) noPeerAccess() (why string, known bool) {
	matrix, ok := node.P2P.Get(t.facts, "").Get()
	if !ok {
		return "", false
	}
	topology := t.facts.Inventory.Topology()
	type member struct {
		comm string
		rank int
	}
	gpus := map[member]string{}
	for _, r := range t.log.Ranks {
		gpus[member{r.Comm, r.Rank}] = r.GPU
	}
	for _, p := range t.log.Pairs {
		if p.Kind != nccllog.SHM {
			continue
		}
		from, to := gpus[member{p.Comm, p.From}], gpus[member{p.Comm, p.To}]
		pair, there := matrix.Between(from, to)
		read, answered := pair.Read.Get()
		nvlink, _ := pair.NVLink.Get()
		relation, related := topology.Relation(from, to).Get()
		switch {
		case !there || !answered:
			return "", false
		case read != node.P2POK:
			why = "the driver does not let them reach each other: " + p2pWords(read)
		case nvlink == node.P2POK, related && relation <= node.PXB:
			return "", true
		case !related:
			return "", false
		default:
			why = fmt.Sprintf("they are %s apart, and NCCL uses P2P up to PXB (NCCL_P2P_LEVEL)", relation)
		}
	}
	return why, why != ""
}

// interNode judges a transport between nodes, or between ranks of which the log does not tell where they are.
func (t *transports) interNode(f *plan.Finding, g *group, all []*group) {
	want := t.wanted(t.Inter)
	if want != "" {
		f.Want = want
	}
	withGDR := slices.IndexFunc(all, func(o *group) bool { return o.Kind == g.Kind && o.Name == g.Name && o.GDRDMA })
	switch {
	case g.Kind != nccllog.NET, want == wantAny, g.GDRDMA:
	case g.Name == nccllog.Socket:
		f.Status, f.Want = plan.Drift, cmp.Or(want, wantIB)
		f.Summary += ": TCP, no RDMA"
		f.Why = "the processors copy every byte through the TCP stack, a few GB/s where RDMA fills each NIC"
		f.Fix = t.socketsFix()
	case want == wantIB:
	case withGDR >= 0 && g.sides["send"] == g.pairsOfSides() && all[withGDR].sides["receive"] > 0:
		f.Summary += " where they send, with GPUDirect RDMA where they receive"
		if want == wantGDRDMA {
			f.Status = plan.Drift
			f.Fix = t.because("that is NCCL's default for GPUs before Ampere without NVLink: NCCL_NET_GDR_READ=1 asks for it", []string{"NCCL_NET_GDR_READ"})
		}
	case want == "" && !strings.HasPrefix(g.Name, nccllog.IB):
		f.Summary += ", the network of a plugin, without GPUDirect RDMA: inter_node = \"gdrdma\" demands it"
	case want == "" && t.cannotGDR() != "":
		f.Summary += " without GPUDirect RDMA, as " + t.cannotGDR()
	default:
		f.Status, f.Want = plan.Drift, wantGDRDMA
		f.Summary += " without GPUDirect RDMA"
		if withGDR >= 0 {
			f.Summary += fmt.Sprintf(", %d with it", all[withGDR].pairs)
		}
		f.Why = "every byte is copied through host memory on both nodes, which costs half of the bandwidth or more"
		f.Fix = t.gdrFix()
	}
}

func (g *group) pairsOfSides() int {
	n := 0
	for _, pairs := range g.sides {
		n += pairs
	}
	return n
}

func (t *transports) wanted(v *string) string {
	if v == nil {
		return ""
	}
	return *v
}

// cannotGDR says what has no GPUDirect RDMA by design: Omni-Path's HCAs, GeForce.
func (t *transports) cannotGDR() string {
	var names []string
	for _, d := range t.log.Devices {
		if d.Network == nccllog.IB {
			names = append(names, d.Name)
		}
	}
	if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, "hfi1_") }) {
		return "Omni-Path (" + names[0] + ") has none in its verbs"
	}
	gpus, _ := t.facts.Inventory.GPUs().Get()
	for _, g := range gpus {
		state, _ := node.GPUInfo.Get(t.facts, g.Address).Get()
		product, _ := state.Product.Get()
		if !strings.Contains(product, "GeForce") {
			return ""
		}
	}
	if len(gpus) > 0 {
		return "GeForce has none"
	}
	return ""
}

func (t *transports) socketsFix() string {
	otherwise := "look whether the job sees RDMA devices: a container needs /dev/infiniband and the RDMA library, the node ports that are up (check rdma_port), and NCCL_IB_HCA must name devices that exist"
	if t.log.NoHCA {
		otherwise = "NCCL found no RDMA device: a container needs /dev/infiniband and the RDMA library, the node ports that are up (check rdma_port), and NCCL_IB_HCA must name devices that exist"
	}
	return t.because(otherwise, []string{"NCCL_IB_DISABLE", "NCCL_NET"}, "ib_library", "ib_open")
}

func (t *transports) gdrFix() string {
	enabled, disabled := t.gdrHints()
	otherwise := "load nvidia-peermem or use DMA-BUF (block gpudirect), and look how far GPU and NIC are apart (check rails)"
	switch {
	case len(enabled) > 0:
		otherwise = "NCCL found GPUDirect RDMA (" + enumerate(enabled) + ") and did not use it: GPU and NIC are farther apart than PXB, check rails"
	case len(disabled) > 0:
		otherwise = "NCCL found neither nvidia-peermem nor DMA-BUF for " + enumerate(disabled) + ": block gpudirect"
	}
	return t.because(otherwise, []string{"NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE"}, "ib_dmabuf", "ib_register")
}

// gdrHints are the devices of which NCCL said that GPUDirect RDMA is there, and that it is not.
func (t *transports) gdrHints() (enabled, disabled []string) {
	for _, h := range t.log.GPUDirect {
		if h.Enabled {
			enabled = append(enabled, h.Device)
		} else {
			disabled = append(disabled, h.Device)
		}
	}
	return enabled, disabled
}

// channels says where no channel line is there, or some are damaged, and where what is wanted has nobody to be wanted of.
func (t *transports) channels() {
	l := t.log
	if l.CutOff != "" {
		t.add(plan.Finding{ID: ncclLogID, Target: t.Log, Status: plan.Drift, Severity: plan.Info, Found: l.CutOff, Source: t.source, Summary: "not all of the log is judged: " + l.CutOff})
	}
	single, known := l.SingleNode()
	switch {
	case len(l.Transports) > 0 && t.Inter != nil && known && single:
		t.add(plan.Finding{ID: ncclInterID, Target: "ranks of different nodes", Status: plan.Skipped, Source: t.source, Summary: "the job ran on one node"})
		return
	case len(l.Transports) > 0:
		return
	case l.Alone():
		t.add(plan.Finding{ID: ncclChannelsID, Target: "transports", Status: plan.Skipped, Source: t.source, Summary: "the job has one rank, which has nobody to talk to"})
		return
	}
	f := plan.Finding{
		ID: ncclChannelsID, Target: "transports", Status: plan.Undetermined, Source: t.source, Summary: "what channels took is not in the log",
		Fix: "channels are connected when they are first used (NCCL 2.22 and newer): let the job run a collective, with NCCL_DEBUG=INFO and the subsystems INIT, NET, P2P and SHM",
	}
	if l.Damaged > 0 {
		f.Summary += fmt.Sprintf(": %d lines of channels are damaged", l.Damaged)
		f.Fix = "give each process a log of its own: NCCL_DEBUG_FILE=/var/log/nccl.%h.%p"
	}
	t.add(f)
}

// hints judges what NCCL found and chose, where no channel proves what was taken.
func (t *transports) hints() {
	l := t.log
	if slices.ContainsFunc(l.Transports, func(s nccllog.Sum) bool {
		return s.Kind == nccllog.NET || s.Kind == nccllog.CollNet || s.Name == nccllog.MNNVL
	}) || t.wanted(t.Inter) == wantAny {
		return
	}
	single, known := l.SingleNode()
	chosen := slices.IndexFunc(l.Networks, func(n nccllog.Network) bool { return n.Name == nccllog.Socket })
	if chosen >= 0 && len(l.Networks) == 1 && !(known && single) && (known || len(l.Transports) == 0) {
		f := plan.Finding{
			ID: "nccl_transport.network", Target: "network", Status: plan.Drift, Want: "RDMA", Found: nccllog.Socket, Source: t.at(l.Networks[chosen].Line),
			Summary: "NCCL chose sockets: what goes between nodes goes over TCP", Fix: t.socketsFix(),
			Why: "the processors copy every byte through the TCP stack, a few GB/s where RDMA fills each NIC; the job does not fail of it",
		}
		if l.NoHCA {
			f.Summary = "NCCL found no RDMA device and chose sockets: what goes between nodes goes over TCP"
		}
		t.add(f)
	}
	enabled, disabled := t.gdrHints()
	if len(disabled) == 0 || len(enabled) > 0 || t.wanted(t.Inter) == wantIB || t.cannotGDR() != "" {
		return
	}
	f := plan.Finding{
		ID: "nccl_transport.gpudirect", Target: "GPUDirect RDMA", Status: plan.Drift, Want: "enabled", Found: "disabled", Source: t.at(l.GPUDirect[0].Line),
		Summary: "NCCL finds no GPUDirect RDMA for " + enumerate(disabled),
		Why:     "what goes between nodes is copied through host memory on both, which costs half of the bandwidth or more", Fix: t.gdrFix(),
	}
	if known && single {
		f.Severity = plan.Warning
		f.Summary += "; this job, on one node, does not need it"
	}
	t.add(f)
}

// warnings judges what NCCL complained of.
func (t *transports) warnings() {
	for _, w := range t.log.Warnings {
		f := plan.Finding{
			ID: "nccl_transport.warning", Target: cmp.Or(w.ID, w.Text), Status: plan.Drift, Severity: plan.Info, Want: "no warning", Found: w.Text, Source: t.at(w.Line),
			Summary: fmt.Sprintf("NCCL warns: %s", w.Text),
		}
		if w.Times > 1 {
			f.Summary = fmt.Sprintf("NCCL warns %d times: %s", w.Times, w.Text)
		}
		if advice, ok := nccllog.Advise(w.ID); ok {
			f.Why, f.Fix, f.Severity = advice.Means, advice.Do, plan.Warning
			if advice.Fatal {
				f.Severity = plan.Error
			}
		}
		t.add(f)
	}
}

// because is a fix: of the variables that are in force and turn it off, of the warning that says so, or otherwise.
func (t *transports) because(otherwise string, variables []string, warnings ...string) string {
	if list := t.restraints(variables...); len(list) > 0 {
		var settings, places []string
		for _, v := range list {
			settings = append(settings, v.Name+"="+v.Value)
			if place := t.origin(v); !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
		verb, them := " is", "it"
		if len(list) > 1 {
			verb, them = " are", "them"
		}
		return fmt.Sprintf("%s%s in force: take %s out of %s", enumerate(settings), verb, them, strings.Join(places, "; "))
	}
	for _, w := range t.log.Warnings {
		if advice, ok := nccllog.Advise(w.ID); ok && slices.Contains(warnings, w.ID) {
			return fmt.Sprintf("NCCL says why: %q: %s", w.Text, advice.Do)
		}
	}
	return otherwise
}

// restraints are those of the variables that are in force and keep NCCL from something, each with its first value.
func (t *transports) restraints(names ...string) []nccllog.Variable {
	var list []nccllog.Variable
	for _, name := range names {
		i := slices.IndexFunc(t.log.Variables, func(v nccllog.Variable) bool { return v.Name == name && restrains(v) })
		if i >= 0 {
			list = append(list, t.log.Variables[i])
		}
	}
	return list
}

// restrains reports a value that takes a way from NCCL, or a choice.
func restrains(v nccllog.Variable) bool {
	n, err := strconv.Atoi(v.Value)
	switch v.Name {
	case "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE", "NCCL_P2P_DIRECT_DISABLE", "NCCL_IGNORE_DISABLED_P2P":
		return err != nil || n != 0
	case "NCCL_P2P_LEVEL":
		return v.Value == "LOC" || err == nil && n == 0
	case "NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL":
		return v.Value == "LOC" || v.Value == "PIX" || err == nil && n < 2
	case "NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE":
		return err == nil && n == 0
	case "NCCL_NET":
		return strings.EqualFold(v.Value, nccllog.Socket)
	case "NCCL_ALGO", "NCCL_PROTO", "NCCL_HOSTID":
		return true
	}
	return false
}

// variables tells what keeps NCCL from something, as a note: what comes of it is judged by itself.
func (t *transports) variables() {
	for _, v := range t.log.Variables {
		if !restrains(v) || v.Origin == nccllog.FromPlugin {
			continue
		}
		t.add(plan.Finding{
			ID: "nccl_transport.variable", Target: v.Name, Status: plan.Drift, Severity: plan.Info, Found: v.Name + "=" + v.Value, Source: t.at(v.Line),
			Summary: fmt.Sprintf("%s=%s is in force, from %s", v.Name, v.Value, t.origin(v)), Fix: "it is meant for looking after faults: take it out where it is not needed",
		})
	}
}

// origin says where a variable came from, as far as the log and the node's files tell.
func (t *transports) origin(v nccllog.Variable) string {
	switch v.Origin {
	case nccllog.FromPlugin:
		return "the plugin " + v.By
	case nccllog.FromProgram:
		return "the program"
	}
	users, _ := node.NCCLUserFiles.Get(t.facts, "").Get()
	for _, file := range users {
		for _, e := range ncclconf.Parse(file.Text, ncclconf.Version{}).Readings[0].Entries {
			if e.Key == v.Name && sameValue(e.Value, v.Value) {
				return fmt.Sprintf("%s:%d, or the job's environment", file.Path, e.Line)
			}
		}
	}
	conf := node.File.Get(t.facts, sink.NCCLPath)
	file, ok := conf.Get()
	for _, e := range ncclconf.Parse(file.Text, ncclconf.Version{}).Readings[0].Entries {
		if e.Key == v.Name && sameValue(e.Value, v.Value) {
			return fmt.Sprintf("%s:%d, or the job's environment", sink.NCCLPath, e.Line)
		}
	}
	if ok {
		return "the job's environment or its ~/.nccl.conf (" + sink.NCCLPath + " does not have it)"
	}
	return "the job's environment, ~/.nccl.conf or " + sink.NCCLPath
}

// sameValue compares a file's text with what NCCL says, which of numbers is the number.
func sameValue(text, said string) bool {
	if text == said {
		return true
	}
	n, exact, _ := ncclconf.Int(text)
	return exact && strconv.FormatInt(n, 10) == said
}
