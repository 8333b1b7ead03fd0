package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"busbar/node"

	"github.com/Mellanox/rdmamap"
)

// ChildArgument as the program's first argument makes it the child that asks drivers:
// main calls RunChild before anything else. The second argument is the root directory.
const ChildArgument = "__read-drivers"

// What the child is asked besides node's own kinds.
const (
	kindNetwork      = "network"        // key: addresses to find routes to, separated by commas
	kindPortName     = "phys_port_name" // key: a network device
	kindRDMAOfNetdev = "rdma_of_netdev" // key: a network device
	kindLinkLayer    = "link_layer"     // key: an RDMA port, DEVICE/PORT
)

// childDeadline is how long one answer of a kind may take, the child's start included.
func childDeadline(kind string) time.Duration {
	if whoAnswers(kind) == byNVML { // a GPU that nobody keeps awake starts first
		return 10 * time.Second
	}
	switch kind {
	case kindRDMAOfNetdev, node.RDMAPort.Name(): // read hundreds of GIDs
		return 10 * time.Second
	case node.RoCE.Name(): // asks firmware for dozens of parameters
		return 10 * time.Second
	case node.NVConfig.Name(): // a tool that reads hundreds of parameters three times over
		return 30 * time.Second
	default: // a firmware that is busy takes seconds
		return 5 * time.Second
	}
}

// asked says in words who was asked.
func asked(q node.Query) string {
	switch q.Kind {
	case node.RDMAPort.Name(), kindLinkLayer:
		return "the driver of RDMA port " + q.Key
	case node.PCIRegisters.Name(), node.PCILink.Name():
		return "PCI function " + q.Key
	case node.Link.Name(), node.FlowControl.Name(), node.DCB.Name(), node.RoCE.Name():
		return "the driver of NIC " + q.Key
	case node.NVConfig.Name():
		return "the firmware of NIC " + q.Key
	case kindNetwork:
		return "the kernel's routing tables"
	case node.RDMAUsers.Name():
		return "the kernel's list of queue pairs"
	case node.FabricManager.Name():
		return path.Base(fabricManager.path)
	case node.IMEX.Name():
		return path.Base(imex.path)
	case node.GPUInfo.Name(), node.NVLinks.Name(), node.GPUFabric.Name():
		return "NVML about GPU " + q.Key
	case node.NVML.Name(), node.P2P.Name(), node.ConfidentialComputing.Name():
		return "NVML"
	default:
		return "the driver of " + q.Key
	}
}

// childAnswer is one line of the child's output, to the query of one line of its input.
type childAnswer struct {
	node.Query
	Answer node.Value[json.RawMessage] `json:"answer"`
}

// maxAnswer bounds a line of the child's output.
const maxAnswer = 1 << 20

// RunChild reads queries as lines of JSON and answers each with one line, in order, until
// its input ends; the return value is the exit status. It is what the program does when it was
// started with ChildArgument, and never returns while a driver hangs: the parent
// kills it.
func RunChild(stdin io.Reader, stdout io.Writer) int {
	d := drivers{files: files{running: true}}
	if len(os.Args) > 2 {
		d.root = os.Args[2]
	}
	if d.root == "" {
		d.dcb, d.ethtool, d.programs = rtnetlink{}, ethtoolIoctl{}, programDirs()
		d.nvml = sync.OnceValues(loadNVML)
	}
	in := json.NewDecoder(stdin)
	out := json.NewEncoder(stdout)
	for {
		var q node.Query
		if err := in.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return 0
			}
			return 1
		}
		if err := out.Encode(childAnswer{Query: q, Answer: d.ask(q)}); err != nil {
			return 1
		}
	}
}

