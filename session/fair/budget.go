package fair

import (
	"math"
	"sync"
	"sync/atomic"
)

// partOfFree is the number of times the free bytes that an owner may hold. A single owner can hold three quarters of a
// budget, the next owner three quarters of the rest, and an owner that holds little can reserve more while any byte is
// free.
const partOfFree = 3

// Budget is a number of bytes that owners share. Each owner may hold at most three times the free bytes, so no owner
// can use the whole budget. Safe for concurrent use.
type Budget[O comparable] struct {
	limit int64
	used  atomic.Int64
	// wanted is the smallest number of free bytes with which a waiting share can continue; math.MaxInt64 without
	// waiters.
	wanted atomic.Int64

	mu     sync.Mutex
	shares map[O]*Share[O] // guarded by mu
}

// Share is the part of a budget that one owner holds. Safe for concurrent use.
type Share[O comparable] struct {
	budget *Budget[O]
	owner  O
	used   atomic.Int64
	// wanted is the smallest Free with which a waiter for this share can continue.
	wanted atomic.Int64
	// users is the number of calls of Share without a Close. guarded by Budget.mu
	users int
}

// NewBudget returns a budget of limit bytes.
func NewBudget[O comparable](limit int) *Budget[O] {
	r := &Budget[O]{limit: int64(limit), shares: map[O]*Share[O]{}}
	r.wanted.Store(math.MaxInt64)
	return r
}

// Limit returns the budget's number of bytes.
func (r *Budget[O]) Limit() int { return int(r.limit) }

// MaxFree returns an owner's Free while no owner holds bytes.
func (r *Budget[O]) MaxFree() int { return partOfFree * int(r.limit) }

// Used returns the number of bytes that all owners hold.
func (r *Budget[O]) Used() int { return int(r.used.Load()) }

// Share returns the share of an owner. Each call needs a [Share.Close].
func (r *Budget[O]) Share(owner O) *Share[O] {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.shares[owner]
	if s == nil {
		s = &Share[O]{budget: r, owner: owner}
		s.wanted.Store(math.MaxInt64)
		r.shares[owner] = s
	}
	s.users++
	return s
}

// Close ends one use of the share, whose bytes must have been given back.
func (s *Share[O]) Close() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(s.budget.shares, s.owner)
	}
}

// Budget returns the share's budget.
func (s *Share[O]) Budget() *Budget[O] { return s.budget }

// Used returns the number of bytes that the owner holds.
func (s *Share[O]) Used() int { return int(s.used.Load()) }

// Acquire reserves n bytes and returns true, or reserves nothing and returns false if the owner would exceed its part.
// Do not use Acquire in a budget with waiters: Acquire wakes no waiter when it gives bytes back.
func (s *Share[O]) Acquire(n int) bool {
	if s.Add(n); s.Free() < 0 {
		s.Add(-n)
		return false
	}
	return true
}

// Add reserves n bytes, however few are free, or gives bytes back if n is negative. It reports whether a waiter can
// continue now: then all waiters must check again.
func (s *Share[O]) Add(n int) (wake bool) {
	held, all := s.used.Add(int64(n)), s.budget.used.Add(int64(n))
	if n > 0 {
		return false
	}
	free := s.budget.limit - all
	switch wanted := s.wanted.Load(); {
	case wanted == math.MaxInt64:
	case partOfFree*free-held >= wanted:
		s.wanted.Store(math.MaxInt64)
		wake = true
	default: // now fewer bytes from others are enough
		lower(&s.budget.wanted, freeFor(held, wanted))
	}
	if free >= s.budget.wanted.Load() {
		s.budget.wanted.Store(math.MaxInt64)
		wake = true
	}
	return wake
}

// Free returns three times the free bytes, less the owner's bytes. At 0 or below the owner may not reserve more.
func (s *Share[O]) Free() int {
	return int(partOfFree*(s.budget.limit-s.budget.used.Load()) - s.used.Load())
}

// Await reports whether Free is at least n. If not, it records a waiter: [Share.Add] reports when to check again.
func (s *Share[O]) Await(n int) bool {
	if s.Free() >= n {
		return true
	}
	lower(&s.wanted, int64(n))
	lower(&s.budget.wanted, freeFor(s.used.Load(), int64(n)))
	return s.Free() >= n // bytes may have been given back before the record
}

// freeFor returns the number of bytes that must be free so that Free returns left for an owner of held bytes.
func freeFor(held, left int64) int64 { return (held + left + partOfFree - 1) / partOfFree }

// lower makes v at most to.
func lower(v *atomic.Int64, to int64) {
	for now := v.Load(); to < now && !v.CompareAndSwap(now, to); now = v.Load() {
	}
}
