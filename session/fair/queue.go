package fair

import "container/heap"

// Queue orders items of many sources by weighted fair queueing: sources with waiting items are served at the same rate,
// measured in the costs of their items. Items of one source keep their order.
//
// Imagine a server that serves one bit of each source in turn. The virtual time is the amount that this server has
// served to each source that always had items. Push gives each item the virtual time at which the imagined server would
// finish it, and the queue serves whole items in the order of these times. So a new source with one cheap item waits
// for about one item of another source, however many the others have queued.
//
// The zero value is empty. Not safe for concurrent use.
type Queue[S comparable, T any] struct {
	items ordered[*Item[S, T]]
	// sources have items, or rest: their last item was served, but the imagined server has not finished it. Without the
	// resting ones, a source that always has one item waiting would be a new source with each item.
	sources map[S]*source[S]
	resting ordered[*source[S]]
	// now is the virtual time, pushed the number of the newest item.
	now, pushed uint64
}

// source is a source that has items or rests.
type source[S comparable] struct {
	of    S
	items int
	// done is the virtual time at which its last item would be finished
	done  uint64
	place int
}

// Item is an item of a queue, in one queue at a time. It may be pushed again after its removal.
type Item[S comparable, T any] struct {
	Value T
	of    *source[S]
	cost  uint64
	// done is the virtual time by which the queue is ordered. number orders items with the same time.
	done, number uint64
	place        int
}

// costScale makes virtual time finer than costs, because it advances by fractions of a cost. A queue that is never
// empty may serve a total cost of 2^54 before virtual time overflows: years, if costs are bytes.
const costScale = 1 << 10

// Push adds an item for a source. The item must be in no queue. cost is 1 or more.
func (q *Queue[S, T]) Push(i *Item[S, T], of S, cost int) {
	if q.sources == nil {
		q.sources = map[S]*source[S]{}
	}
	s := q.sources[of]
	switch {
	case s == nil:
		s = &source[S]{of: of}
		q.sources[of] = s
	case s.items == 0:
		heap.Remove(&q.resting, s.place)
	}
	s.items++
	q.pushed++
	i.of, i.number, i.cost = s, q.pushed, uint64(max(cost, 1))*costScale
	s.done = max(s.done, q.now) + i.cost
	i.done = s.done
	heap.Push(&q.items, i)
}

// First returns the item to serve next, nil for an empty queue.
func (q *Queue[S, T]) First() *Item[S, T] {
	if len(q.items) == 0 {
		return nil
	}
	return q.items[0]
}

// Serve removes an item that is served now.
func (q *Queue[S, T]) Serve(i *Item[S, T]) {
	q.advance(i.cost)
	q.remove(i)
}

// Remove removes an item that will not be served.
func (q *Queue[S, T]) Remove(i *Item[S, T]) {
	if i.of.done == i.done {
		i.of.done -= i.cost
	}
	q.remove(i)
}

func (q *Queue[S, T]) remove(i *Item[S, T]) {
	heap.Remove(&q.items, i.place)
	s := i.of
	i.of = nil
	if s.items--; s.items == 0 {
		if s.done > q.now {
			heap.Push(&q.resting, s)
		} else {
			delete(q.sources, s.of)
		}
	}
	if len(q.items) == 0 { // no waiters, so earlier service does not count any more
		q.now, q.resting = 0, nil
		clear(q.sources)
	}
}

// Len returns the number of waiting items.
func (q *Queue[S, T]) Len() int { return len(q.items) }

// advance lets the imagined server serve a cost, shared by all sources.
func (q *Queue[S, T]) advance(cost uint64) {
	for len(q.resting) > 0 {
		all, first := uint64(len(q.sources)), q.resting[0]
		if first.done-q.now > cost/all {
			break
		}
		cost -= (first.done - q.now) * all
		q.now = first.done
		heap.Pop(&q.resting)
		delete(q.sources, first.of)
	}
	q.now += cost / uint64(len(q.sources))
}

// placed is an item of a heap that knows its position.
type placed interface {
	before(other any) bool
	setPlace(place int)
}

func (i *Item[S, T]) before(other any) bool {
	o := other.(*Item[S, T]) //nolint:errcheck,forcetypeassert // a heap has one type
	if i.done != o.done {
		return i.done < o.done
	}
	return i.number < o.number
}

func (i *Item[S, T]) setPlace(place int) { i.place = place }

func (s *source[S]) before(other any) bool {
	return s.done < other.(*source[S]).done //nolint:errcheck,forcetypeassert // a heap has one type
}

func (s *source[S]) setPlace(place int) { s.place = place }

// ordered is a heap.
type ordered[P placed] []P

// Len implements [heap.Interface].
func (h *ordered[P]) Len() int { return len(*h) }

// Less implements [heap.Interface].
func (h *ordered[P]) Less(i, j int) bool { return (*h)[i].before((*h)[j]) }

// Swap implements [heap.Interface].
func (h *ordered[P]) Swap(i, j int) {
	all := *h
	all[i], all[j] = all[j], all[i]
	all[i].setPlace(i)
	all[j].setPlace(j)
}

// Push implements [heap.Interface].
func (h *ordered[P]) Push(x any) {
	p := x.(P) //nolint:errcheck,forcetypeassert // only the queue pushes
	p.setPlace(len(*h))
	*h = append(*h, p)
}

// Pop implements [heap.Interface].
func (h *ordered[P]) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	var none P
	(*h)[last] = none
	*h = (*h)[:last]
	return p
}
