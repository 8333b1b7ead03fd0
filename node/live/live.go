// Package live reads a node: this machine, a root directory (--root), or the
// captured tree of another machine. It is the only package that reads machine
// state, and it changes none: nothing is opened for writing.
//
// Files of procfs, sysfs and /etc are read in process. What a driver answers is
// read by a child process (see RunChild) that can be abandoned when it hangs.
package live

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"busbar/internal/confdir"
	"busbar/internal/linkconf"
	"busbar/node"
)

// Options say which node is read.
type Options struct {
	// Root is the node's root directory; empty or "/" is this machine.
	Root string
	// Running: /proc, /sys, /dev and /run below Root show the node's running state. Without
	// it (--root) only persistent files are read and all running state is
	// unknown. It is always true of this machine.
	Running bool
	// SSHConnection is the value of SSH_CONNECTION (ssh(1)), which names the client
	// that busbar must not cut off. Empty: nobody is connected.
	SSHConnection string
	// Child makes the command of the child that asks drivers; the root directory is appended to
	// its arguments. Nil is this program with ChildArgument.
	Child func() *exec.Cmd
}

// Reader reads one node. It holds no state between calls.
type Reader struct {
	files         files
	machine       bool // this machine: system calls, netlink and D-Bus answer for it
	sshConnection string
	child         func() *exec.Cmd
	deadline      func(kind string) time.Duration
	kinds         map[string]kindReader
}

var _ node.Reader = (*Reader)(nil)

// New makes a Reader. It reads nothing yet.
func New(opts Options) *Reader {
	r := &Reader{
		files:         files{root: opts.Root, running: opts.Running},
		sshConnection: opts.SSHConnection,
		child:         opts.Child,
		deadline:      childDeadline,
		kinds:         kindReaders(),
	}
	if r.child == nil {
		r.child = self
	}
	if opts.Root == "" || filepath.Clean(opts.Root) == "/" {
		r.files = files{running: true}
		r.machine = true
		return r
	}
	// A root that does not exist stays as it is: reading says so.
	if abs, err := filepath.Abs(opts.Root); err == nil {
		r.files.root = abs
	}
	if resolved, err := filepath.EvalSymlinks(r.files.root); err == nil {
		r.files.root = resolved
	}
	return r
}

// Read answers queries. It returns when ctx ends at the latest; what was not
// read by then is unknown.
func (r *Reader) Read(ctx context.Context, inv node.Inventory, queries []node.Query) node.Facts {
	observedAt := time.Now().UTC()
	s := newSession(ctx, r, inv, queries)
	answers := make(chan node.Answer, len(queries))
	var groups [4][]node.Query // by the way they are read
	for _, q := range queries {
		way := r.kinds[q.Kind].way
		groups[way] = append(groups[way], q)
	}
	var wg sync.WaitGroup
	for way, group := range groups {
		if len(group) == 0 {
			continue
		}
		wg.Go(func() {
			switch readWay(way) {
			case byChild:
				r.askDrivers(ctx, group, answers)
			case byManager:
				defer s.manager.close()
				s.answer(group, answers)
			default:
				s.answer(group, answers)
			}
		})
	}
	return node.NewFacts(inv, observedAt, r.collect(ctx, queries, answers, &wg))
}

// collect gathers answers until all readers are done or ctx ends, and answers the rest itself.
func (r *Reader) collect(ctx context.Context, queries []node.Query, answers chan node.Answer, wg *sync.WaitGroup) []node.Answer {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	list := make([]node.Answer, 0, len(queries))
	answered := make(map[node.Query]bool, len(queries))
	for len(answers) > 0 {
		a := <-answers
		answered[a.Query] = true
		list = append(list, a)
	}
	for _, q := range queries {
		if k, ok := r.kinds[q.Kind]; ok && !answered[q] {
			list = append(list, k.unknown(q.Key, "not read in time: "+context.Cause(ctx).Error()))
		}
	}
	return list
}

// readWay is how the answers of a kind come about.
type readWay int

const (
	byFile    readWay = iota // files, in process
	byManager                // the service manager over D-Bus
	byImage                  // the initramfs, in process: unpacking it takes longer than all files
	byChild                  // a driver, through the child
)

