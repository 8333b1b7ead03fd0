// Package proofs judges what busbar finds out by having the machine do something, such as moving bytes between GPUs: one
// file per proof, written in a profile as proof "NAME" "LABEL". What was found out arrives as a fact; nothing but
// busbar verify --probe asks for it.
package proofs

import "busbar/plan"

// All returns every proof, sorted by name.
func All() []plan.Type {
	return []plan.Type{P2PBandwidth{}}
}
