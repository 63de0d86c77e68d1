package store

import "holdfast/tree"

// OwnedWeight returns the weight of the removal of all that a session owns (U2). It looks at each entry.
func (r *Root) OwnedWeight(owner uint64) (weight int) {
	r.ownedBy(owner, func(key string) bool {
		weight += tree.RemovalWeight(pathOf(key))
		return true
	})
	return weight
}

// ephemerals are those of a session: their number, and the weight of their removal.
type ephemerals struct{ count, weight int }

func (e ephemerals) plus(count, weight int) ephemerals {
	return ephemerals{count: e.count + count, weight: e.weight + weight}
}
