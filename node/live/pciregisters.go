package live

import (
	"errors"
	"io"
	"path"

	"busbar/internal/pciregs"
	"busbar/node"

	"golang.org/x/sys/unix"
)

// pciWithout answers for a PCI function that is not there.
func pciWithout[T any](f files, address string) (node.Value[T], bool) {
	if !node.IsPCIAddress(address) {
		return node.Unknown[T]("is no PCI address DDDD:BB:DD.F", node.Source{}), true
	}
	p := path.Join(pciDevices, address)
	_, err := f.stat(p)
	switch {
	case absent(err) && f.exists("/sys/bus"):
		return node.Unknown[T]("there is no PCI function "+address, node.Source{Path: p}), true
	case err != nil:
		return unknown[T](err, p), true
	default:
		return node.Value[T]{}, false
	}
}

// Why a function's registers are not read.
const (
	errPoweredOff   = refusal("it is without power (D3cold), and reading would wake it")
	errAsleep       = refusal("it sleeps, and whether reading would wake it cannot be told before Linux 5.11")
	errBridgeAsleep = refusal("its bridge sleeps, and reading would wake it")
)

// awake refuses a function whose registers cannot be read without waking something. Reading configuration
// space wakes the bridge above, and the function itself from D3cold, the state in which it does not
// answer (drivers/pci/pci.c, pci_config_pm_runtime_get); in D3hot it answers. The same
// holds for the link attributes of newer kernels, and older ones read all ones off what sleeps.
// power_state (Linux 5.11) and runtime_status are what the kernel remembers: reading them wakes
// nobody.
func (f files) awake(address string) error {
	dir := pciDevices + "/" + address
	state, err := f.attribute(dir + "/power_state")
	switch {
	case err == nil && state == "D3cold":
		return errPoweredOff
	case absent(err) && f.suspended(dir):
		return errAsleep
	}
	// A captured tree may have directories for the links.
	if target, err := f.readlink(dir); err == nil && f.suspended(path.Join(pciDevices, path.Dir(target))) {
		return errBridgeAsleep
	}
	return nil
}

// suspended reports whether a device sleeps (Documentation/ABI/testing/sysfs-devices-power).
func (f files) suspended(dir string) bool {
	status, err := f.attribute(dir + "/power/runtime_status")
	return err == nil && (status == "suspended" || status == "suspending")
}

// configSpace reads a function's configuration space in pieces. Without root the kernel shows 64 bytes of it
// (drivers/pci/pci-sysfs.c, pci_read_config).
type configSpace struct{ fd int }

// ReadAt is that of io.ReaderAt.
func (c configSpace) ReadAt(p []byte, off int64) (int, error) {
	read := 0
	for read < len(p) {
		n := 0
		err := retry(func() (err error) { n, err = unix.Pread(c.fd, p[read:], off+int64(read)); return err })
		if err != nil {
			return read, err
		}
		if n == 0 {
			return read, io.EOF
		}
		read += n
	}
	return read, nil
}

// registers opens a function's configuration space; done closes it.
func (f files) registers(address string) (space *pciregs.Space, done func(), err error) {
	if err := f.awake(address); err != nil {
		return nil, nil, err
	}
	fd, _, err := f.open(pciDevices + "/" + address + "/config")
	if err != nil {
		return nil, nil, err
	}
	if space, err = pciregs.Open(configSpace{fd}); err != nil {
		shut(fd)
		return nil, nil, err
	}
	return space, func() { shut(fd) }, nil
}

// pciRegisters reads a function's named registers and memory regions.
func (f files) pciRegisters(address string) node.Value[node.PCIRegisterState] {
	dir := pciDevices + "/" + address
	config := dir + "/config"
	state := node.PCIRegisterState{BARs: f.bars(dir + "/resource")}
	space, done, err := f.registers(address)
	if err != nil {
		state.Express = unknown[pciregs.Express](err, config)
		state.ACS = unknown[pciregs.ACS](err, config)
		state.ATS = unknown[pciregs.ATS](err, config)
		return node.Known(state, node.Source{Path: config})
	}
	defer done()
	state.Express = register(config, space.Express)
	state.ACS = register(config, space.ACS)
	state.ATS = register(config, space.ATS)
	return node.Known(state, node.Source{Path: config})
}

// register is what read gives, or why it gives nothing.
func register[T any](source string, read func() (T, error)) node.Value[T] {
	v, err := read()
	if err != nil {
		return unknown[T](err, source)
	}
	return node.Known(v, node.Source{Path: source})
}

func (f files) bars(p string) node.Value[[]pciregs.BAR] {
	text, err := f.attribute(p)
	if err != nil {
		return unknown[[]pciregs.BAR](err, p)
	}
	return register(p, func() ([]pciregs.BAR, error) { return pciregs.ParseResource(text) })
}

// pciLink reads a function's link: off the attributes, which everybody may read, and where these do not
// tell (a speed that the kernel does not know yet), off the registers.
func (f files) pciLink(address string) node.Value[node.PCILinkState] {
	dir := pciDevices + "/" + address
	source := node.Source{Path: dir}
	if err := f.awake(address); err != nil {
		return node.Unknown[node.PCILinkState](reason(err), source)
	}
	state := node.PCILinkState{
		Current: f.linkAttributes(dir, "current_link"),
		Max:     f.linkAttributes(dir, "max_link"),
	}
	if state.Current.IsKnown() && state.Max.IsKnown() {
		return node.Known(state, source)
	}
	space, done, err := f.registers(address)
	if err != nil {
		return node.Known(state, source)
	}
	defer done()
	known := func(attributes node.Value[pciregs.Link], read func() (pciregs.Link, error)) node.Value[pciregs.Link] {
		if registers := link(dir+"/config", read); !attributes.IsKnown() && (registers.IsKnown() || registers.IsUnsupported()) {
			return registers
		}
		return attributes
	}
	state.Current = known(state.Current, space.CurrentLink)
	state.Max = known(state.Max, space.MaxLink)
	return node.Known(state, source)
}

// linkAttributes reads NAME_speed and NAME_width, which only functions of PCI Express have, and
// old kernels do not.
func (f files) linkAttributes(dir, name string) node.Value[pciregs.Link] {
	p := dir + "/" + name + "_speed"
	speed, err := f.attribute(p)
	if absent(err) {
		return node.Unknown[pciregs.Link]("the kernel shows no PCI Express link of it", node.Source{Path: p})
	}
	if err != nil {
		return unknown[pciregs.Link](err, p)
	}
	width, err := f.attribute(dir + "/" + name + "_width")
	if err != nil {
		return unknown[pciregs.Link](err, dir+"/"+name+"_width")
	}
	return link(p, func() (pciregs.Link, error) { return pciregs.ParseLink(speed, width) })
}

// link is register for a link, unsupported where there is none.
func link(source string, read func() (pciregs.Link, error)) node.Value[pciregs.Link] {
	if _, err := read(); errors.Is(err, pciregs.ErrNoLink) || errors.Is(err, pciregs.ErrLinkDown) {
		return node.Unsupported[pciregs.Link](err.Error(), node.Source{Path: source})
	}
	return register(source, read)
}
