package store

// OwnedWeight returns the weight of removing all entries of a session (U2 weight).
func (r *Root) OwnedWeight(owner uint64) int { return r.ephemeralsOf(owner).weight }

func (r *Root) ephemeralsOf(owner uint64) ephemerals {
	e, _ := r.ephemerals.Get(owner)
	return e
}

// ephemerals has the number of a session's ephemerals, and the weight of their removal.
type ephemerals struct{ count, weight int }

func (e ephemerals) plus(count, weight int) ephemerals {
	return ephemerals{count: e.count + count, weight: e.weight + weight}
}
