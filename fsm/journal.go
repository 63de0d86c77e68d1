package fsm

import (
	"slices"

	"github.com/tidwall/btree"
)

// journal keeps items in the order they came, drops the oldest, and finds any by its key. The slice of a copy stays as
// it was when it was copied: items are only added behind it and cut off in front of it.
type journal[T any] struct {
	items []*T // oldest first
	byKey *btree.BTreeG[*T]
	cut   int // items cut off the front since items was last copied together
}

func newJournal[T any](less func(a, b *T) bool) journal[T] {
	return journal[T]{byKey: newTree(less)}
}

func (j *journal[T]) add(item *T) {
	j.items = append(j.items, item)
	j.byKey.Set(item)
}

// dropOldest takes out the oldest item. There must be one.
func (j *journal[T]) dropOldest() {
	j.byKey.Delete(j.items[0])
	j.items = j.items[1:]
	if j.cut++; j.cut > len(j.items) {
		// Without this a journal that once was long would hold on to the memory of all that it dropped.
		j.items, j.cut = slices.Clone(j.items), 0
	}
}

// find returns the item with the key that probe has.
func (j *journal[T]) find(probe *T) (*T, bool) { return j.byKey.Get(probe) }
