package fsm

import (
	"slices"

	"github.com/tidwall/btree"
)

// journal keeps items in the order in which they were added, drops the oldest first, and finds each by its key. A copy
// of the items slice never changes: items are only appended behind its end and cut off before its beginning.
type journal[T any] struct {
	items []*T // oldest first
	byKey *btree.BTreeG[*T]
	cut   int // number of items cut off since items was last copied
}

func newJournal[T any](less func(a, b *T) bool) journal[T] {
	return journal[T]{byKey: newTree(less)}
}

func (j *journal[T]) add(item *T) {
	j.items = append(j.items, item)
	j.byKey.Set(item)
}

// dropOldest removes the oldest item. The journal must not be empty.
func (j *journal[T]) dropOldest() {
	j.byKey.Delete(j.items[0])
	j.items = j.items[1:]
	if j.cut++; j.cut > len(j.items) {
		// Without this copy a journal that was long once would keep the memory of all dropped items.
		j.items, j.cut = slices.Clone(j.items), 0
	}
}

// find returns the item with the key of probe.
func (j *journal[T]) find(probe *T) (*T, bool) { return j.byKey.Get(probe) }