// kindReader reads the answers of one kind.
type kindReader struct {
	way readWay
	// read is nil when the child reads.
	read func(s *session, key string) node.Answer
	// without is the answer where nobody needs to be asked: no such device, no such key. It
	// is nil unless the child reads.
	without func(f files, key string) (node.Answer, bool)
	decode  func(key string, v node.Value[json.RawMessage]) node.Answer
	unknown func(key, reason string) node.Answer
}

// reads says how a kind is read.
func reads[T any](way readWay, kind node.Kind[T], read func(s *session, key string) node.Value[T]) kindReader {
	return kindReader{
		way:  way,
		read: func(s *session, key string) node.Answer { return kind.Answer(key, read(s, key)) },
		decode: func(key string, v node.Value[json.RawMessage]) node.Answer {
			return kind.Answer(key, decodeValue[T](v))
		},
		unknown: func(key, reason string) node.Answer {
			return kind.Answer(key, node.Unknown[T](reason, node.Source{}))
		},
	}
}

// readsByChild says how a kind is read that a driver answers. without gives the answer where nobody needs
// to be asked, and false where the child is to.
func readsByChild[T any](kind node.Kind[T], without func(f files, key string) (node.Value[T], bool)) kindReader {
	k := reads(byChild, kind, nil)
	k.read = nil
	k.without = func(f files, key string) (node.Answer, bool) {
		v, ok := without(f, key)
		return kind.Answer(key, v), ok
	}
	return k
}

func kindReaders() map[string]kindReader {
	return map[string]kindReader{
		node.Sysctl.Name():                reads(byFile, node.Sysctl, (*session).sysctl),
		node.SysctlFiles.Name():           reads(byFile, node.SysctlFiles, (*session).sysctlFiles),
		node.Module.Name():                reads(byFile, node.Module, (*session).module),
		node.ModulesLoadFiles.Name():      reads(byFile, node.ModulesLoadFiles, (*session).modulesLoadFiles),
		node.ModprobeFiles.Name():         reads(byFile, node.ModprobeFiles, (*session).modprobeFiles),
		node.ModuleSigning.Name():         reads(byFile, node.ModuleSigning, (*session).moduleSigning),
		node.CommandLine.Name():           reads(byFile, node.CommandLine, (*session).commandLine),
		node.Boot.Name():                  reads(byFile, node.Boot, (*session).boot),
		node.Initramfs.Name():             reads(byImage, node.Initramfs, (*session).initramfs),
		node.IOMMU.Name():                 reads(byFile, node.IOMMU, (*session).iommu),
		node.File.Name():                  reads(byFile, node.File, (*session).file),
		node.Path.Name():                  reads(byFile, node.Path, (*session).path),
		node.Mount.Name():                 reads(byFile, node.Mount, (*session).mount),
		node.NCCLUserFiles.Name():         reads(byFile, node.NCCLUserFiles, (*session).ncclUserFiles),
		node.NCCLLog.Name():               reads(byFile, node.NCCLLog, (*session).ncclLog),
		node.UnitFiles.Name():             reads(byFile, node.UnitFiles, (*session).unitFiles),
		node.OwnedDropIns.Name():          reads(byFile, node.OwnedDropIns, (*session).ownedDropIns),
		node.SystemConfFiles.Name():       reads(byFile, node.SystemConfFiles, (*session).systemConfFiles),
		node.LogindConfFiles.Name():       reads(byFile, node.LogindConfFiles, (*session).logindConfFiles),
		node.LimitsFiles.Name():           reads(byFile, node.LimitsFiles, (*session).limitsFiles),
		node.Unit.Name():                  reads(byManager, node.Unit, (*session).unit),
		node.ProcLimits.Name():            reads(byManager, node.ProcLimits, (*session).procLimits),
		node.KernelConfig.Name():          reads(byFile, node.KernelConfig, (*session).kernelConfig),
		node.KernelLog.Name():             reads(byFile, node.KernelLog, (*session).kernelLog),
		node.NUMANodes.Name():             reads(byFile, node.NUMANodes, (*session).numaNodes),
		node.CPUs.Name():                  reads(byFile, node.CPUs, (*session).cpus),
		node.RDMAPort.Name():              readsByChild(node.RDMAPort, files.rdmaPortWithout),
		node.PCIRegisters.Name():          readsByChild(node.PCIRegisters, pciWithout[node.PCIRegisterState]),
		node.PCILink.Name():               readsByChild(node.PCILink, pciWithout[node.PCILinkState]),
		node.Link.Name():                  readsByChild(node.Link, nicWithout[node.LinkState]),
		node.LinkManagement.Name():        reads(byFile, node.LinkManagement, (*session).linkManagement),
		node.FlowControl.Name():           readsByChild(node.FlowControl, nicWithout[node.FlowControlState]),
		node.DCB.Name():                   readsByChild(node.DCB, nicWithout[node.DCBState]),
		node.RoCE.Name():                  readsByChild(node.RoCE, nicWithout[node.RoCEState]),
		node.NVConfig.Name():              readsByChild(node.NVConfig, nvConfigWithout),
		node.NVIDIADriver.Name():          reads(byFile, node.NVIDIADriver, (*session).nvidiaDriver),
		node.FabricManager.Name():         fabricManager.reader(),
		node.IMEX.Name():                  imex.reader(),
		node.NVML.Name():                  readsByChild(node.NVML, nvidiaWithout[node.NVMLState]),
		node.GPUInfo.Name():               readsByChild(node.GPUInfo, gpuWithout[node.GPUState]),
		node.NVLinks.Name():               readsByChild(node.NVLinks, gpuWithout[node.NVLinkState]),
		node.P2P.Name():                   readsByChild(node.P2P, nvidiaWithout[node.P2PState]),
		node.GPUFabric.Name():             readsByChild(node.GPUFabric, gpuWithout[node.GPUFabricState]),
		node.ConfidentialComputing.Name(): readsByChild(node.ConfidentialComputing, nvidiaWithout[node.ConfidentialComputingState]),
		node.GPUUsers.Name():              reads(byFile, node.GPUUsers, (*session).gpuUsers),
		node.RDMAUsers.Name():             readsByChild(node.RDMAUsers, rdmaUsersWithout),
		node.SlurmJobs.Name():             reads(byFile, node.SlurmJobs, (*session).slurmJobs),
		node.P2PMeasurement.Name():        reads(byFile, node.P2PMeasurement, (*session).unmeasured),
	}
}

