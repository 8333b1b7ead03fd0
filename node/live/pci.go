package live

import (
	"errors"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"busbar/node"
)

const pciDevices = "/sys/bus/pci/devices"

// pci reads the identity of all PCI functions; no file that it opens asks a driver
// or touches configuration space.
func (f files) pci() node.Value[[]node.PCIFunction] {
	names, err := f.names(pciDevices)
	if absent(err) && f.exists("/sys/bus") {
		return node.Known([]node.PCIFunction{}, node.Source{Path: pciDevices}) // no PCI bus
	}
	if err != nil {
		return unknown[[]node.PCIFunction](err, pciDevices)
	}
	functions := make([]node.PCIFunction, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), 1+len(names)/16)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(names); i += workers {
				functions[i], errs[i] = f.pciFunction(names[i])
			}
		})
	}
	wg.Wait()
	list := functions[:0]
	for i, err := range errs {
		switch {
		case err == nil:
			list = append(list, functions[i])
		case !absent(err): // an absent one was unplugged meanwhile
			return unknown[[]node.PCIFunction](err, pciDevices+"/"+names[i])
		}
	}
	return node.Known(list, node.Source{Path: pciDevices})
}

func (f files) pciFunction(name string) (node.PCIFunction, error) {
	dir := pciDevices + "/" + name
	p := node.PCIFunction{Address: strings.ToLower(name), NUMANode: -1}
	if err := f.pciIdentity(dir, &p); err != nil {
		return p, err
	}
	if v, err := f.attribute(dir + "/numa_node"); err == nil {
		if n, err := strconv.Atoi(v); err == nil {
			p.NUMANode = n
		}
	}
	p.Driver = f.linkBase(dir + "/driver")
	p.PhysicalFunction = strings.ToLower(f.linkBase(dir + "/physfn"))
	if target, err := f.readlink(dir); err == nil {
		if above := strings.ToLower(path.Base(path.Dir(target))); node.IsPCIAddress(above) {
			p.Parent = above
		}
	}
	return p, nil
}

// pciIdentity reads the ids, from modalias where that is complete: it has all of
// them in one file (drivers/pci/pci-sysfs.c, modalias_show).
func (f files) pciIdentity(dir string, p *node.PCIFunction) error {
	if alias, err := f.attribute(dir + "/modalias"); err == nil && parseModalias(alias, p) {
		return nil
	}
	for _, field := range []struct {
		name     string
		into     *string
		optional bool
	}{
		{"vendor", &p.Vendor, false}, {"device", &p.Device, false}, {"class", &p.Class, false},
		{"subsystem_vendor", &p.SubsystemVendor, true}, {"subsystem_device", &p.SubsystemDevice, true},
	} {
		v, err := f.attribute(dir + "/" + field.name)
		if err != nil {
			if field.optional && absent(err) {
				continue
			}
			return err
		}
		v, ok := strings.CutPrefix(strings.ToLower(v), "0x")
		if _, err := strconv.ParseUint(v, 16, 32); !ok || err != nil {
			return errors.New(field.name + " is no hexadecimal number")
		}
		*field.into = v
	}
	return nil
}

// parseModalias reads "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00".
func parseModalias(alias string, p *node.PCIFunction) bool {
	rest, ok := strings.CutPrefix(alias, "pci")
	if !ok {
		return false
	}
	rest = strings.ToLower(rest)
	fields := [7]string{}
	for i, f := range []struct {
		mark   string
		digits int
	}{{":v", 8}, {"d", 8}, {"sv", 8}, {"sd", 8}, {"bc", 2}, {"sc", 2}, {"i", 2}} {
		rest, ok = strings.CutPrefix(rest, f.mark)
		if !ok || len(rest) < f.digits {
			return false
		}
		fields[i], rest = rest[:f.digits], rest[f.digits:]
		if _, err := strconv.ParseUint(fields[i], 16, 32); err != nil {
			return false
		}
	}
	for _, id := range fields[:4] {
		if !strings.HasPrefix(id, "0000") {
			return false
		}
	}
	p.Vendor, p.Device, p.SubsystemVendor, p.SubsystemDevice = fields[0][4:], fields[1][4:], fields[2][4:], fields[3][4:]
	p.Class = fields[4] + fields[5] + fields[6]
	return rest == ""
}
