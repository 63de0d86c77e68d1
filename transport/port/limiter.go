package port

import (
	"net/netip"
	"strconv"
	"sync"

	"holdfast/session"
)

const (
	// shareOfFree bounds the slots of one address, as a multiple of the free slots. The first address gets at most
	// three quarters of all slots, the next at most three quarters of the rest, and an address that holds few slots
	// always finds a free one.
	shareOfFree = 3
	// sparePart is the part of all calls that idle connections may have beyond one each: one eighth.
	sparePart = 8
)

// limiter assigns the slots of a port to connections and to the calls on them.
//
// A connection is busy while it serves a session or a request. When slots are short, the limiter evicts an idle
// connection: from the address that holds most slots, the connection with the longest idle time. When no connection is
// idle, it refuses the newcomer. For an address that holds far more slots than are free, the limiter evicts the
// address's own idle connection, or refuses the newcomer, before all slots are in use. Connections without an IP
// address count as one address, and may use every slot. Safe for concurrent use.
type limiter struct {
	// limits does not change.
	limits Limits
	// served says that clients use connections that are never marked as busy. A connection is then not evicted for an
	// address that would afterwards hold more than the connection's address. served is constant.
	served bool

	mu sync.Mutex
	// connections and calls count the slots in use. spare counts the calls that idle connections have beyond one each.
	// guarded by mu
	connections, calls, spare int

	addresses map[netip.Addr]*addressUse // guarded by mu
	// idle has the addresses with idle connections; the first holds most slots. guarded by mu
	idle idleHeap
}

// slot is the slot of one connection. The limiter's mutex guards every field except end.
type slot struct {
	// end ends the connection. It is called without a lock.
	end func()

	use          *addressUse // nil before the connection gets its slot, and after it frees the slot
	calls        int
	busy         int // sessions and requests that the connection serves, as setBusy and setIdle count them
	older, newer *slot
}

// spare is the number of calls that an idle connection has beyond one.
func (s *slot) spare() int {
	if s.busy > 0 {
		return 0
	}
	return max(s.calls-1, 0)
}

// enter assigns a slot to a connection, or refuses it. The caller ends the evicted connection, if there is one.
func (l *limiter) enter(s *slot, address netip.Addr) (evicted *slot, refused *session.LimitError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.addresses[address]
	if u == nil {
		u = &addressUse{address: address, index: -1}
	}
	free := l.limits.Connections - l.connections
	switch {
	case l.limits.ConnectionsPerAddress > 0 && u.connections >= l.limits.ConnectionsPerAddress:
		refused = &session.LimitError{
			Name: connectionsPerAddress, Limit: strconv.Itoa(l.limits.ConnectionsPerAddress),
		}
		evicted = u.oldest
	case l.limits.Connections > 0 && free <= 0:
		refused = &session.LimitError{Name: "max_connections", Limit: strconv.Itoa(l.limits.Connections)}
		evicted = l.evictable(u, func(*slot) bool { return true })
	case l.limits.Connections > 0 && u.overShare(u.connections, free):
		refused = &session.LimitError{
			Name: "max_connections", Limit: shareText(l.limits.Connections, free, u.connections),
		}
		evicted = u.oldest
	}
	if refused != nil && evicted == nil {
		refused.RetryAfter = session.BusyRetryAfter
		return nil, refused
	}
	if evicted != nil {
		l.release(evicted)
	}
	if l.addresses == nil {
		l.addresses = map[netip.Addr]*addressUse{}
	}
	l.addresses[address] = u // the eviction may have removed it
	l.connections++
	u.connections++
	s.use = u
	l.list(s)
	return evicted, nil
}

// connectionsPerAddress is the name of the limit on the connections of one address.
const connectionsPerAddress = "max_connections_per_address"

func shareText(limit, free, has int) string {
	return strconv.Itoa(limit) + ", of which " + strconv.Itoa(free) + " are free: an address that has " +
		strconv.Itoa(has) + " gets no more"
}

