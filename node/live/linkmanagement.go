package live

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/ifupdown"
	"busbar/internal/linkconf"
	"busbar/node"
)

// linkManagement reads who sets up a port's network device. It asks no driver: the device is found by its links in sysfs, and
// what udev matches stands in its database.
func (s *session) linkManagement(key string) node.Value[node.LinkManagementState] {
	if v, answered := nicWithout[node.LinkManagementState](s.files, key); answered {
		return v
	}
	netdev, err := s.portNetdevOf(key)
	if err != nil {
		return unknown[node.LinkManagementState](err, netClass)
	}
	address, number, _ := node.ParseNIC(key)
	p := port{address: address, number: number, netdev: netdev}
	if netdev == "" {
		return node.Unknown[node.LinkManagementState](s.noNetdev(p))
	}
	state := node.LinkManagementState{Netdev: netdev}
	managers, index, err := s.linkManagers(netdev)
	if err != nil {
		return unknown[node.LinkManagementState](err, p.class())
	}
	state.Managers, state.Udev = managers, s.udevLink(netdev, index)
	if bond := s.linkBase(p.class() + "/master"); bond != "" && s.exists(netClass+"/"+bond+"/bonding") {
		state.Bond = bond
		if state.BondManagers, _, err = s.linkManagers(bond); err != nil {
			return unknown[node.LinkManagementState](err, netClass+"/"+bond)
		}
	}
	if s.renamed(p) {
		return node.Unknown[node.LinkManagementState](errRenamed.Error(), node.Source{Path: p.class()})
	}
	return node.Known(state, node.Source{Path: p.class()})
}

// portNetdevOf is the network device of a port, empty without one. Of several at the port, the representors of an
// embedded switch among them, the inventory knows the right one, since the drivers were asked for it.
func (s *session) portNetdevOf(key string) (string, error) {
	address, number, _ := node.ParseNIC(key)
	names, err := s.netdevsOf(address, number)
	if err != nil || len(names) == 0 {
		return "", err
	}
	if len(names) == 1 {
		return names[0], nil
	}
	n, _ := s.inventory.PortOf(key)
	if name, ok := n.Netdev.Get(); ok && slices.Contains(names, name) {
		return name, nil
	}
	return "", refusal("the port has several network devices: " + strings.Join(names, ", "))
}

// linkManagers are those who have set a network device up, and its index.
func (s *session) linkManagers(netdev string) ([]node.LinkManager, int, error) {
	index, err := s.number(netClass + "/" + netdev + "/ifindex")
	if err != nil {
		return nil, 0, fmt.Errorf("the index of %s: %s", netdev, reason(err))
	}
	var managers []node.LinkManager
	for _, read := range []func(string, int) (node.LinkManager, error){s.networkd, s.networkManager, s.ifupdown} {
		m, err := read(netdev, index)
		switch {
		case absent(err): // it does not run, or has not seen the device
		case err != nil:
			return nil, 0, err
		case m.Name != "":
			managers = append(managers, m)
		}
	}
	return managers, index, nil
}

// stateFile reads a note of a manager's below /run; the error names it.
func (s *session) stateFile(p string) (confdir.File, error) {
	text, err := s.read(p)
	if err != nil && !absent(err) {
		err = fmt.Errorf("%s: %s", p, reason(err))
	}
	return confdir.File{Path: p, Text: text}, err
}

// networkd reads what systemd-networkd has noted (link_save in src/network/networkd-state-file.c). The file that it names is read
// as it is now, with its drop-ins, as networkd will when it is started or reloaded.
func (s *session) networkd(_ string, index int) (node.LinkManager, error) {
	note, err := s.stateFile("/run/systemd/netif/links/" + strconv.Itoa(index))
	if err != nil {
		return node.LinkManager{}, err
	}
	values := linkconf.ParseEnvironment(note)
	file := values["NETWORK_FILE"].Value
	if !path.IsAbs(file) || values["ADMIN_STATE"].Value == "unmanaged" {
		return node.LinkManager{}, nil
	}
	m := node.LinkManager{Name: node.ManagerNetworkd, File: path.Clean(file)}
	m.Netplan = s.netplan(m.File)
	var settings []linkconf.Setting
	if slices.Contains(linkconf.NetworkDirs, path.Dir(m.File)) {
		settings, err = s.systemdFile(m.File)
	} else {
		err = refusal("is in no directory of networkd's")
	}
	if err != nil {
		m.MTU = unknown[int](err, m.File)
		return m, nil
	}
	mtu := linkconf.LinkMTU(settings)
	if mtu.Bytes == 0 && linkconf.TakesDHCPMTU(settings) {
		if mtu, err = s.leaseMTU(index); err != nil {
			m.MTU = node.Unknown[int]("UseMTU= takes it from DHCP: "+err.Error(), node.Source{Path: m.File})
			return m, nil
		}
	}
	m.MTU = said(mtu, m.File)
	return m, nil
}

