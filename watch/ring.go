package watch

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"sync/atomic"

	"holdfast/tree"
)

// RingLimits bound a [Ring]. A ring holds at least the newest Items, unless these exceed Bytes.
type RingLimits struct{ Items, Bytes int }

// DefaultRingLimits returns the bounds of V3.
func DefaultRingLimits() RingLimits { return RingLimits{Items: 262_144, Bytes: 64 << 20} }

// ringChunks is the approximate number of chunks of a full ring. A ring drops its oldest items one chunk at a time.
const ringChunks = 1024

// spareChunks is the space for further chunks in a list of chunks, so that few new chunks copy the list. Up to the next
// copy, the list may keep about as many dropped chunks in memory.
const spareChunks = ringChunks / 32

// Ring holds the newest changes of a node, in the order of their stamps (V3 ring of changes).
//
// One goroutine writes: it calls Append and Reset. Any number of goroutines may read at the same time, and neither side
// waits for the other. The items lie in chunks, which the writer fills once and never reuses. The writer stores a
// chunk's count after its items, and writes to the memory of a list of chunks only behind the end of all lists that it
// has stored. So a reader that has loaded a list sees only complete items, and its list keeps them from being collected
// while the writer drops chunks.
//
// The writer appends the changes of an entry, or resets the ring, before it publishes the entry's root. So a reader
// that loads the root first finds all changes up to that root, or learns that they are gone.
type Ring[T any] struct {
	limits  RingLimits
	stampOf func(*T) tree.Stamp
	// bytesOf returns the bytes that adding an item costs, and freedOf the bytes that dropping an item frees.
	bytesOf, freedOf func(*T) int
	// keysOf adds the keys of an item to a filter; nil if the ring has no filters.
	keysOf func(*T, *filter)
	held   atomic.Pointer[ringList[T]]

	// items and bytes are the ring's contents, and newest is the last stamp. Only the writer uses these fields.
	items, bytes int
	newest       tree.Stamp
}

// ringList is the contents of a ring: all changes above start.
type ringList[T any] struct {
	start  tree.Stamp
	chunks []*ringChunk[T] // none is empty
}

type ringChunk[T any] struct {
	items []T
	used  atomic.Int64
	// The first reader that needs the filter makes it, once the chunk is full.
	filter atomic.Pointer[filter]
}

// NewRing returns an empty ring that starts at index: the index of the snapshot that the state was restored from, or 0.
// stampOf returns the stamp of an item, bytesOf its size in bytes for [RingLimits].
func NewRing[T any](limits RingLimits, index uint64, stampOf func(*T) tree.Stamp, bytesOf func(*T) int) *Ring[T] {
	r := &Ring[T]{limits: limits, stampOf: stampOf, bytesOf: bytesOf, freedOf: bytesOf}
	r.Reset(index)
	return r
}

// Reset empties the ring. The ring then starts at index, the index of a restored snapshot. A ring that survived a
// restore would hide the changes between its last item and the snapshot.
func (r *Ring[T]) Reset(index uint64) {
	r.items, r.bytes, r.newest = 0, 0, End(index)
	r.held.Store(&ringList[T]{start: r.newest})
}

// Append adds the changes of the log entry at index. It panics unless their stamps belong to the entry, rise, and are
// newer than all stamps in the ring, because the log has one order.
func (r *Ring[T]) Append(index uint64, items ...T) {
	if len(items) == 0 {
		return
	}
	if r.newest.Index() >= index {
		panic(fmt.Sprintf("changes of entry %d after stamp %v", index, r.newest))
	}
	list := *r.held.Load()
	fresh := false
	for i := range items {
		fresh = r.add(&list, &items[i], index) || fresh
	}
	if r.trim(&list) || fresh {
		r.held.Store(&list)
	}
}

