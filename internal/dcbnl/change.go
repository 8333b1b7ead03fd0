package dcbnl

import (
	"errors"
	"fmt"
	"slices"
)

// Message is one change of a network device. Each has one attribute only, so that a refusal
// says what was refused: the kernel stops at the first one and takes nothing back.
type Message struct {
	command uint8
	kind    uint16 // the attribute that answers
	of      uint16 // the attribute of the IEEE nest
	content []byte // attributes behind the name
	text    string
}

// String says what is changed, as an imperative: "map dscp 26 to priority 3".
func (m Message) String() string { return m.text }

func ieeeMessage(command uint8, of uint16, content []byte, text string) Message {
	return Message{
		command: command, kind: attrIEEE, of: of, text: text,
		content: appendAttribute(nil, attrIEEE|flagNested, content),
	}
}

// SetPFC sets what p says. On mlx5_core and ice the link goes down and comes back when the
// enabled priorities change; on mlx5_core a delay of 0 keeps the one that is set.
func SetPFC(p PFC) Message {
	text := fmt.Sprintf("enable PFC on priorities %s", p.Enabled)
	if p.Enabled == 0 {
		text = "disable PFC on all priorities"
	}
	return ieeeMessage(cmdIEEESet, ieeePFC, appendAttribute(nil, ieeePFC, encodePFC(p)), fmt.Sprintf("%s with delay %d", text, p.Delay))
}

// SetETS sets what e says.
func SetETS(e ETS) Message {
	return ieeeMessage(cmdIEEESet, ieeeETS, appendAttribute(nil, ieeeETS, encodeETS(e)),
		fmt.Sprintf("set the classes of priorities 0 to 7 to %d, their algorithms to %v and shares to %d", e.PriorityClass, e.Algorithms, e.TxBandwidth))
}

// AddApp adds an entry to the APP table. The first one with selector DSCP makes mlx5_core and ice
// trust DSCPs; mlx5_core replaces the entry of the same DSCP.
func AddApp(a App) Message {
	return ieeeMessage(cmdIEEESet, ieeeAppTable, appendAttribute(nil, ieeeAppTable|flagNested, encodeApp(a)), "map "+a.String())
}

// DeleteApp deletes exactly this entry. Without any of selector DSCP mlx5_core and ice trust PCPs; mlx5_core
// maps a deleted DSCP to priority 0, ice to the DSCP modulo 8.
func DeleteApp(a App) Message {
	return ieeeMessage(cmdIEEEDelete, ieeeAppTable, appendAttribute(nil, ieeeAppTable|flagNested, encodeApp(a)), "no longer map "+a.String())
}

// SetBuffer sets the receive buffers. mlx5_core does not derive them from the MTU and PFC any more
// after that.
func SetBuffer(f Buffer) Message {
	return ieeeMessage(cmdIEEESet, ieeeBuffer, appendAttribute(nil, ieeeBuffer, encodeBuffer(f)),
		fmt.Sprintf("set the receive buffers to %d bytes and those of priorities 0 to 7 to %d", f.Sizes, f.PriorityBuffer))
}

// SetMaxRate limits the traffic classes.
func SetMaxRate(m MaxRate) Message {
	return ieeeMessage(cmdIEEESet, ieeeMaxRate, appendAttribute(nil, ieeeMaxRate, encodeMaxRate(m)), fmt.Sprintf("limit the traffic classes to %d kbit/s", m))
}

// SetTrustOrder sets which selectors are trusted.
func SetTrustOrder(order TrustOrder) Message {
	return ieeeMessage(cmdIEEESet, ieeeTrustTable, appendAttribute(nil, ieeeTrustTable|flagNested, encodeTrustOrder(order)),
		fmt.Sprintf("trust %v", order))
}

// SetDCBX sets who negotiates. mlx5_core takes 0 for its firmware, and any bits with DCBXHost for
// the host; ice refuses the mode that is set already.
func SetDCBX(d DCBX) Message {
	return Message{command: cmdSetDCBX, kind: attrDCBX, content: appendAttribute(nil, attrDCBX, []byte{byte(d)}), text: "set DCBX to " + d.String()}
}

// RefusedError is a change that was not made: the kernel or the driver refused it.
type RefusedError struct {
	Netdev  string
	Message Message
	// Errno of the answer; 0 for DCBX, which the driver refuses without one.
	Errno KernelError
}

// Error says what was refused, why, and what that usually means.
func (r *RefusedError) Error() string {
	text := fmt.Sprintf("%s: %s: refused", r.Netdev, r.Message)
	if r.Errno != 0 {
		text += ": " + r.Errno.Error()
	}
	if meaning := r.meaning(); meaning != "" {
		text += " (" + meaning + ")"
	}
	return text
}

// Unwrap gives the Errno.
func (r *RefusedError) Unwrap() error {
	if r.Errno == 0 {
		return nil
	}
	return r.Errno
}

