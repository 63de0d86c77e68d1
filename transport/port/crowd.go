package port

import (
	pq "container/heap"
	"net/netip"
	"strconv"
	"sync"

	"holdfast/session"
)

const (
	// shareOfFree is how many times the free places an address may have. So one address gets three quarters of all at
	// most, the next one three quarters of what is left, and those that have few always find some.
	shareOfFree = 3
	// SparePart is the part of all calls that idle connections may have beyond one each.
	SparePart = 8
	// mostLooked is how many idle connections of an address are looked at for one that has calls.
	mostLooked = 64
)

// CrowdLimits bound what a port takes on; 0 is no limit.
type CrowdLimits struct {
	Connections int
	// PerAddress bounds the connections of one address.
	PerAddress int
	// Calls bounds those under way on all connections.
	Calls int
}

// Crowd gives the places of a port to connections, and to calls on them. A connection is engaged while it serves
// something: a session, or a request under way. When places are short the others make room: the one that has been idle
// for longest, of the address that holds most. When none is idle, whoever comes is refused. An address that holds much
// more than is free makes room itself, or is refused, before all places are taken. Connections without an IP address
// count as one address, and have no such share. Safe for concurrent use.
type Crowd struct {
	Limits CrowdLimits

	mu sync.Mutex
	// connections and calls are how many have a place, spare how many calls idle connections have beyond one each.
	// guarded by mu
	connections, calls, Spare int

	Addresses map[netip.Addr]*neighbours // guarded by mu
	// Idle are those that have idle connections; the first holds most. guarded by mu
	Idle idlers
}

// neighbours are the connections of one address.
type neighbours struct {
	address            netip.Addr
	Connections, calls int
	// Oldest and newest are the ends of the list of idle connections.
	Oldest, newest *Seat
	// index is where they are among the idlers, -1 for nowhere.
	index int
}

// Seat is the place of one connection. All of it but end is the crowd's.
type Seat struct {
	// end ends the connection. It is called without a lock.
	end func()

	of             *neighbours // nil for none: it was never given one, or has given it back
	calls, engaged int
	older, Newer   *Seat
}

// spare is how many calls the connection has beyond one while it is idle.
func (s *Seat) spare() int {
	if s.engaged > 0 {
		return 0
	}
	return max(s.calls-1, 0)
}

// Places are what an address holds.
func (n *neighbours) Places() int { return n.Connections + n.calls }

// Enter gives a connection a place, or refuses it. The caller ends the connection that made room, if there is one.
func (c *Crowd) Enter(s *Seat, address netip.Addr) (evicted *Seat, refused *session.LimitError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.Addresses[address]
	if n == nil {
		n = &neighbours{address: address, index: -1}
	}
	free := c.Limits.Connections - c.connections
	switch {
	case c.Limits.PerAddress > 0 && n.Connections >= c.Limits.PerAddress:
		refused = &session.LimitError{Name: "max_connections_per_address", Limit: strconv.Itoa(c.Limits.PerAddress)}
		evicted = n.Oldest
	case c.Limits.Connections > 0 && free <= 0:
		refused = &session.LimitError{Name: "max_connections", Limit: strconv.Itoa(c.Limits.Connections)}
		evicted = c.yields(n, func(*Seat) bool { return true })
	case c.Limits.Connections > 0 && n.hogs(n.Connections, free):
		refused = &session.LimitError{
			Name: "max_connections", Limit: shareText(c.Limits.Connections, free, n.Connections),
		}
		evicted = n.Oldest
	}
	if refused != nil && evicted == nil {
		refused.RetryAfter = session.BusyRetryAfter
		return nil, refused
	}
	if evicted != nil {
		c.give(evicted)
	}
	if c.Addresses == nil {
		c.Addresses = map[netip.Addr]*neighbours{}
	}
	c.Addresses[address] = n // which may have been the last of its address until now
	c.connections++
	n.Connections++
	s.of = n
	c.list(s)
	return evicted, nil
}

// hogs reports whether an address that holds so many places holds too many to be given another of the free ones.
func (n *neighbours) hogs(held, free int) bool { return n.address.IsValid() && held > shareOfFree*free }

func shareText(most, free, held int) string {
	return strconv.Itoa(most) + ", of which " + strconv.Itoa(free) + " are free: an address that has " +
		strconv.Itoa(held) + " gets no more"
}

// yields returns the connection that makes room for n: of whoever holds most, if that is more than n holds, else of n
// itself. Called with mu held.
func (c *Crowd) yields(n *neighbours, fits func(*Seat) bool) *Seat {
	if len(c.Idle) > 0 && c.Idle[0].Places() > n.Places() {
		if s := c.Idle[0].find(fits); s != nil {
			return s
		}
	}
	return n.find(fits)
}

// find returns the connection that has been idle for longest of those that fit.
func (n *neighbours) find(fits func(*Seat) bool) *Seat {
	looked := 0
	for s := n.Oldest; s != nil && looked < mostLooked; s = s.Newer {
		if fits(s) {
			return s
		}
		looked++
	}
	return nil
}

