package modules_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"busbar/node"
	"busbar/node/live"
)

// TestMain is also the child that asks drivers, where a test's reader starts it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == live.ChildArgument {
		os.Exit(live.RunChild(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// sysfs is a root directory with the files of /proc and /sys that a test needs.
type sysfs struct {
	testing.TB
	root string
}

// newSysfs is the tree of an x86 machine; of bare metal, as long as no file says otherwise.
func newSysfs(t testing.TB) sysfs {
	s := sysfs{t, t.TempDir()}
	s.write("/proc/cpuinfo", "flags\t\t: fpu vme\n\n")
	for _, dir := range []string{"/sys/bus/pci/devices", "/sys/class/net", "/sys/class/infiniband"} {
		s.check(os.MkdirAll(s.path(dir), 0o755))
	}
	return s
}

func (s sysfs) path(p string) string { return filepath.Join(s.root, p) }

func (s sysfs) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// write makes a file, and the directories above it that are missing.
func (s sysfs) write(p, text string) {
	s.Helper()
	s.check(os.MkdirAll(s.path(filepath.Dir(p)), 0o755))
	s.check(os.WriteFile(s.path(p), []byte(text), 0o644))
}

// link makes a symbolic link to a path of the tree.
func (s sysfs) link(p, target string) {
	s.Helper()
	s.check(os.MkdirAll(s.path(filepath.Dir(p)), 0o755))
	relative, err := filepath.Rel(filepath.Dir(p), target)
	s.check(err)
	s.check(os.Symlink(relative, s.path(p)))
}

// function is a PCI function at a path below /sys/devices, as pci0000:00/0000:00:01.0/0000:01:00.0; id is VENDOR:DEVICE, class six digits.
// It returns its address.
func (s sysfs) function(at, id, class string) (address string) {
	s.Helper()
	address = filepath.Base(at)
	dir := "/sys/devices/" + at
	vendor, device, _ := strings.Cut(id, ":")
	for file, text := range map[string]string{"vendor": "0x" + vendor, "device": "0x" + device, "class": "0x" + class, "numa_node": "0"} {
		s.write(dir+"/"+file, text+"\n")
	}
	s.link("/sys/bus/pci/devices/"+address, dir)
	return address
}

// of makes a class device one of a PCI function.
func (s sysfs) of(address, classDevice string) {
	s.Helper()
	s.link(classDevice+"/device", "/sys/bus/pci/devices/"+address)
}

// netdev is a network device of an ARP hardware type at port 1 of a PCI function.
func (s sysfs) netdev(address, name string, hardware int) {
	s.Helper()
	for file, text := range map[string]string{"type": strconv.Itoa(hardware), "flags": "0x1003", "dev_port": "0", "mtu": "9000"} {
		s.write("/sys/class/net/"+name+"/"+file, text+"\n")
	}
	s.of(address, "/sys/class/net/"+name)
}

// port is a port of a NIC on the root bus with its network device and an active RDMA device, on Ethernet.
func (s sysfs) port(p sysfsPort) {
	s.Helper()
	s.function("pci0000:00/"+p.address, p.id, "020000")
	s.netdev(p.address, p.netdev, node.ARPHardwareEthernet)
	s.link("/sys/devices/pci0000:00/"+p.address+"/driver", "/sys/bus/pci/drivers/"+p.driver)
	s.write("/sys/class/net/"+p.netdev+"/address", p.mac+"\n")
	rdma := "/sys/class/infiniband/" + p.rdma
	for file, text := range map[string]string{
		rdma + "/ports/1/link_layer": "Ethernet", rdma + "/ports/1/state": "4: ACTIVE", rdma + "/ports/1/phys_state": "5: LinkUp",
		rdma + "/ports/1/rate": "400 Gb/sec (4X NDR)", rdma + "/ports/1/lid": "0x0", rdma + "/ports/1/sm_lid": "0x0",
	} {
		s.write(file, text+"\n")
	}
	s.of(p.address, rdma)
}

type sysfsPort struct{ address, id, driver, netdev, mac, rdma string }

// lines writes files that a case lists one a line, PATH: CONTENT, and calls each.
func (s sysfs) lines(text, prefix string, each func(p, content string)) {
	s.Helper()
	for line := range strings.Lines(text) {
		p, content, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			s.Fatalf("%q is not PATH: CONTENT", line)
		}
		s.write(prefix+p, content+"\n")
		each(prefix+p, content)
	}
}

func (s sysfs) reader() *live.Reader { return live.New(live.Options{Root: s.root, Running: true}) }

// inventory reads it. A tree has no routes, so that nothing there is protected.
func (s sysfs) inventory() node.Inventory {
	inv := s.reader().Inventory(s.Context())
	inv.Protected = node.Known([]node.ProtectedNetdev{}, node.Source{})
	return inv
}