// leaseMTU is the MTU of networkd's DHCP lease (dhcp_lease_save in src/libsystemd-network/sd-dhcp-lease.c).
func (s *session) leaseMTU(index int) (linkconf.MTU, error) {
	lease, err := s.stateFile("/run/systemd/netif/leases/" + strconv.Itoa(index))
	if absent(err) {
		return linkconf.MTU{}, nil
	}
	if err != nil {
		return linkconf.MTU{}, err
	}
	mtu, given := linkconf.ParseEnvironment(lease)["MTU"]
	n, err := strconv.ParseUint(mtu.Value, 10, 16)
	if !given || err != nil {
		return linkconf.MTU{}, nil
	}
	return linkconf.MTU{Bytes: int(n), Path: lease.Path, Line: mtu.Line}, nil
}

// said makes the fact of an MTU; one that nothing says is known too, of the file that could have.
func said(mtu linkconf.MTU, file string) node.Value[int] {
	if mtu.Bytes == 0 {
		return node.Known(0, node.Source{Path: file})
	}
	return node.Known(mtu.Bytes, node.Source{Path: mtu.Path, Line: mtu.Line})
}

// systemdFile reads a .network or .link file with its drop-ins, which stand in NAME.d of each directory.
func (s *session) systemdFile(p string) ([]linkconf.Setting, error) {
	file, err := s.fragment(p)
	if file.Reason != "" {
		return nil, err
	}
	var dirs []string
	for _, dir := range linkconf.NetworkDirs {
		dirs = append(dirs, dir+"/"+path.Base(p)+".d")
	}
	dropIns, err := s.fragments(dirs, ".conf")
	if err != nil {
		return nil, err
	}
	settings := linkconf.ParseSystemd(file)
	for _, d := range confdir.Merge(dropIns, dirs) {
		if d.Reason != "" {
			return nil, refusal(d.Path + ": " + d.Reason)
		}
		settings = append(settings, linkconf.ParseSystemd(d)...)
	}
	return settings, nil
}

// netplan is where the YAML stands that netplan made a file of; without a path for another file.
func (s *session) netplan(file string) node.Source {
	id, made := linkconf.NetplanID(file)
	if !made {
		return node.Source{}
	}
	p, line := linkconf.NetplanSource(s.netplanFiles(), id)
	return node.Source{Path: cmp.Or(p, linkconf.NetplanDirs[1]), Line: line}
}

func (s *session) readNetplanFiles() []confdir.File {
	// What cannot be read is not found there, and the directory is named.
	list, _ := s.fragments(linkconf.NetplanDirs, ".yaml")
	return confdir.Merge(list, linkconf.NetplanDirs)
}

// udevLink is what the .link files give a network device as it is added.
func (s *session) udevLink(netdev string, index int) node.LinkManager {
	m := node.LinkManager{Name: node.ManagerUdev}
	files, err := s.linkFiles()
	if err != nil {
		m.MTU = unknown[int](err, linkconf.NetworkDirs[0])
		return m
	}
	decides, mtu, doubt := linkconf.Applied(files, s.linkDevice(netdev, index))
	m.File = decides.Path
	m.Netplan = s.netplan(m.File)
	m.MTU = said(mtu, cmp.Or(m.File, linkconf.NetworkDirs[0]))
	if doubt != "" {
		m.MTU = node.Unknown[int](doubt, node.Source{Path: linkconf.NetworkDirs[0]})
	}
	return m
}

func (s *session) readLinkFiles() ([]linkconf.LinkFile, error) {
	list, err := s.fragments(linkconf.NetworkDirs, ".link")
	if err != nil {
		return nil, err
	}
	var files []linkconf.LinkFile
	for _, f := range confdir.Merge(list, linkconf.NetworkDirs) {
		if f.Text == "" && f.Reason == "" {
			continue // masked, its drop-ins too (link_load_one in src/udev/net/link-config.c)
		}
		settings, err := s.systemdFile(f.Path)
		file := linkconf.LinkFile{Path: f.Path, Settings: settings}
		if err != nil {
			file.Reason = reason(err)
		}
		files = append(files, file)
	}
	return files, nil
}

// netNameRenamed is NET_NAME_RENAMED (include/uapi/linux/netdevice.h).
const netNameRenamed = 4

