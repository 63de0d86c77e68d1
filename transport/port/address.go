package port

import (
	pq "container/heap"
	"net/netip"
)

// maxIdleChecked is the largest number of idle connections of an address that longestIdle checks.
const maxIdleChecked = 64

// addressUse is an address's part of a limiter's slots. The limiter's mutex guards it.
type addressUse struct {
	address            netip.Addr
	connections, calls int
	// oldest and newest are the ends of the list of idle connections.
	oldest, newest *slot
	// index is the index in the limiter's heap of addresses with idle connections; -1 without one.
	index int
}

// total is the number of the address's slots.
func (u *addressUse) total() int { return u.connections + u.calls }

// overShare reports whether an address with has slots of a kind must not get another of the free ones.
func (u *addressUse) overShare(has, free int) bool {
	return u.address.IsValid() && has > shareOfFree*free
}

// longestIdle returns the connection with the longest idle time for which fits returns true, or nil.
func (u *addressUse) longestIdle(fits func(*slot) bool) *slot {
	checked := 0
	for s := u.oldest; s != nil && checked < maxIdleChecked; s = s.newer {
		if fits(s) {
			return s
		}
		checked++
	}
	return nil
}

// list appends a connection to its address's list of idle connections. Called with mu held.
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

// unlist removes a connection from its address's list of idle connections. Called with mu held.
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

// sort moves a changed address to its position in the heap, or removes it. Called with mu held.
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

// idleHeap is a heap of the addresses with idle connections: the first holds most slots.
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
	if u, ok := x.(*addressUse); ok { // the heap has no other items
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
