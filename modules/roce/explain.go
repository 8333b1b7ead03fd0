package roce

import "busbar/plan"

// Explanations are about its findings.
func (Type) Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:     "RoCE sends everything behind a lost packet again. NIC and switch must treat one class of packets as lossless, and packets must be marked for it.",
		Read:    "dcbnl over netlink, ethtool, /sys/class/net/NETDEV/ecn and /sys/class/infiniband of MLNX_OFED, configfs of rdma_cm.",
		Fix:     "busbar apply sets it, and busbar.service again at each boot; the switches need the same.",
		Risk:    "Changing PFC or the MTU takes the link down for a moment. Ports that carry a route are left alone.",
		Sources: []string{"Linux net/dcb/dcbnl.c and include/uapi/linux/dcbnl.h", "IEEE 802.1Qbb and 802.1Qau", "NVIDIA RoCE configuration guides"},
	},
		plan.Explanation{ID: "roce.agent", Title: "lldpad or another agent sets Data Center Bridging, too", Why: "Two owners overwrite each other; the settings last until the other one is started.", Fix: "Stop and disable the agent, or leave DCB to it.", Risk: "FCoE needs its agent."},
		plan.Explanation{ID: "roce.infiniband", Title: "the port is InfiniBand, which has no RoCE", Why: "InfiniBand is lossless by itself.", Read: "/sys/class/infiniband/DEVICE/ports/PORT/link_layer.", Fix: "Leave the port out, or set LINK_TYPE in the NIC's firmware where Ethernet is meant.", Risk: "None to leave it out."},
		plan.Explanation{ID: "roce.virtual_function", Title: "the port is a virtual function, whose class is set on the physical one", Why: "A virtual function has no PFC of its own.", Read: "/sys/bus/pci/devices/ADDRESS/physfn.", Fix: "Name the port of the physical function instead.", Risk: "None."},
		plan.Explanation{ID: "roce.dcb", Title: "Data Center Bridging of a port is not known", Fix: "Use a NIC and a driver that have it, or leave the port out."},
		plan.Explanation{ID: "roce.dcbx", Title: "the firmware negotiates with the switch where the host should, or the other way round", Why: "Who negotiates can overwrite what was set."},
		plan.Explanation{ID: "roce.pfc", Title: "PFC is not on for the lossless priority alone", Why: "Without PFC packets are lost under load; each further lossless class takes a share of the buffers and is another way into a deadlock."},
		plan.Explanation{ID: "roce.pause", Title: "pause of the whole link is on", Why: "Pause frames hold back all priorities, where PFC holds back one."},
		plan.Explanation{ID: "roce.storm_prevention", Title: "the guard against endless PFC has another time", Why: "A port that holds its peer back without end stops a part of the fabric."},
		plan.Explanation{ID: "roce.trust", Title: "a port does not take the priority from the DSCP", Why: "Routed packets have no VLAN tag, and all come in with priority 0."},
		plan.Explanation{ID: "roce.dscp_map", Title: "the DSCP of RoCE leads to another priority"},
		plan.Explanation{ID: "roce.cnp_map", Title: "the DSCP of congestion notification leads to another priority"},
		plan.Explanation{ID: "roce.dscp_stray", Title: "other DSCPs lead to the lossless priority, too", Why: "What is no RoCE takes its buffers and can stop it.", Fix: "Map them to another priority."},
		plan.Explanation{ID: "roce.ecn", Title: "ECN is not on for the lossless priority", Why: "Without it PFC alone holds back senders, and the pauses spread through the fabric."},
		plan.Explanation{ID: "roce.cnp", Title: "congestion notifications are marked otherwise than wanted", Why: "They are held back with the traffic that they are to slow down."},
		plan.Explanation{ID: "roce.traffic_class", Title: "the global traffic class of a port is another one", Why: "Programs that set none send into the lossy class."},
		plan.Explanation{ID: "roce.tos", Title: "connections of rdma_cm are marked for another class", Why: "Programs that connect through rdma_cm and set no type of service send into the lossy class."},
		plan.Explanation{ID: "roce.mtu", Title: "a port has another MTU than wanted", Why: "RoCE ports whose MTUs differ fail to connect, or run at half speed.", Read: "/sys/class/net/NETDEV/mtu and the files of the network's managers."},
		plan.Explanation{ID: "roce.mtu_file", Title: "a file of the network's managers gives the port another MTU", Why: "What busbar sets lasts until that manager sets the network device up again.", Read: "The files of networkd, NetworkManager, ifupdown and netplan, and the .link files of udev.", Fix: "Write the MTU into the file that the finding names.", Risk: "None before the manager reads it."},
		plan.Explanation{ID: "roce.up", Title: "a port is down", Why: "A rail that is down is bandwidth that is missing.", Read: "/sys/class/net/NETDEV/flags."},
		plan.Explanation{ID: "roce.carrier", Title: "a port has no link", Why: "A rail without a link is bandwidth that is missing.", Read: "/sys/class/net/NETDEV/carrier.", Fix: "See cable, transceiver and the port of the switch."},
	)
}
