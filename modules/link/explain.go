package link

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "A rail that is down, or has another MTU than its peers, is bandwidth that is missing.",
		Read:    "/sys/class/net/NETDEV: mtu, flags, carrier, and the files of the network's managers.",
		Risk:    "The link goes down for a moment. Ports that carry a route are left alone.",
		Sources: []string{"Linux Documentation/networking"},
	},
		plan.Explanation{ID: "link.mtu", Title: "a port has another MTU than wanted", Fix: "busbar apply sets it; the file of whoever sets the link up has to say the same."},
		plan.Explanation{ID: "link.mtu_file", Title: "a file of the network's managers gives the port another MTU", Why: "What busbar sets lasts until that manager sets the network device up again.", Read: "The files of networkd, NetworkManager, ifupdown and netplan, and the .link files of udev.", Fix: "Write the MTU into the file that the finding names.", Risk: "None before the manager reads it."},
		plan.Explanation{ID: "link.up", Title: "a port is down", Fix: "busbar apply sets it up."},
		plan.Explanation{ID: "link.carrier", Title: "a port has no link", Fix: "See cable, transceiver and the port of the switch."},
	)
}
