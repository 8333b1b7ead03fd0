package live

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"busbar/node"
)

// What netlink does not name of enum rdma_nldev_command and enum rdma_nldev_attr (include/uapi/rdma/rdma_netlink.h).
const (
	nldevResQPGet    = 10
	nldevResQP       = 19
	nldevResQPEntry  = 20
	nldevResType     = 26
	nldevResPID      = 28
	nldevResKernName = 29
)

// The types of queue pairs for management (enum ib_qp_type of include/rdma/ib_verbs.h).
const (
	qpSMI = 0
	qpGSI = 1
)

// housekeepers are modules that have queue pairs on every port whether anybody uses it or not. Other modules of the kernel
// have some for a file system, a disk or a socket.
var housekeepers = []string{"ib_core", "ib_mad", "ib_cm", "ib_ipoib", "ipoib-verbs", "mlx5_ib", "mlx4_ib", "bnxt_re", "irdma", "erdma", "hns_roce", "mana_ib"}

// queuePair is what the kernel says of one.
type queuePair struct {
	kind   byte
	pid    int    // 0: of the kernel, of a process that does not show here, or of one that has ended
	kernel string // the module; empty for those of processes
}

// rdmaUsersWithout answers where nobody can have queue pairs. Asking would load ib_core.
func rdmaUsersWithout(f files, _ string) (node.Value[node.RDMAUsage], bool) {
	source := node.Source{Path: rdmaClass}
	switch names, err := f.names(rdmaClass); {
	case absent(err), err == nil && len(names) == 0:
		return node.Known(node.RDMAUsage{}, source), true
	case err != nil:
		return unknown[node.RDMAUsage](err, rdmaClass), true
	case f.root != "":
		return node.Unknown[node.RDMAUsage](errNoAnswers.Error(), source), true
	}
	return node.Value[node.RDMAUsage]{}, false
}

// rdmaUsers asks the kernel for all queue pairs, as rdma resource show qp does (drivers/infiniband/core/nldev.c).
func (d drivers) rdmaUsers(string) node.Value[node.RDMAUsage] {
	source := node.Source{Call: "RDMA_NLDEV_CMD_RES_QP_GET"}
	devices, err := netlink.RdmaResourceList()
	if err != nil {
		return node.Unknown[node.RDMAUsage]("listing RDMA devices: "+err.Error(), source)
	}
	all := map[string]deviceUse{}
	for _, device := range devices {
		pairs, err := queuePairs(device.Index)
		if err != nil {
			return node.Unknown[node.RDMAUsage](fmt.Sprintf("listing queue pairs of %s: %s", device.Name, err), source)
		}
		all[device.Name] = deviceUse{pairs: pairs, total: device.RdmaResourceSummaryEntries["qp"]}
	}
	return node.Known(rdmaUsage(all, d.processName), source)
}

// queuePairs are those of the device with that index.
func queuePairs(device uint32) ([]queuePair, error) {
	request := nl.NewNetlinkRequest(nl.RDMA_NL_NLDEV<<10|nldevResQPGet, unix.NLM_F_ACK|unix.NLM_F_DUMP) // RDMA_NL_GET_TYPE
	request.AddData(nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(device)))
	messages, err := request.Execute(unix.NETLINK_RDMA, 0)
	if err != nil {
		return nil, err
	}
	var all []queuePair
	for _, m := range messages {
		pairs, err := decodeQueuePairs(m)
		if err != nil {
			return nil, err
		}
		all = append(all, pairs...)
	}
	return all, nil
}

// decodeQueuePairs reads one message of the dump: attributes of the device, among them the table of queue pairs.
func decodeQueuePairs(message []byte) ([]queuePair, error) {
	var all []queuePair
	err := eachAttribute(message, nldevResQP, func(table []byte) error {
		return eachAttribute(table, nldevResQPEntry, func(entry []byte) error {
			p := queuePair{kind: 0xff}
			err := attributes(entry, func(kind uint16, value []byte) error {
				switch {
				case kind == nldevResType && len(value) >= 1:
					p.kind = value[0]
				case kind == nldevResPID && len(value) >= 4:
					p.pid = int(binary.NativeEndian.Uint32(value))
				case kind == nldevResKernName:
					name, _, _ := strings.Cut(string(value), "\x00")
					p.kernel = strings.ToValidUTF8(name, "?")
				}
				return nil
			})
			if err == nil && p.kind == 0xff {
				err = errors.New("a queue pair has no type")
			}
			all = append(all, p)
			return err
		})
	})
	return all, err
}

// eachAttribute calls do with the values of attributes of that type.
func eachAttribute(b []byte, wanted uint16, do func(value []byte) error) error {
	return attributes(b, func(kind uint16, value []byte) error {
		if kind != wanted {
			return nil
		}
		return do(value)
	})
}

// attributes calls do with the type and the value of each netlink attribute (include/uapi/linux/netlink.h): its length, head
// included, and its type, two bytes each, then the value, padded to four bytes.
func attributes(b []byte, do func(kind uint16, value []byte) error) error {
	const head = 4
	for len(b) > 0 {
		if len(b) < head {
			return errors.New("an attribute is cut off")
		}
		length := int(binary.NativeEndian.Uint16(b))
		if length < head || length > len(b) {
			return errors.New("an attribute is cut off")
		}
		if err := do(binary.NativeEndian.Uint16(b[2:])&nl.NLA_TYPE_MASK, b[head:length]); err != nil {
			return err
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return nil
}

// deviceUse are the queue pairs of a device that the kernel lists, and how many it counts: some kernels do not list those
// of other PID namespaces.
type deviceUse struct {
	pairs []queuePair
	total uint64
}

// rdmaUsage is who has the queue pairs of devices; nameOf gives a process' name.
func rdmaUsage(devices map[string]deviceUse, nameOf func(pid int) string) node.RDMAUsage {
	type user struct {
		pid  int
		name string
	}
	on := map[user][]string{}
	var usage node.RDMAUsage
	for _, device := range slices.Sorted(maps.Keys(devices)) {
		use := devices[device]
		unseen := use.total > uint64(len(use.pairs))
		for _, p := range use.pairs {
			switch {
			case p.kind == qpSMI || p.kind == qpGSI || slices.Contains(housekeepers, p.kernel):
			case p.kernel == "" && p.pid == 0:
				unseen = true
			default:
				u := user{p.pid, p.kernel}
				if p.pid != 0 {
					u.name = nameOf(p.pid)
				}
				if list := on[u]; !slices.Contains(list, device) {
					on[u] = append(list, device)
				}
			}
		}
		if unseen {
			usage.Unseen = append(usage.Unseen, device)
		}
	}
	for u, devices := range on {
		usage.Users = append(usage.Users, node.RDMAUser{PID: u.pid, Name: u.name, Devices: devices})
	}
	slices.SortFunc(usage.Users, func(a, b node.RDMAUser) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Name, b.Name)) })
	return usage
}
