package fair

import "sync"

// Nested is a [Budget] whose owners have members: an owner holds at most three times the free bytes, and each member at
// most three times the bytes that are then free for its owner. So no owner can use the whole budget, whatever its
// number of members, and no member the whole part of its owner. Safe for concurrent use.
type Nested[O, M comparable] struct {
	budget *Budget[O]

	mu      sync.Mutex
	members map[memberKey[O, M]]*Member[O, M] // guarded by mu
}

type memberKey[O, M comparable] struct {
	owner O
	of    M
}

// Member is the part of a budget that one member of an owner holds. Safe for concurrent use.
type Member[O, M comparable] struct {
	budget *Nested[O, M]
	key    memberKey[O, M]
	share  *Share[O]
	// used is the number of bytes held, users the number of calls of [Nested.Member] without a Close. guarded by
	// Nested.mu
	used, users int
}

// NewNested returns a budget of limit bytes.
func NewNested[O, M comparable](limit int) *Nested[O, M] {
	return &Nested[O, M]{budget: NewBudget[O](limit), members: map[memberKey[O, M]]*Member[O, M]{}}
}

// Used returns the number of bytes that all members hold.
func (n *Nested[O, M]) Used() int { return n.budget.Used() }

// Member returns the part of a member of an owner. Each call needs a [Member.Close].
func (n *Nested[O, M]) Member(owner O, of M) *Member[O, M] {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := memberKey[O, M]{owner, of}
	m := n.members[key]
	if m == nil {
		m = &Member[O, M]{budget: n, key: key, share: n.budget.Share(owner)}
		n.members[key] = m
	}
	m.users++
	return m
}

// Close ends one use of the member, whose bytes must have been given back.
func (m *Member[O, M]) Close() {
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	if m.users--; m.users == 0 {
		delete(m.budget.members, m.key)
		m.share.Close()
	}
}

// Acquire reserves bytes and returns true, or reserves nothing and returns false if the owner or the member would
// exceed its part.
func (m *Member[O, M]) Acquire(bytes int) bool {
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	if !m.share.Acquire(bytes) {
		return false
	}
	// Each byte that an owner reserves lowers Free by four: one more is held, and one less is free, which counts three
	// times.
	if left := m.share.Free() / (partOfFree + 1); m.used+bytes > partOfFree*left {
		m.share.Add(-bytes)
		return false
	}
	m.used += bytes
	return true
}

// Release gives bytes back.
func (m *Member[O, M]) Release(bytes int) {
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	m.used -= bytes
	m.share.Add(-bytes)
}