// linkDevice is a network device as .link files match it. What its driver says is in udev's database, where
// builtins net_id, path_id and net_setup_link have put it (src/udev/udev-builtin-*.c); lines are E:KEY=VALUE.
func (s *session) linkDevice(netdev string, index int) linkconf.Device {
	d := linkconf.Device{Name: netdev}
	assigned, err := s.number(netClass + "/" + netdev + "/name_assign_type")
	d.Renamed = err != nil || assigned == netNameRenamed
	switch kind, err := s.number(netClass + "/" + netdev + "/type"); {
	case err != nil:
	case kind == node.ARPHardwareEthernet:
		d.Type = "ether"
	case kind == node.ARPHardwareInfiniBand:
		d.Type = "infiniband"
	}
	database, _ := s.read("/run/udev/data/n" + strconv.Itoa(index))
	for line := range strings.Lines(database) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "E:ID_PATH":
			d.Path = value
		case "E:ID_NET_DRIVER":
			d.Driver = value
		case "E:ID_NET_NAME_MAC": // enxXXXXXXXXXXXX, of the permanent address
			if _, digits, found := strings.Cut(value, "x"); found && len(digits) == 12 {
				d.MAC = digits
			}
		}
	}
	return d
}

// The directories of NetworkManager's connections: those of key files, the first one wins, and that of ifcfg files
// (src/core/settings/plugins/keyfile/nms-keyfile-utils.h).
var (
	keyFileDirs = []string{"/run/NetworkManager/system-connections", "/etc/NetworkManager/system-connections", "/usr/lib/NetworkManager/system-connections"}
	ifcfgDir    = "/etc/sysconfig/network-scripts"
)

// connection is a connection's file.
type connection struct {
	linkconf.Connection
	path string
	// reason says why the file could not be read.
	reason string
}

// readConnections reads the connections in the order of their priority.
func (s *session) readConnections() ([]connection, error) {
	var list []connection
	add := func(dir string, parse func(confdir.File) linkconf.Connection, is func(name string) bool) error {
		files, err := s.fragments([]string{dir}, "")
		for _, f := range files {
			if is(path.Base(f.Path)) {
				list = append(list, connection{parse(f), f.Path, f.Reason})
			}
		}
		return err
	}
	var errs []error
	for _, dir := range keyFileDirs {
		errs = append(errs, add(dir, linkconf.ParseConnection, func(name string) bool {
			// Only /etc has key files without the extension (nm_keyfile_utils_ignore_filename in src/libnm-core-impl/nm-keyfile.c).
			return strings.HasSuffix(name, ".nmconnection") || strings.HasPrefix(dir, "/etc/") && !strings.HasSuffix(name, "~") && !strings.HasSuffix(name, ".nmmeta")
		}))
	}
	errs = append(errs, add(ifcfgDir, linkconf.ParseIfcfg, func(name string) bool {
		return strings.HasPrefix(name, "ifcfg-") && !strings.HasSuffix(name, "~") && !strings.Contains(name, ".rpm")
	}))
	return list, errors.Join(errs...)
}

// networkManager reads what NetworkManager has noted.
func (s *session) networkManager(netdev string, index int) (node.LinkManager, error) {
	note, err := s.stateFile("/run/NetworkManager/devices/" + strconv.Itoa(index))
	if err != nil {
		return node.LinkManager{}, err
	}
	state := linkconf.ParseState(note)
	if !state.Managed {
		return node.LinkManager{}, nil
	}
	m := node.LinkManager{Name: node.ManagerNetworkManager}
	if state.Connection == "" {
		m.MTU = node.Known(0, node.Source{Path: note.Path}) // no connection is active
		return m, nil
	}
	c, err := s.connection(state.Connection, netdev)
	m.File, m.Netplan = c.path, s.netplan(c.path)
	switch {
	case err != nil:
		m.MTU = node.Unknown[int](err.Error(), node.Source{Path: cmp.Or(c.path, note.Path)})
		return m, nil
	case c.Generated:
		m.MTU = node.Known(0, node.Source{Path: c.path})
		return m, nil
	}
	mtu := c.MTU
	if mtu.Bytes == 0 {
		if mtu, err = s.defaultMTU(c.Type); err != nil {
			m.MTU = node.Unknown[int]("the default of NetworkManager's configuration: "+err.Error(), node.Source{Path: c.path})
			return m, nil
		}
	}
	m.MTU = said(mtu, c.path)
	return m, nil
}

