package profiles

import "busbar/plan"

// Explanations are about the findings that selectors make.
func Explanations() []plan.Explanation {
	return plan.Explain(plan.Explanation{
		Why:  "Nothing is computed from a selection that is not the expected one: settings for some of the rails are worse than none.",
		Read: "The PCI bus, /sys/class/net and /sys/class/infiniband; nearness of NICs to GPUs from the PCI tree.",
	},
		plan.Explanation{ID: "selector.short", Title: "fewer NICs were found than the profile expects", Fix: "Look for the missing NICs on the bus, or expect another number (variables = { rails = 4 } with the stock HGX profiles)."},
		plan.Explanation{ID: "selector.surplus", Title: "more NICs were found than the profile expects", Why: "One that is not meant would be set up like those that are, and which one it is cannot be told.", Fix: "Exclude what is not meant, or expect another number."},
		plan.Explanation{ID: "selector.include", Title: "an address in include is that of no NIC that can be selected", Fix: "Look for the NIC on the bus, or take the address out of the list."},
		plan.Explanation{ID: "selector.unknown", Title: "whether NICs belong to the selection is unknown", Why: "A NIC may carry the node's only route; what is not known to be free of it is never touched.", Fix: "See the reason; name the NIC in include once it is clear that nothing else goes over it."},
	)
}
