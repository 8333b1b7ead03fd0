package ncclconf

import "strings"

// How many items of a list NCCL keeps.
const (
	maxHCAs       = 32 // MAX_IB_DEVS, src/transport/net_ib/common.h
	maxInterfaces = 16 // MAX_IFS, src/include/socket.h
)

// Item is one name of a List. Port counts from 1; Port, Rail and Plane are -1
// where they are not given. Text after a colon which is no number reads as 0.
type Item struct {
	Name              string
	Port, Rail, Plane int
}

// List is a list of HCAs or network interfaces, [^][=]NAME[:PORT[:RAIL[:PLANE]]],...
// as parseStringList and its callers read it (src/misc/utils.cc,
// src/transport/net_ib/init.cc, src/os/linux.cc). '^' and '=' count at the very
// beginning only, and in this order; later ones are part of a name.
type List struct {
	// Exclude (^): the devices named are left out and all others taken.
	Exclude bool
	// Exact (=): names must be equal. Without it an item is a prefix, so that
	// mlx5_1 also takes mlx5_10.
	Exact bool
	Items []Item
	// Dropped counts the items beyond the most that NCCL keeps.
	Dropped int
}

// HCAList reads the value of NCCL_IB_HCA.
func HCAList(value string) List { return parseList(value, maxHCAs) }

// IfnameList reads the value of NCCL_SOCKET_IFNAME. NCCL takes a value of one
// byte as unset.
func IfnameList(value string) List {
	if len(value) <= 1 {
		return List{}
	}
	return parseList(value, maxInterfaces)
}

func parseList(value string, most int) List {
	var l List
	value, l.Exclude = strings.CutPrefix(value, "^")
	value, l.Exact = strings.CutPrefix(value, "=")
	for token := range strings.SplitSeq(value, ",") {
		fields := strings.SplitN(token, ":", 5)
		if fields[0] == "" {
			continue
		}
		if len(l.Items) == most {
			l.Dropped++
			continue
		}
		item := Item{Name: fields[0], Port: -1, Rail: -1, Plane: -1}
		for i, n := range []*int{&item.Port, &item.Rail, &item.Plane} {
			if len(fields) > i+1 && fields[i+1] != "" {
				*n = atoi(fields[i+1])
			}
		}
		l.Items = append(l.Items, item)
	}
	return l
}

// atoi is atoi(3): junk reads as 0.
func atoi(s string) int {
	s = strings.TrimLeft(s, blanks)
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	n := 0
	for i := 0; i < len(s) && s[i] >= '0' && s[i] <= '9' && n < 1<<24; i++ {
		n = n*10 + int(s[i]-'0')
	}
	if negative {
		return -n
	}
	return n
}

// matches says whether one item takes the device of that name; exact is the
// list's.
func (i Item) matches(name string, exact bool) bool {
	if exact {
		return name == i.Name
	}
	return strings.HasPrefix(name, i.Name)
}

// Selects says whether NCCL takes a device. port counts from 1; with -1 the
// ports that items name are not looked at, as NCCL does for interfaces. A list
// without items takes every device, with '^' none.
func (l List) Selects(name string, port int) bool {
	matched := len(l.Items) == 0
	for _, i := range l.Items {
		if i.matches(name, l.Exact) && (port == -1 || i.Port == -1 || i.Port == port) {
			matched = true
		}
	}
	return matched != l.Exclude
}

// Match gives those of devices that NCCL takes, ports not looked at, in the order
// of devices.
func (l List) Match(devices []string) []string {
	var taken []string
	for _, d := range devices {
		if l.Selects(d, -1) {
			taken = append(taken, d)
		}
	}
	return taken
}