// connection finds the file of a connection by its UUID. One without, whose UUID NetworkManager makes of the file's name, is found by the
// device that it names.
func (s *session) connection(uuid, netdev string) (connection, error) {
	list, err := s.connections()
	if err != nil {
		return connection{}, err
	}
	named := slices.IndexFunc(list, func(c connection) bool { return c.UUID == uuid })
	if named < 0 {
		named = slices.IndexFunc(list, func(c connection) bool { return c.reason == "" && c.UUID == "" && c.Device == netdev })
	}
	if named < 0 {
		for _, c := range list {
			if c.reason != "" {
				return connection{}, fmt.Errorf("no file has connection %s, and %s: %s", uuid, c.path, c.reason)
			}
		}
		return connection{}, fmt.Errorf("no file has connection %s", uuid)
	}
	c := list[named]
	for _, other := range list[named+1:] {
		if other.UUID == uuid && uuid != "" && path.Dir(other.path) == path.Dir(c.path) && other.MTU.Bytes != c.MTU.Bytes {
			return c, fmt.Errorf("%s has connection %s too, with another MTU", other.path, uuid)
		}
	}
	return c, c.Err
}

// defaultMTU is the MTU of NetworkManager's configuration for connections that say none. Files are read in the order
// of NetworkManager.conf(5): conf.d of /usr/lib and /run, NetworkManager.conf, conf.d of /etc; one hides its namesakes in the directories before.
func (s *session) defaultMTU(connectionType string) (linkconf.MTU, error) {
	const etc, name = "/etc/NetworkManager", "NetworkManager.conf"
	dirs := []string{etc + "/conf.d", "/run/NetworkManager/conf.d", "/usr/lib/NetworkManager/conf.d"}
	list, err := s.fragments(dirs, ".conf")
	if err != nil {
		return linkconf.MTU{}, err
	}
	merged := confdir.Merge(list, dirs)
	of := func(dir string) []confdir.File {
		return slices.DeleteFunc(slices.Clone(merged), func(f confdir.File) bool { return path.Dir(f.Path) != dir })
	}
	return linkconf.DefaultMTU(slices.Concat(of(dirs[2]), of(dirs[1]), s.present(etc+"/"+name), of(dirs[0])), connectionType)
}

// ifupdown reads what ifup has noted (update_state in main.c of ifupdown 0.8), and the configuration.
func (s *session) ifupdown(netdev string, _ int) (node.LinkManager, error) {
	note, err := s.stateFile("/run/network/ifstate")
	if err != nil {
		return node.LinkManager{}, err
	}
	logical, up := ifupdown.State(note.Text, netdev)
	if !up {
		return node.LinkManager{}, nil
	}
	m := node.LinkManager{Name: node.ManagerIfupdown, File: ifupdown.InterfacesPath}
	config, err := ifupdown.Load(interfacesTree{s.files})
	if err != nil {
		m.MTU = unknown[int](err, m.File)
		return m, nil
	}
	for _, i := range config.Interfaces {
		if i.Name == logical {
			m.File = i.Path
			break
		}
	}
	mtu, at, err := config.MTU(logical)
	switch {
	case err != nil:
		m.MTU = node.Unknown[int](err.Error(), node.Source{Path: at.Path, Line: at.Line})
	case mtu == 0 && len(config.Unread) > 0:
		m.MTU = node.Unknown[int](config.Unread[0], node.Source{Path: m.File})
	default:
		m.MTU = said(linkconf.MTU{Bytes: mtu, Path: at.Path, Line: at.Line}, m.File)
	}
	return m, nil
}

// interfacesTree is where ifupdown's files are.
type interfacesTree struct{ files }

// Read implements ifupdown.Tree.
func (t interfacesTree) Read(p string) (string, error) {
	if inAny(p, kernelDirs...) {
		return "", refusal("is no file of the administrator's")
	}
	text, err := t.read(p)
	if err != nil {
		err = refusal(reason(err))
	}
	return text, err
}

// List implements ifupdown.Tree.
func (t interfacesTree) List(dir string) ([]string, error) { return t.names(dir) }

// maxMatches bounds what a pattern can match.
const maxMatches = 1000

// Glob implements ifupdown.Tree. It looks into no directory of the kernel's.
func (t interfacesTree) Glob(pattern string) []string {
	matches := []string{"/"}
	for element := range strings.SplitSeq(strings.Trim(path.Clean(pattern), "/"), "/") {
		var next []string
		for _, dir := range matches {
			next = append(next, t.matching(dir, element)...)
		}
		matches = next[:min(len(next), maxMatches)]
	}
	return slices.DeleteFunc(matches, func(p string) bool { return !t.exists(p) })
}

// matching are the paths in a directory that an element of a pattern names.
func (t interfacesTree) matching(dir, element string) []string {
	names := []string{element}
	if strings.ContainsAny(element, `*?[`) {
		all, _ := t.names(dir)
		names = slices.DeleteFunc(all, func(name string) bool {
			ok, _ := path.Match(element, name)
			return !ok || strings.HasPrefix(name, ".")
		})
	}
	var matches []string
	for _, name := range names {
		if p := path.Join(dir, name); !inAny(p, kernelDirs...) {
			matches = append(matches, p)
		}
	}
	return matches
}