// ask answers one query in the child.
func (d drivers) ask(q node.Query) node.Value[json.RawMessage] {
	switch q.Kind {
	case node.RDMAPort.Name():
		return encodeValue(d.rdmaPort(q.Key))
	case node.PCIRegisters.Name():
		return encodeValue(d.pciRegisters(q.Key))
	case node.PCILink.Name():
		return encodeValue(d.pciLink(q.Key))
	case node.Link.Name():
		return encodeValue(d.link(q.Key))
	case node.FlowControl.Name():
		return encodeValue(d.flowControl(q.Key))
	case node.DCB.Name():
		return encodeValue(d.dataCenterBridging(q.Key))
	case node.RoCE.Name():
		return encodeValue(d.roce(q.Key))
	case node.NVConfig.Name():
		return encodeValue(d.nvConfig(q.Key))
	case node.RDMAUsers.Name():
		return encodeValue(d.rdmaUsers(q.Key))
	case node.FabricManager.Name():
		return encodeValue(fabricManager.ask(d))
	case node.IMEX.Name():
		return encodeValue(imex.ask(d))
	case node.NVML.Name():
		return encodeValue(d.nvmlLibrary(q.Key))
	case node.GPUInfo.Name():
		return encodeValue(d.gpuState(q.Key))
	case node.NVLinks.Name():
		return encodeValue(d.nvLinks(q.Key))
	case node.P2P.Name():
		return encodeValue(d.p2p(q.Key))
	case node.GPUFabric.Name():
		return encodeValue(d.gpuFabric(q.Key))
	case node.ConfidentialComputing.Name():
		return encodeValue(d.confidentialComputing(q.Key))
	case kindLinkLayer:
		return encodeValue(d.linkLayer(q.Key))
	case kindPortName:
		return encodeValue(d.attributeValue(netClass + "/" + q.Key + "/phys_port_name"))
	case kindNetwork:
		return encodeValue(machineNetwork(q.Key))
	case kindRDMAOfNetdev:
		name, err := rdmamap.GetRdmaDeviceForNetdevice(q.Key)
		if err != nil {
			return node.Unknown[json.RawMessage](err.Error(), node.Source{Path: rdmaClass})
		}
		return encodeValue(node.Known(name, node.Source{Path: rdmaClass}))
	default:
		return node.Unknown[json.RawMessage]("the child reads no "+q.Kind, node.Source{})
	}
}

func encodeValue[T any](v node.Value[T]) node.Value[json.RawMessage] {
	t, ok := v.Get()
	if !ok {
		return node.UnknownLike[json.RawMessage](v)
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return node.Unknown[json.RawMessage](err.Error(), v.Source())
	}
	return node.Known[json.RawMessage](raw, v.Source())
}

func decodeValue[T any](v node.Value[json.RawMessage]) node.Value[T] {
	raw, ok := v.Get()
	if !ok {
		return node.UnknownLike[T](v)
	}
	var t T
	if err := json.Unmarshal(raw, &t); err != nil {
		return node.Unknown[T]("the child's answer is not understood: "+err.Error(), v.Source())
	}
	return node.Known(t, v.Source())
}

// self runs this very program, also when its file was replaced meanwhile.
func self() *exec.Cmd { return exec.Command("/proc/self/exe", ChildArgument) }

// askDrivers answers queries of node's kinds through the child, those that need nobody's answer at once.
func (r *Reader) askDrivers(ctx context.Context, queries []node.Query, answers chan<- node.Answer) {
	var there []node.Query
	for _, q := range queries {
		if a, ok := r.kinds[q.Kind].without(r.files, q.Key); ok {
			answers <- a
			continue
		}
		there = append(there, q)
	}
	if len(there) == 0 {
		return
	}
	for q, v := range r.ask(ctx, there) {
		answers <- r.kinds[q.Kind].decode(q.Key, v)
	}
}

// rdmaPortWithout answers for a port whose device is not there.
func (f files) rdmaPortWithout(key string) (node.Value[node.RDMAPortState], bool) {
	device, port, _ := strings.Cut(key, "/")
	p := path.Join(rdmaClass, device)
	_, err := f.stat(p)
	_, decimal := parsePort(port)
	switch {
	case device == "" || device == ".." || !decimal:
		return node.Unknown[node.RDMAPortState]("is not DEVICE/PORT", node.Source{}), true
	case absent(err):
		return node.Awaiting[node.RDMAPortState]("there is no RDMA device "+device, node.CapabilityRDMA, node.Source{Path: p}), true
	case err != nil:
		return unknown[node.RDMAPortState](err, p), true
	default:
		return node.Value[node.RDMAPortState]{}, false
	}
}

func parsePort(s string) (int, bool) {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' || n > 1000 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, s != ""
}

const byNVML = "NVML"

// whoAnswers is what the kinds have in common that hang together: NVML, or else nothing but the kind itself.
func whoAnswers(kind string) string {
	switch kind {
	case node.NVML.Name(), node.GPUInfo.Name(), node.NVLinks.Name(), node.P2P.Name(), node.GPUFabric.Name(), node.ConfidentialComputing.Name():
		return byNVML
	default:
		return kind
	}
}

