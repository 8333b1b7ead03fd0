package profiles

import (
	"fmt"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"busbar/node"
)

// Node is a node as profiles see it: which profile matches it, and what blocks a profile has for it, hangs on nothing else.
type Node struct {
	value cty.Value // conforms to NodeSchema
	// protectedKnown: it is known which network devices are protected, so that of a NIC it is unknown for a reason of its own.
	protectedKnown bool
}

// NodeOf is the node that an inventory tells of. An inventory holds more than profiles see: the name of the host, the addresses
// of its ports, the text of its boot arguments.
func NodeOf(inv node.Inventory) Node {
	return Node{nodeValue(inv), inv.Protected.IsKnown()}
}

// fingerprint tells nodes apart that differ.
func (n Node) fingerprint() string { return fmt.Sprintf("%v %#v", n.protectedKnown, n.value) }

// maxAlike is how many answers Alike remembers. When there are more it forgets all.
const maxAlike = 64

// Alike is answer for many nodes, of which those that profiles cannot tell apart share one: equal machines of a fleet are judged by
// equal blocks. What answer returns is not to be changed; both functions may be called concurrently.
func Alike[T any](answer func(Node) T) func(node.Inventory) T {
	var mutex sync.Mutex
	known := map[string]func() T{}
	return func(inv node.Inventory) T {
		n := NodeOf(inv)
		fingerprint := n.fingerprint()
		mutex.Lock()
		once, ok := known[fingerprint]
		if !ok {
			if len(known) == maxAlike {
				clear(known)
			}
			once = sync.OnceValue(func() T { return answer(n) })
			known[fingerprint] = once
		}
		mutex.Unlock()
		return once()
	}
}
