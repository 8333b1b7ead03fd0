package profiles

// Equal compares what profiles see.
func (n Node) Equal(other Node) bool {
	return n.protectedKnown == other.protectedKnown && n.value.RawEquals(other.value)
}