// ask puts queries to the child one after the other and answers all of them. A query that is not
// answered by its deadline costs no more than that: the child is killed and left behind, what is
// left for who did not answer it is unknown, and other queries go to a new child.
func (r *Reader) ask(ctx context.Context, queries []node.Query) map[node.Query]node.Value[json.RawMessage] {
	answers := make(map[node.Query]node.Value[json.RawMessage], len(queries))
	failed := map[string]string{} // who answers to reason
	var c *child
	defer func() { c.abandon() }()
	for _, q := range queries {
		if why, ok := failed[whoAnswers(q.Kind)]; ok {
			answers[q] = node.Unknown[json.RawMessage]("not asked: "+why, node.Source{})
			continue
		}
		var err error
		if c == nil {
			c, err = r.startChild()
		}
		if err == nil {
			answers[q], err = c.ask(ctx, q, r.deadline(q.Kind))
		}
		if err != nil {
			failed[whoAnswers(q.Kind)] = err.Error()
			answers[q] = node.Unknown[json.RawMessage](err.Error(), node.Source{})
			c.abandon()
			c = nil
		}
	}
	return answers
}

// child is a running child process.
type child struct {
	cmd *exec.Cmd
	in  *os.File
	out *os.File
	// lines reads out.
	lines *bufio.Reader
	// ended is closed once the process was reaped; how it ended is in cmd.ProcessState.
	ended chan struct{}
}

func (r *Reader) startChild() (*child, error) {
	cmd := r.child()
	cmd.Args = append(cmd.Args, r.files.root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	theirIn, in, err1 := os.Pipe()
	out, theirOut, err2 := os.Pipe()
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	err := errors.Join(err1, err2)
	if err == nil {
		err = cmd.Start()
	}
	closeAll(theirIn, theirOut)
	if err != nil {
		closeAll(in, out)
		return nil, fmt.Errorf("starting the child that asks drivers: %w", err)
	}
	c := &child{cmd: cmd, in: in, out: out, lines: bufio.NewReader(out), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(c.ended)
	}()
	return c, nil
}

// closeAll closes files that are done with; closing a nil one does nothing.
func closeAll(list ...*os.File) {
	for _, p := range list {
		_ = p.Close()
	}
}

// abandon kills the child without waiting for it: one that hangs in the kernel cannot be
// reaped, and its last goroutine here waits for it in vain.
func (c *child) abandon() {
	if c == nil {
		return
	}
	closeAll(c.in, c.out)
	select {
	case <-c.ended:
	default:
		_ = c.cmd.Process.Kill() // it may just have ended
	}
}

// ask puts one query and waits for its answer.
func (c *child) ask(ctx context.Context, q node.Query, allowed time.Duration) (node.Value[json.RawMessage], error) {
	none := node.Value[json.RawMessage]{}
	deadline := time.Now().Add(allowed)
	if err := errors.Join(c.in.SetWriteDeadline(deadline), c.out.SetReadDeadline(deadline)); err != nil {
		return none, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.out.SetReadDeadline(time.Now()) })
	defer stop()
	line, err := json.Marshal(q)
	if err != nil {
		return none, err
	}
	if _, err = c.in.Write(append(line, '\n')); err == nil {
		line, err = c.line()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return none, fmt.Errorf("not read in time: %w", context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return none, fmt.Errorf("no answer within %s from %s", allowed, asked(q))
	case errors.Is(err, bufio.ErrTooLong):
		return none, fmt.Errorf("the child that asked %s wrote a line longer than 1 MiB", asked(q))
	case err != nil:
		return none, fmt.Errorf("the child that asked %s %s", asked(q), c.fate())
	}
	var a childAnswer
	if err := json.Unmarshal(line, &a); err != nil || a.Query != q {
		return none, fmt.Errorf("the child that asked %s wrote what is no answer: %.80q", asked(q), line)
	}
	return a.Answer, nil
}

// line reads a whole line, its newline included.
func (c *child) line() ([]byte, error) {
	var line []byte
	for {
		part, err := c.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case len(line) > maxAnswer:
			return nil, bufio.ErrTooLong
		case !errors.Is(err, bufio.ErrBufferFull):
			return bytes.Clone(line), err
		}
	}
}

// fate says how a child ended that closed its output.
func (c *child) fate() string {
	select {
	case <-c.ended:
		return "ended before it answered: " + c.cmd.ProcessState.String()
	case <-time.After(100 * time.Millisecond):
		return "closed its output before it answered"
	}
}
