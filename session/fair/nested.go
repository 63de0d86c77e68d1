package fair

import "sync"

// Nested is a [Room] whose owners have members: an owner holds at most three times what is free, and a member of it three
// times what that leaves its owner. So no owner takes the room, whatever number of members it has, and no member takes
// all that its owner may have. Safe for concurrent use.
type Nested[O, M comparable] struct {
	room *Room[O]

	mu      sync.Mutex
	members map[memberKey[O, M]]*Member[O, M] // guarded by mu
}

type memberKey[O, M comparable] struct {
	owner O
	of    M
}

// Member is what one member of an owner holds of a room. Safe for concurrent use.
type Member[O, M comparable] struct {
	room  *Nested[O, M]
	key   memberKey[O, M]
	share *Share[O]
	// taken is what the member holds, users counts the calls of [Nested.Member] without a Close. guarded by Nested.mu
	taken, users int
}

// NewNested returns a room of limit bytes.
func NewNested[O, M comparable](limit int) *Nested[O, M] {
	return &Nested[O, M]{room: NewRoom[O](limit), members: map[memberKey[O, M]]*Member[O, M]{}}
}

// Taken returns how many bytes all hold.
func (n *Nested[O, M]) Taken() int { return n.room.Taken() }

// Member returns what a member of an owner holds. Each call has its [Member.Close].
func (n *Nested[O, M]) Member(owner O, of M) *Member[O, M] {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := memberKey[O, M]{owner, of}
	m := n.members[key]
	if m == nil {
		m = &Member[O, M]{room: n, key: key, share: n.room.Share(owner)}
		n.members[key] = m
	}
	m.users++
	return m
}

// Close ends one use of the member. Its user has given back what it holds.
func (m *Member[O, M]) Close() {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	if m.users--; m.users == 0 {
		delete(m.room.members, m.key)
		m.share.Close()
	}
}

// Take takes bytes, or none and returns false if the owner or the member may not hold as many.
func (m *Member[O, M]) Take(bytes int) bool {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	if !m.share.Take(bytes) {
		return false
	}
	// With each byte that an owner takes, it has one more and finds three less.
	if left := m.share.Left() / (partOfFree + 1); m.taken+bytes > partOfFree*left {
		m.share.Add(-bytes)
		return false
	}
	m.taken += bytes
	return true
}

// Give gives bytes back.
func (m *Member[O, M]) Give(bytes int) {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	m.taken -= bytes
	m.share.Add(-bytes)
}
