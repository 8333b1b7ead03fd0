package plan

import (
	"cmp"
	"slices"
)

// Explanation says for people what a kind of finding is. Texts are sentences in plain English; what does not apply is empty.
type Explanation struct {
	// ID is Finding.ID, or *.WHAT for findings that blocks of any type may have.
	ID string `json:"id"`
	// Title is one clause, without a full stop: what is wrong where the finding is not ok.
	Title string `json:"title"`
	// Why it matters, Read: how it is read, Fix: how it is put right, Risk: what that can break.
	Why  string `json:"why,omitempty"`
	Read string `json:"read,omitempty"`
	Fix  string `json:"fix,omitempty"`
	Risk string `json:"risk,omitempty"`
	// Sources are documents and code that say so.
	Sources []string `json:"sources,omitempty"`
}

// Explainer is a Type or a Sink that explains its findings.
type Explainer interface {
	Explanations() []Explanation
}

// Explain fills what explanations leave out with what they have in common.
func Explain(common Explanation, of ...Explanation) []Explanation {
	for i, e := range of {
		of[i].Why, of[i].Read = cmp.Or(e.Why, common.Why), cmp.Or(e.Read, common.Read)
		of[i].Fix, of[i].Risk = cmp.Or(e.Fix, common.Fix), cmp.Or(e.Risk, common.Risk)
		if e.Sources == nil {
			of[i].Sources = slices.Clone(common.Sources)
		}
	}
	return of
}

// Explanations are about the findings that the planner makes itself.
func Explanations() []Explanation {
	return Explain(Explanation{Read: "From the profile and the node's inventory."},
		Explanation{
			ID: "*.undecided", Title: "whether the block applies to the node is unknown",
			Why: "What hangs on something unknown is neither judged nor taken back.",
			Fix: "See the reason: record what is missing, or make the fact readable (driver loaded, run as root).",
		},
		Explanation{
			ID: "*.withheld", Title: "an argument of the block hangs on something unknown and is left out",
			Why: "A value that was computed from a guess is worse than none; the rest of the block is judged.",
			Fix: "See the reason: once the fact can be read, the argument counts again.",
		},
		Explanation{
			ID: "*.not_run", Title: "the proof was not run",
			Why: "A proof has the machine do something, which plan and apply never ask for.",
			Fix: "busbar verify --probe runs it.", Risk: "It takes memory and time of GPUs; where they are in use it does nothing without --force.",
		},
		Explanation{
			ID: "*.driver", Title: "a NIC that the block is about has no network driver",
			Why:  "Nothing can be read from or set on such a NIC, and no job can use it.",
			Read: "/sys/bus/pci/devices/ADDRESS/driver, and that neither a network nor an RDMA device belongs to the function.",
			Fix:  "Load the driver (mlx5_core, bnxt_en, ice), or see in the kernel log why it gave up; take the NIC back from VFIO; or leave it out of the profile.",
			Risk: "A NIC that a guest holds through VFIO is taken away from it.", Sources: []string{"Linux Documentation/ABI/testing/sysfs-bus-pci", "Linux Documentation/driver-api/vfio.rst"},
		},
		Explanation{
			ID: "*.nics", Title: "a NIC that the block names cannot be judged, or there is none",
			Why: "A list of NICs that is empty or wrong would leave the node unjudged.", Read: "The PCI bus, /sys/bus/pci/devices.",
			Fix: "See why the NIC is not on the bus (slot, power, firmware), or correct the list in the profile.",
		},
		Explanation{
			ID: "profile.contradiction", Title: "two blocks of the profile want different things",
			Why: "Only one of the two can be had, so that neither is applied.", Read: "From what the blocks contribute; validate finds it without a node.",
			Fix: "Decide in the profile which of the two is meant; drop or change the other.",
		},
	)
}