// session is one call of Read: what its answers share.
type session struct {
	files
	ctx       context.Context
	machine   bool
	inventory node.Inventory
	kinds     map[string]kindReader
	// modules are the names of all modules asked for, with underscores.
	modules map[string]bool
	kernels func() ([]kernelModules, error)
	// mountTable and immutable are read once.
	mountTable func() (mountTable, error)
	immutable  func() string
	// nextImage is unpacked once.
	nextImage func() nextImage
	manager   manager
	// linkFiles, netplanFiles and connections are read once.
	linkFiles    func() ([]linkconf.LinkFile, error)
	netplanFiles func() []confdir.File
	connections  func() ([]connection, error)
}

func newSession(ctx context.Context, r *Reader, inv node.Inventory, queries []node.Query) *session {
	s := &session{files: r.files, ctx: ctx, machine: r.machine, inventory: inv, kinds: r.kinds, modules: map[string]bool{}}
	for _, q := range queries {
		if q.Kind == node.Module.Name() {
			s.modules[q.Key] = true
		}
	}
	s.kernels = sync.OnceValues(func() ([]kernelModules, error) { return s.installedKernels(s.modules) })
	s.nextImage = sync.OnceValue(s.readNextImage)
	s.mountTable, s.immutable = sync.OnceValues(s.readMounts), sync.OnceValue(s.readImmutable)
	s.linkFiles, s.netplanFiles, s.connections = sync.OnceValues(s.readLinkFiles), sync.OnceValue(s.readNetplanFiles), sync.OnceValues(s.readConnections)
	return s
}

// answer answers queries one after the other until the session's time is over.
func (s *session) answer(queries []node.Query, answers chan<- node.Answer) {
	for _, q := range queries {
		if s.ctx.Err() != nil {
			return
		}
		if k, ok := s.kinds[q.Kind]; ok {
			answers <- k.read(s, q.Key)
		}
	}
}
