package node

import "context"

// Reader reads a node: the live one, a directory tree, or a recording.
type Reader interface {
	// Inventory is round 0. What could not be read is unknown in it, with the reason.
	Inventory(ctx context.Context) Inventory
	// Read is round 1: facts under inv with one answer per query; what could not be
	// read is answered as unknown, with the reason.
	Read(ctx context.Context, inv Inventory, queries []Query) Facts
}

// Recorded is a Reader over facts that were read earlier.
type Recorded struct{ Facts Facts }

var _ Reader = Recorded{}

// Inventory is the recorded one.
func (r Recorded) Inventory(context.Context) Inventory { return r.Facts.Inventory }

// Read answers from the recording; what it does not hold stays unknown.
func (r Recorded) Read(context.Context, Inventory, []Query) Facts { return r.Facts }