// evictable returns the connection to evict for u, or nil: a connection of the address that holds most if that address
// holds more than u, otherwise a connection of u. Called with mu held.
func (l *limiter) evictable(u *addressUse, fits func(*slot) bool) *slot {
	minimum := u.total() + 1
	if l.served { // the evicted client comes back at once, and would otherwise evict another, and so on for ever
		minimum++
	}
	if len(l.idle) > 0 && l.idle[0].total() >= minimum {
		if s := l.idle[0].longestIdle(fits); s != nil {
			return s
		}
	}
	return u.longestIdle(fits)
}

// free frees the slot of a connection, if it has one.
func (l *limiter) free(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(s)
}

// release implements free. Called with mu held.
func (l *limiter) release(s *slot) {
	u := s.use
	if u == nil {
		return
	}
	if s.busy == 0 {
		l.unlist(s)
	}
	l.connections--
	u.connections--
	l.spare -= s.spare()
	l.calls -= s.calls
	u.calls -= s.calls
	s.use = nil
	if u.connections == 0 {
		delete(l.addresses, u.address)
	}
	l.sort(u)
}

// beginCall counts a call of a connection, and may refuse it. A refused call counts too, until endCall, because
// answering it takes a stream. The caller ends the evicted connection, if there is one.
func (l *limiter) beginCall(s *slot) (evicted *slot, refused *session.LimitError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := s.use
	if u == nil {
		return nil, nil
	}
	free := l.limits.Calls - l.calls
	hasCalls := func(other *slot) bool { return other != s && other.calls > 0 }
	hasSpare := func(other *slot) bool { return other != s && other.spare() > 0 }
	switch {
	case l.limits.Calls <= 0:
	case free <= 0:
		refused = &session.LimitError{Name: "max_streams", Limit: strconv.Itoa(l.limits.Calls)}
		evicted = l.evictable(u, hasCalls)
	case u.overShare(u.calls, free):
		refused = &session.LimitError{Name: "max_streams", Limit: shareText(l.limits.Calls, free, u.calls)}
		evicted = u.longestIdle(hasCalls)
	case s.busy == 0 && s.calls > 0 && l.spare >= max(l.limits.Calls/sparePart, 1):
		refused = &session.LimitError{
			Name: "max_streams", Limit: strconv.Itoa(l.limits.Calls) + ", of which idle connections may have " +
				strconv.Itoa(l.spare) + " beyond one each",
		}
		evicted = l.evictable(u, hasSpare)
	}
	if evicted != nil {
		l.release(evicted)
		refused = nil
	}
	if refused != nil {
		refused.RetryAfter = session.BusyRetryAfter
	}
	l.count(s, 1)
	return evicted, refused
}

// endCall ends a call, and reports whether it was the only call of its connection.
func (l *limiter) endCall(s *slot) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.use == nil {
		return false
	}
	l.count(s, -1)
	return s.calls == 0
}

// count adds calls to a connection. Called with mu held.
func (l *limiter) count(s *slot, calls int) {
	l.spare -= s.spare()
	l.calls += calls
	s.calls += calls
	l.spare += s.spare()
	s.use.calls += calls
	l.sort(s.use)
}

// shared reports whether a connection has more than one call.
func (l *limiter) shared(s *slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.calls > 1
}

// held returns how many connections an address has.
func (l *limiter) held(address netip.Addr) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.addresses[address]; u != nil {
		return u.connections
	}
	return 0
}

// setBusy marks a connection as serving a session or a request. Each setBusy has its setIdle.
func (l *limiter) setBusy(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.busy == 0 && s.use != nil {
		l.spare -= s.spare()
		l.unlist(s)
	}
	s.busy++
}

// setIdle reverts one setBusy.
func (l *limiter) setIdle(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.busy--; s.busy == 0 && s.use != nil {
		l.spare += s.spare()
		l.list(s)
	}
}

// open returns the numbers of connections, and of calls on them, that have a slot.
func (l *limiter) open() (connections, calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connections, l.calls
}
