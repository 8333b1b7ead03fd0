package nicport

import (
	"fmt"
	"path"
	"strings"

	"busbar/node"
	"busbar/plan"
)

// MTU judges the MTU of a port, and sets it where the port has its own. What the files of others say of it is a finding of its
// own, for what they set when they set the network device up again.
func (a *Assessor) MTU(p Port, want int) {
	managed := node.LinkManagement.Get(a.Facts, p.NICPort.NIC)
	management, _ := managed.Get()
	netdev, _ := p.Netdev.Get()
	if bond := a.Facts.Inventory.BondOf(netdev); bond != "" {
		a.Skip(p, "mtu", "its MTU is that of "+bond+", which it is a port of"+bondMTU(management))
		return
	}
	v := node.Link.Get(a.Facts, p.NICPort.NIC)
	link, ok := v.Get()
	mtu, known := link.MTU.Get()
	switch {
	case !ok:
		Unread(a, p, "mtu", "", "the MTU", "", v)
	case !known:
		Unread(a, p, "mtu", "", "the MTU", "", link.MTU)
	default:
		a.runningMTU(p, link.MTU.Source(), mtu, want, management)
	}
	a.fileMTU(p, want, managed)
}

func (a *Assessor) runningMTU(p Port, source node.Source, mtu, want int, management node.LinkManagementState) {
	f := plan.Finding{
		ID: a.ID("mtu"), Want: fmt.Sprint(want), Found: fmt.Sprint(mtu), Running: fmt.Sprint(mtu), Source: source, Effect: plan.LinkBounce,
		Summary: fmt.Sprintf("the MTU of %s is %d", p.Name, mtu),
	}
	if mtu != want {
		f.Status, f.Summary = plan.Drift, fmt.Sprintf("the MTU of %s is %d, wanted is %d", p.Name, mtu, want)
		if names := managerNames(management.Managers); names != "" {
			f.Summary += "; " + names + " set" + thirdPerson(management.Managers) + " it up"
		}
	}
	set := plan.SetLink{NICPort: p.NICPort, MTU: want}
	a.Judge(p, f, &Step{Action: set, Phase: plan.PhaseLink, Summary: set.Summary(), Bounces: true})
}

// fileMTU judges the MTU that the files of managers and of udev say. Where they say none, nobody undoes what busbar sets.
func (a *Assessor) fileMTU(p Port, want int, v node.Value[node.LinkManagementState]) {
	const what = "mtu_file"
	management, ok := v.Get()
	if !ok {
		Unread(a, p, what, "", "the manager", "", v)
		return
	}
	by, says := management.Decides()
	mtu, known := by.MTU.Get()
	f := plan.Finding{ID: a.ID(what), Want: fmt.Sprint(want), Found: fmt.Sprint(mtu), Source: by.MTU.Source()}
	switch {
	case !says:
		f.Found, f.Source = "none", v.Source()
		f.Summary = fmt.Sprintf("%s, and no file says an MTU: busbar.service sets it at each boot", setUp(p, management.Managers))
	case !known:
		Unread(a, p, what, "", "the MTU that "+by.Name+" gives the network device", "", by.MTU)
		return
	case mtu == want:
		f.Summary = fmt.Sprintf("%s gives %s an MTU of %d", by.Name, p.Name, mtu)
	default:
		f.Status = plan.Conflict
		f.Summary = fmt.Sprintf("%s gives %s an MTU of %d (%s), wanted is %d", by.Name, p.Name, mtu, by.MTU.Source(), want)
		f.Why = "what busbar sets lasts until " + by.Name + " sets the network device up again"
		f.Fix = mtuFix(by, p, want)
	}
	a.Judge(p, f, nil)
}

// mtuFix says what to write, and where, that a manager gives a port the MTU that is wanted.
func mtuFix(by node.LinkManager, p Port, want int) string {
	if by.Netplan.Path != "" {
		return fmt.Sprintf("write mtu: %d into %s, of which netplan makes %s", want, by.Netplan, by.File)
	}
	said := by.MTU.Source()
	switch by.Name {
	case node.ManagerNetworkd, node.ManagerUdev:
		file := by.File
		if path.Dir(said.Path) == "/etc/systemd/network/"+path.Base(by.File)+".d" {
			file = said.Path
		}
		if !strings.HasPrefix(file, "/etc/") {
			file = "/etc/systemd/network/" + path.Base(by.File) + ".d/mtu.conf"
		}
		return fmt.Sprintf("write MTUBytes=%d into section [Link] of %s", want, file)
	case node.ManagerNetworkManager:
		if strings.HasPrefix(path.Base(by.File), "ifcfg-") {
			return fmt.Sprintf("write MTU=%d into %s", want, by.File)
		}
		section := "ethernet"
		if layer, _ := p.LinkLayer.Get(); layer == "InfiniBand" {
			section = "infiniband"
		}
		return fmt.Sprintf("write mtu=%d into section [%s] of %s", want, section, by.File)
	default:
		return fmt.Sprintf("write mtu %d into the stanza iface at %s", want, said)
	}
}

// bondMTU says what is known of the MTU of a bond.
func bondMTU(s node.LinkManagementState) string {
	for _, by := range s.BondManagers {
		if mtu, known := by.MTU.Get(); known && mtu > 0 {
			return fmt.Sprintf("; %s gives that an MTU of %d (%s)", by.Name, mtu, by.MTU.Source())
		}
	}
	if len(s.BondManagers) > 0 {
		return fmt.Sprintf("; %s set%s that up", managerNames(s.BondManagers), thirdPerson(s.BondManagers))
	}
	return ""
}

// setUp says who sets a port's network device up.
func setUp(p Port, managers []node.LinkManager) string {
	if len(managers) == 0 {
		return "no manager sets " + p.Name + " up"
	}
	return fmt.Sprintf("%s set%s %s up", managerNames(managers), thirdPerson(managers), p.Name)
}

func managerNames(managers []node.LinkManager) string {
	var names []string
	for _, m := range managers {
		names = append(names, m.Name)
	}
	return strings.Join(names, " and ")
}

func thirdPerson(managers []node.LinkManager) string {
	if len(managers) == 1 {
		return "s"
	}
	return ""
}
