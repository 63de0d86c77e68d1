package port

import (
	pq "container/heap"
	"net/netip"
)

// maxIdleLooked bounds how many idle connections of an address longestIdle looks at.
const maxIdleLooked = 64

// addressUse is what one address holds of a limiter's slots. The limiter's mutex guards it.
type addressUse struct {
	address            netip.Addr
	connections, calls int
	// oldest and newest are the ends of the list of idle connections.
	oldest, newest *slot
	// index is the position in the limiter's heap of addresses with idle connections; -1 without one.
	index int
}

// total is how many slots the address holds.
func (u *addressUse) total() int { return u.connections + u.calls }

// overShare reports whether an address that has so many slots of a kind has too many for another of the free ones.
func (u *addressUse) overShare(has, free int) bool {
	return u.address.IsValid() && has > shareOfFree*free
}

// longestIdle returns the connection that has been idle for longest among those that fit, or nil.
func (u *addressUse) longestIdle(fits func(*slot) bool) *slot {
	looked := 0
	for s := u.oldest; s != nil && looked < maxIdleLooked; s = s.newer {
		if fits(s) {
			return s
		}
		looked++
	}
	return nil
}

// list appends a connection to its address's idle ones. Called with mu held.
func (l *limiter) list(s *slot) {
	u := s.use
	s.older, s.newer = u.newest, nil
	if u.newest != nil {
		u.newest.newer = s
	} else {
		u.oldest = s
	}
	u.newest = s
	l.sort(u)
}

// unlist takes a connection off its address's idle ones. Called with mu held.
func (l *limiter) unlist(s *slot) {
	u := s.use
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		u.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		u.newest = s.older
	}
	s.older, s.newer = nil, nil
	l.sort(u)
}

// sort puts an address that has changed into its position of the heap, or takes it out. Called with mu held.
func (l *limiter) sort(u *addressUse) {
	switch {
	case u.oldest == nil && u.index >= 0:
		pq.Remove(&l.idle, u.index)
	case u.oldest != nil && u.index < 0:
		pq.Push(&l.idle, u)
	case u.index >= 0:
		pq.Fix(&l.idle, u.index)
	}
}

// idleHeap is a heap of the addresses that have idle connections: the first holds most.
type idleHeap []*addressUse

func (h *idleHeap) Len() int           { return len(*h) }
func (h *idleHeap) Less(i, j int) bool { return (*h)[i].total() > (*h)[j].total() }

// Swap implements [pq.Interface].
func (h *idleHeap) Swap(i, j int) {
	all := *h
	all[i], all[j] = all[j], all[i]
	all[i].index, all[j].index = i, j
}

// Push implements [pq.Interface].
func (h *idleHeap) Push(x any) {
	if u, ok := x.(*addressUse); ok { // the heap holds nothing else
		u.index = len(*h)
		*h = append(*h, u)
	}
}

// Pop implements [pq.Interface].
func (h *idleHeap) Pop() any {
	last := len(*h) - 1
	u := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	u.index = -1
	return u
}
