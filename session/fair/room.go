package fair

import (
	"math"
	"sync"
	"sync/atomic"
)

// partOfFree is how many times what is free an owner may hold. One owner alone gets three quarters of a room, the next
// one three quarters of the rest, and an owner that holds little finds room unless every byte is taken.
const partOfFree = 3

// Room is a number of bytes that owners share. None may hold more than three times what is free, so none takes it all.
// Safe for concurrent use.
type Room[O comparable] struct {
	limit int64
	taken atomic.Int64
	// wanted is the least number of free bytes with which a share that waits has room. Nobody waits at math.MaxInt64.
	wanted atomic.Int64

	mu     sync.Mutex
	shares map[O]*Share[O] // guarded by mu
}

// Share is what one owner holds of a room. Safe for concurrent use.
type Share[O comparable] struct {
	room  *Room[O]
	owner O
	taken atomic.Int64
	// wanted is the least Left with which somebody who waits for this share has room.
	wanted atomic.Int64
	// users counts the calls of Share without a Close. guarded by Room.mu
	users int
}

// NewRoom returns a room of limit bytes.
func NewRoom[O comparable](limit int) *Room[O] {
	r := &Room[O]{limit: int64(limit), shares: map[O]*Share[O]{}}
	r.wanted.Store(math.MaxInt64)
	return r
}

// Limit returns the bytes of the room.
func (r *Room[O]) Limit() int { return int(r.limit) }

// Most returns what an owner has left while the room is empty.
func (r *Room[O]) Most() int { return partOfFree * int(r.limit) }

// Taken returns how many bytes all owners hold.
func (r *Room[O]) Taken() int { return int(r.taken.Load()) }

// Share returns the share of an owner. Each call has its [Share.Close].
func (r *Room[O]) Share(owner O) *Share[O] {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.shares[owner]
	if s == nil {
		s = &Share[O]{room: r, owner: owner}
		s.wanted.Store(math.MaxInt64)
		r.shares[owner] = s
	}
	s.users++
	return s
}

// Close ends one use of the share. Its user has given back what it holds.
func (s *Share[O]) Close() {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(s.room.shares, s.owner)
	}
}

// Room returns the room that the share is of.
func (s *Share[O]) Room() *Room[O] { return s.room }

// Taken returns how many bytes the owner holds.
func (s *Share[O]) Taken() int { return int(s.taken.Load()) }

// Take takes n bytes, or none and returns false if the owner may not hold as much. Nobody waits in a room of which bytes
// are taken so: what Take gives back wakes nobody.
func (s *Share[O]) Take(n int) bool {
	if s.Add(n); s.Left() < 0 {
		s.Add(-n)
		return false
	}
	return true
}

// Add takes n bytes, whatever is free, or gives them back if n is negative. It reports whether somebody who waits has
// room now: then all who wait look again.
func (s *Share[O]) Add(n int) (wake bool) {
	taken, all := s.taken.Add(int64(n)), s.room.taken.Add(int64(n))
	if n > 0 {
		return false
	}
	free := s.room.limit - all
	switch wanted := s.wanted.Load(); {
	case wanted == math.MaxInt64:
	case partOfFree*free-taken >= wanted:
		s.wanted.Store(math.MaxInt64)
		wake = true
	default: // less of what others give back is enough now
		lower(&s.room.wanted, freeFor(taken, wanted))
	}
	if free >= s.room.wanted.Load() {
		s.room.wanted.Store(math.MaxInt64)
		wake = true
	}
	return wake
}

// Left returns three times what is free, less what the owner holds. The owner may hold no more when it is 0.
func (s *Share[O]) Left() int {
	return int(partOfFree*(s.room.limit-s.room.taken.Load()) - s.taken.Load())
}

// Await reports whether Left is at least n. If not, it notes that somebody waits for that: [Share.Add] tells when.
func (s *Share[O]) Await(n int) bool {
	if s.Left() >= n {
		return true
	}
	lower(&s.wanted, int64(n))
	lower(&s.room.wanted, freeFor(s.taken.Load(), int64(n)))
	return s.Left() >= n // bytes may have been given back before the note
}

// freeFor returns how many bytes must be free so that an owner of taken bytes has left.
func freeFor(taken, left int64) int64 { return (taken + left + partOfFree - 1) / partOfFree }

// lower makes v at most to.
func lower(v *atomic.Int64, to int64) {
	for now := v.Load(); to < now && !v.CompareAndSwap(now, to); now = v.Load() {
	}
}