// Leave takes the place of a connection back, if it has one.
func (c *Crowd) Leave(s *Seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give(s)
}

// give is leave. Called with mu held.
func (c *Crowd) give(s *Seat) {
	n := s.of
	if n == nil {
		return
	}
	if s.engaged == 0 {
		c.unlist(s)
	}
	c.connections--
	n.Connections--
	c.Spare -= s.spare()
	c.calls -= s.calls
	n.calls -= s.calls
	s.of = nil
	if n.Connections == 0 {
		delete(c.Addresses, n.address)
	}
	c.moved(n)
}

// Begin gives a call of a connection a place, or refuses it: it has a place all the same until finish, for it takes one
// to be refused. The caller ends the connection that made room, if there is one.
func (c *Crowd) Begin(s *Seat) (evicted *Seat, refused *session.LimitError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := s.of
	if n == nil {
		return nil, nil
	}
	free := c.Limits.Calls - c.calls
	silent := func(other *Seat) bool { return other != s && other.calls > 0 }
	spares := func(other *Seat) bool { return other != s && other.spare() > 0 }
	switch {
	case c.Limits.Calls <= 0:
	case free <= 0:
		refused = &session.LimitError{Name: "max_streams", Limit: strconv.Itoa(c.Limits.Calls)}
		evicted = c.yields(n, silent)
	case n.hogs(n.calls, free):
		refused = &session.LimitError{Name: "max_streams", Limit: shareText(c.Limits.Calls, free, n.calls)}
		evicted = n.find(silent)
	case s.engaged == 0 && s.calls > 0 && c.Spare >= max(c.Limits.Calls/SparePart, 1):
		refused = &session.LimitError{
			Name: "max_streams", Limit: strconv.Itoa(c.Limits.Calls) + ", of which those that serve nothing may have " +
				strconv.Itoa(c.Spare) + " beside one each",
		}
		evicted = c.yields(n, spares)
	}
	if evicted != nil {
		c.give(evicted)
		refused = nil
	}
	if refused != nil {
		refused.RetryAfter = session.BusyRetryAfter
	}
	c.count(s, 1)
	return evicted, refused
}

// Finish takes the place of a call back, and reports whether it was the only one of its connection.
func (c *Crowd) Finish(s *Seat) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.of == nil {
		return false
	}
	c.count(s, -1)
	return s.calls == 0
}

// count is called with mu held.
func (c *Crowd) count(s *Seat, calls int) {
	c.Spare -= s.spare()
	c.calls += calls
	s.calls += calls
	c.Spare += s.spare()
	s.of.calls += calls
	c.moved(s.of)
}

// Shared reports whether a connection has more than one call.
func (c *Crowd) Shared(s *Seat) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.calls > 1
}

// Engage notes that a connection serves something, disengage that it no longer does.
func (c *Crowd) Engage(s *Seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.engaged == 0 && s.of != nil {
		c.Spare -= s.spare()
		c.unlist(s)
	}
	s.engaged++
}

// Disengage takes back an [Crowd.Engage].
func (c *Crowd) Disengage(s *Seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.engaged--; s.engaged == 0 && s.of != nil {
		c.Spare += s.spare()
		c.list(s)
	}
}

// list makes a connection the newest idle one. Called with mu held.
func (c *Crowd) list(s *Seat) {
	n := s.of
	s.older, s.Newer = n.newest, nil
	if n.newest != nil {
		n.newest.Newer = s
	} else {
		n.Oldest = s
	}
	n.newest = s
	c.moved(n)
}

// unlist is called with mu held.
func (c *Crowd) unlist(s *Seat) {
	n := s.of
	if s.older != nil {
		s.older.Newer = s.Newer
	} else {
		n.Oldest = s.Newer
	}
	if s.Newer != nil {
		s.Newer.older = s.older
	} else {
		n.newest = s.older
	}
	s.older, s.Newer = nil, nil
	c.moved(n)
}

// moved puts an address where it belongs among the idlers. Called with mu held.
func (c *Crowd) moved(n *neighbours) {
	switch {
	case n.Oldest == nil && n.index >= 0:
		pq.Remove(&c.Idle, n.index)
	case n.Oldest != nil && n.index < 0:
		pq.Push(&c.Idle, n)
	case n.index >= 0:
		pq.Fix(&c.Idle, n.index)
	}
}

// Open returns how many connections, and calls on them, have a place.
func (c *Crowd) Open() (connections, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connections, c.calls
}

// idlers are a heap of addresses: the first holds most.
type idlers []*neighbours

func (h *idlers) Len() int           { return len(*h) }
func (h *idlers) Less(i, j int) bool { return (*h)[i].Places() > (*h)[j].Places() }

// Swap is that of a heap.
func (h *idlers) Swap(i, j int) {
	all := *h
	all[i], all[j] = all[j], all[i]
	all[i].index, all[j].index = i, j
}

// Push is that of a heap.
func (h *idlers) Push(x any) {
	if n, ok := x.(*neighbours); ok { // the heap has nothing else
		n.index = len(*h)
		*h = append(*h, n)
	}
}

// Pop is that of a heap.
func (h *idlers) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	n.index = -1
	return n
}