// add appends one item, and reports whether it needed a new chunk. The list is the writer's own copy; readers may share
// its slice of chunks.
func (r *Ring[T]) add(list *ringList[T], item *T, index uint64) (fresh bool) {
	stamp, bytes := r.stampOf(item), r.bytesOf(item)
	if stamp.Index() != index || stamp < r.newest {
		panic(fmt.Sprintf("change %v of entry %d after stamp %v", stamp, index, r.newest))
	}
	size := max(1, r.limits.Items/ringChunks)
	n := len(list.chunks)
	if n == 0 || int(list.chunks[n-1].used.Load()) == size {
		fresh = true
		if n == cap(list.chunks) {
			list.chunks = append(make([]*ringChunk[T], 0, n+spareChunks), list.chunks...)
		}
		list.chunks = append(list.chunks, &ringChunk[T]{items: make([]T, size)})
		n++
	}
	c := list.chunks[n-1]
	used := c.used.Load()
	c.items[used] = *item
	c.used.Store(used + 1)
	r.items, r.bytes, r.newest = r.items+1, r.bytes+bytes, stamp
	return fresh
}

// trim drops the oldest chunks until the ring is within its limits, and reports whether it dropped any.
func (r *Ring[T]) trim(list *ringList[T]) bool {
	drop := 0
	for drop < len(list.chunks)-1 {
		c := list.chunks[drop]
		used := int(c.used.Load())
		if r.items-used < r.limits.Items && r.bytes <= r.limits.Bytes {
			break
		}
		// The start is the stamp of the last dropped item: the next chunk may have more items with this stamp, but the
		// change is no longer complete.
		list.start = r.stampOf(&c.items[used-1])
		for i := range c.items[:used] {
			r.bytes -= r.freedOf(&c.items[i])
		}
		r.items -= used
		drop++
	}
	if drop == 0 {
		return false
	}
	list.chunks = list.chunks[drop:]
	if drop > spareChunks {
		list.chunks = slices.Clone(list.chunks)
	}
	return true
}

// Start returns the stamp above which the ring has every change.
func (r *Ring[T]) Start() tree.Stamp { return r.held.Load().start }

// Range returns the items with stamps above after, up to and including through, in order; false if the ring no longer
// has all of them. Range may omit items that are appended later, so through must not be above the newest root that the
// reader has loaded before. The items are shared and must not be modified.
func (r *Ring[T]) Range(after, through tree.Stamp) (iter.Seq[*T], bool) {
	return r.rangeOf(after, through, func(*ringChunk[T]) bool { return true })
}

// rangeOf is [Ring.Range] restricted to the wanted chunks.
func (r *Ring[T]) rangeOf(after, through tree.Stamp, wanted func(*ringChunk[T]) bool) (iter.Seq[*T], bool) {
	list := r.held.Load()
	if after < list.start {
		return nil, false
	}
	return func(yield func(*T) bool) {
		from := sort.Search(len(list.chunks), func(i int) bool { return r.stampOf(&list.chunks[i].items[0]) > after })
		for _, c := range list.chunks[max(from-1, 0):] { // the first may begin at or below after
			if wanted(c) && !r.yield(c, after, through, yield) {
				return
			}
		}
	}, true
}

// yield calls f for the items of a chunk with stamps above after, up to and including through. It returns false when
// the iteration ends.
func (r *Ring[T]) yield(c *ringChunk[T], after, through tree.Stamp, f func(*T) bool) bool {
	items := c.items[:c.used.Load()]
	if r.stampOf(&items[0]) <= after {
		items = items[sort.Search(len(items), func(i int) bool { return r.stampOf(&items[i]) > after }):]
	}
	for i := range items {
		if r.stampOf(&items[i]) > through || !f(&items[i]) {
			return false
		}
	}
	return true
}

// rangeWith is [Ring.Range], but may omit items with none of the keys.
func (r *Ring[T]) rangeWith(keys []uint64, after, through tree.Stamp) (iter.Seq[*T], bool) {
	return r.rangeOf(after, through, func(c *ringChunk[T]) bool {
		f := r.filterOf(c)
		return f == nil || f.hasAny(keys)
	})
}

// filterOf returns the filter of a full chunk; nil for one that is not full.
func (r *Ring[T]) filterOf(c *ringChunk[T]) *filter {
	if f := c.filter.Load(); f != nil || r.keysOf == nil || int(c.used.Load()) < len(c.items) {
		return f
	}
	f := new(filter)
	for i := range c.items {
		r.keysOf(&c.items[i], f)
	}
	c.filter.Store(f) // may replace an equal filter of another reader
	return f
}