// meaning is what a refusal says about the node, from the sources of the kernel and of drivers.
func (r *RefusedError) meaning() string {
	const owner = "firmware or an LLDP agent may own DCBX: bnxt_en and ice need it to be host and ieee, and ice no bond"
	m := r.Message
	switch r.Errno {
	case 0:
		return "the driver refuses this mode; firmware may own DCBX: see LLDP_NB_DCBX of mlx5, NVRAM of bnxt_en, fw-lldp-agent of ice"
	case EPERM:
		return "this needs CAP_NET_ADMIN outside of user namespaces"
	case ENODEV:
		return "it was renamed or removed meanwhile"
	case EOPNOTSUPP:
		return "the driver or the device has no such operation"
	case EEXIST:
		return "somebody else added it meanwhile"
	case ENOENT:
		return "somebody else deleted or changed it meanwhile"
	}
	switch {
	case r.Errno == EINVAL && m.of == ieeeETS:
		return "the shares of classes with algorithm ets must add up to 100; or " + owner
	case r.Errno == EINVAL && m.of == ieeeAppTable:
		return "a DSCP is at most 63 and a priority one that the device has, ice takes no second priority for a DSCP; or " + owner
	case r.Errno == EINVAL && m.of == ieeeBuffer:
		return "a buffer with PFC must hold the frames that arrive after a pause, and all together no more than there is"
	case r.Errno == EINVAL:
		return owner
	case r.Errno == ENOMEM && m.of == ieeeAppTable:
		return "bnxt_en means that its firmware maps no DSCPs: the kernel's ENOTSUPP, 524, does not fit into the byte that answers"
	default:
		return ""
	}
}

// Send makes one change. An error that the driver or the kernel answered is a *RefusedError. No error does not
// mean that something was changed: the kernel acknowledges attributes that it does not know, and those for
// which the driver has no operation. Whoever sends must read back.
func Send(c Conn, netdev string, m Message) error {
	payload, err := c.Exchange(SetDCB, request(m.command, netdev, m.content))
	var errno KernelError
	switch {
	case errors.As(err, &errno):
		return &RefusedError{Netdev: netdev, Message: m, Errno: errno}
	case err != nil:
		return fmt.Errorf("%s: %s: %w", netdev, m, err)
	}
	answer, err := status(payload, m.kind)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", netdev, m, err)
	}
	switch result := int8(answer); {
	case m.kind == attrDCBX && answer != 0:
		return &RefusedError{Netdev: netdev, Message: m}
	case m.kind == attrIEEE && result < 0:
		return &RefusedError{Netdev: netdev, Message: m, Errno: KernelError(-int16(result))}
	default:
		// ice answers an entry that it took with 1 or 2 where the hardware needed no reset.
		return nil
	}
}

// Changes is what makes the enabled priorities be want; delay 0 keeps the delay.
func (p PFC) Changes(want Priorities, delay uint16) []Message {
	if delay == 0 {
		delay = p.Delay
	}
	if p.Enabled == want && p.Delay == delay {
		return nil
	}
	p.Enabled, p.Delay = want, delay
	return []Message{SetPFC(p)}
}

// Changes is what makes the classes of priorities, the algorithms and the shares of classes with
// algorithm ets be those of want. All else stays.
func (e ETS) Changes(want ETS) []Message {
	shares := func(e ETS) [8]uint8 {
		for class, algorithm := range e.Algorithms {
			if algorithm != Weighted {
				e.TxBandwidth[class] = 0
			}
		}
		return e.TxBandwidth
	}
	if e.PriorityClass == want.PriorityClass && e.Algorithms == want.Algorithms && shares(e) == shares(want) {
		return nil
	}
	e.PriorityClass, e.Algorithms, e.TxBandwidth = want.PriorityClass, want.Algorithms, shares(want)
	return []Message{SetETS(e)}
}

// AppChanges is what makes an APP table be want, which has one entry for each selector and
// protocol. Driver is the name of the kernel's driver.
//
// Where a DSCP has another priority, that entry is deleted before the wanted one is added: ice refuses a
// second one, and bnxt_en would forget the DSCP when the old one is deleted last. mlx5_core
// replaces it, and is spared the moment in which the DSCP has priority 0. Mappings of other protocols are
// added first and deleted last, so that the table is not empty in between and the trust does not flip.
func AppChanges(have, want []App, driver string) []Message {
	var first, moved, last []Message
	have, want = slices.SortedFunc(slices.Values(have), CompareApps), slices.SortedFunc(slices.Values(want), CompareApps)
	same := func(a App) func(App) bool {
		return func(b App) bool { return a.Selector == b.Selector && a.Protocol == b.Protocol }
	}
	for _, a := range want {
		var old []Message
		for _, b := range have {
			if same(a)(b) {
				old = append(old, DeleteApp(b))
			}
		}
		there := slices.Contains(have, a)
		switch {
		case len(old) == 0:
			first = append(first, AddApp(a))
		case there && len(old) == 1:
		case replacesApps(driver) && !there:
			moved = append(moved, AddApp(a))
		default:
			moved = append(append(moved, old...), AddApp(a))
		}
	}
	for _, b := range have {
		if !slices.ContainsFunc(want, same(b)) {
			last = append(last, DeleteApp(b))
		}
	}
	return slices.Concat(first, moved, last)
}

// replacesApps: adding an entry deletes the one of the same DSCP (mlx5e_dcbnl_ieee_setapp).
func replacesApps(driver string) bool { return driver == "mlx5_core" }

// Changes is what makes DCBX be want.
func (d DCBX) Changes(want DCBX) []Message {
	if d == want {
		return nil
	}
	return []Message{SetDCBX(want)}
}

// Changes is what makes sizes and buffers of priorities be those of want.
func (f Buffer) Changes(want Buffer) []Message {
	want.Total = f.Total
	if f == want {
		return nil
	}
	return []Message{SetBuffer(want)}
}

// Changes is what makes the limits be want.
func (m MaxRate) Changes(want MaxRate) []Message {
	if m == want {
		return nil
	}
	return []Message{SetMaxRate(want)}
}

// Changes is what makes the order be want.
func (t TrustOrder) Changes(want TrustOrder) []Message {
	if slices.Equal(t, want) {
		return nil
	}
	return []Message{SetTrustOrder(want)}
}
