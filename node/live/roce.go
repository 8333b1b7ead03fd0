package live

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"busbar/internal/dcbnl"
	"busbar/node"

	"golang.org/x/sys/unix"
)

const (
	debugfs = "/sys/kernel/debug"
	rdmaCM  = "/sys/kernel/config/rdma_cm"
)

// vendorOnly is why what only the vendor's driver has is unsupported.
const vendorOnly = "the driver shows none; MLNX_OFED and DOCA-OFED drivers do"

func (d drivers) roce(key string) node.Value[node.RoCEState] {
	p, err := d.port(key)
	if err != nil {
		return unknown[node.RoCEState](err, netClass)
	}
	s := node.RoCEState{Netdev: p.netdev, CCParams: d.ccParams(p.address)}
	if p.netdev == "" {
		why, source := d.noNetdev(p)
		s.NotificationPoint, s.ReactionPoint = node.Unknown[dcbnl.Priorities](why, source), node.Unknown[dcbnl.Priorities](why, source)
		s.CNPDSCP, s.CNPPriority = node.Unknown[int](why, source), node.Unknown[int](why, source)
	} else {
		np, rp := p.class()+"/ecn/roce_np", p.class()+"/ecn/roce_rp"
		s.NotificationPoint, s.ReactionPoint = d.priorities(np+"/enable"), d.priorities(rp+"/enable")
		s.CNPDSCP, s.CNPPriority = setting(d.files, np+"/cnp_dscp", parseNumber), setting(d.files, np+"/cnp_802p_prio", parseNumber)
	}
	if d.renamed(p) {
		return node.Unknown[node.RoCEState](errRenamed.Error(), node.Source{Path: p.class()})
	}
	if p.rdma == "" {
		none := node.Awaiting[int]("the NIC has no RDMA device", node.CapabilityRDMA, node.Source{Path: pciDevices + "/" + p.address})
		s.TrafficClass, s.DefaultToS, s.DefaultMode = node.UnknownLike[node.TrafficClass](none), none, node.UnknownLike[string](none)
		return node.Known(s, node.Source{Path: pciDevices + "/" + p.address})
	}
	number := strconv.Itoa(p.rdmaPort)
	s.RDMA = p.rdma + "/" + number
	s.TrafficClass = setting(d.files, path.Join(rdmaClass, p.rdma, "tc", number, "traffic_class"), parseTrafficClass)
	s.DefaultToS = connectionDefault(d.files, p, "default_roce_tos", parseNumber)
	s.DefaultMode = connectionDefault(d.files, p, "default_roce_mode", func(s string) (string, error) { return s, nil })
	return node.Known(s, node.Source{Path: pciDevices + "/" + p.address})
}

// setting reads a file that only the vendor's driver has.
func setting[T any](f files, p string, parse func(string) (T, error)) node.Value[T] {
	text, err := f.attribute(p)
	switch {
	case absent(err):
		return node.Unsupported[T](vendorOnly, node.Source{Path: p})
	case errors.Is(err, unix.EOPNOTSUPP):
		return node.Unsupported[T]("the driver refuses to read it: operation not supported", node.Source{Path: p})
	case err != nil:
		return unknown[T](err, p)
	}
	v, err := parse(text)
	if err != nil {
		return node.Unknown[T](err.Error(), node.Source{Path: p})
	}
	return node.Known(v, node.Source{Path: p})
}

// parseNumber reads a decimal number. MLNX_OFED's driver shows nothing where its firmware failed to answer
// (mlx5e_show_ecn_enable in en_ecn.c).
func parseNumber(text string) (int, error) {
	if text == "" {
		return 0, errors.New("the file is empty: the driver could not ask its firmware")
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("is no number: %q", text)
	}
	return n, nil
}

// priorities reads the files 0 to 7 of a directory, "0" or "1" each.
func (f files) priorities(dir string) node.Value[dcbnl.Priorities] {
	var set dcbnl.Priorities
	for p := range 8 {
		on := setting(f, dir+"/"+strconv.Itoa(p), parseNumber)
		n, ok := on.Get()
		if !ok {
			return node.UnknownLike[dcbnl.Priorities](on)
		}
		if n != 0 {
			set |= 1 << p
		}
	}
	return node.Known(set, node.Source{Path: dir})
}

// parseTrafficClass reads "Global tclass=106" and the lines of rules; there is no such line where no
// traffic class is set (traffic_class_show in MLNX_OFED's mlx5_ib).
func parseTrafficClass(text string) (node.TrafficClass, error) {
	tc := node.TrafficClass{Global: -1}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		digits, global := strings.CutPrefix(line, "Global tclass=")
		switch {
		case line == "":
		case !global:
			tc.Rules = append(tc.Rules, line)
		default:
			n, err := strconv.ParseUint(digits, 10, 8)
			if err != nil {
				return tc, fmt.Errorf("%q is no traffic class", line)
			}
			tc.Global = int(n)
		}
	}
	return tc, nil
}

// connectionDefault reads what rdma_cm keeps for an RDMA port. It makes no directory: where nobody has, the value is
// not to be had (drivers/infiniband/core/cma_configfs.c).
func connectionDefault[T any](f files, p port, name string, parse func(string) (T, error)) node.Value[T] {
	dir := path.Join(rdmaCM, p.rdma)
	file := path.Join(dir, "ports", strconv.Itoa(p.rdmaPort), name)
	text, err := f.attribute(file)
	source := node.Source{Path: file}
	switch {
	case absent(err) && !f.exists(rdmaCM):
		return node.Awaiting[T]("module rdma_cm is not loaded, or configfs is not mounted", node.CapabilityRDMACM, source)
	case absent(err) && !f.exists(dir):
		return node.Awaiting[T]("it can only be read in a directory that nobody has made", node.CapabilityRDMACM, source)
	case errors.Is(err, unix.ENODEV):
		return node.Unknown[T]("the directory is left over from an RDMA device that was renamed or removed", source)
	case err != nil:
		return unknown[T](err, file)
	}
	v, err := parse(text)
	if err != nil {
		return node.Unknown[T](err.Error(), source)
	}
	return node.Known(v, source)
}

// ccParams reads the congestion control parameters that mlx5_ib shows in debugfs, a file for each.
func (f files) ccParams(address string) node.Value[map[string]uint32] {
	type params = map[string]uint32
	if driver := f.linkBase(pciDevices + "/" + address + "/driver"); driver != "mlx5_core" {
		return node.Unsupported[params]("only mlx5_core has it", node.Source{Path: pciDevices + "/" + address + "/driver"})
	}
	dir := path.Join(debugfs, "mlx5", address, "cc_params")
	names, err := f.names(dir)
	switch {
	case absent(err) && !f.hasEntries(debugfs):
		if _, err := f.names(debugfs); err != nil {
			return unknown[params](err, debugfs)
		}
		return node.Unknown[params]("debugfs is not mounted", node.Source{Path: debugfs})
	case absent(err):
		return node.Unsupported[params]("mlx5_ib shows none: it is not loaded, or the firmware does not let it", node.Source{Path: dir})
	case err != nil:
		return unknown[params](err, dir)
	}
	list := params{}
	for _, name := range names {
		p := dir + "/" + name
		text, err := f.attribute(p)
		if err != nil {
			return unknown[params](err, p)
		}
		n, err := strconv.ParseUint(text, 0, 32)
		if err != nil {
			return node.Unknown[params]("is no number: "+strconv.Quote(text), node.Source{Path: p})
		}
		list[name] = uint32(n)
	}
	return node.Known(list, node.Source{Path: dir})
}
