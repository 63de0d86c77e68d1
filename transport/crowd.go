package transport

import (
	pq "container/heap"
	"net/netip"
	"strconv"
	"sync"

	"holdfast/session"
)

const (
	// shareOfFree is how many times the free places an address may have. So one address gets three quarters of all at most, the next one
	// three quarters of what is left, and those that have few always find some.
	shareOfFree = 3
	// sparePart is the part of all calls that idle connections may have beyond one each.
	sparePart = 8
	// mostLooked is how many idle connections of an address are looked at for one that has calls.
	mostLooked = 64
)

// crowdLimits bound what a port takes on; 0 is no limit.
type crowdLimits struct {
	connections int
	// perAddress bounds the connections of one address.
	perAddress int
	// calls bounds those under way on all connections.
	calls int
}

// crowd gives the places of a port to connections, and to calls on them. A connection is engaged while it serves something: a session, or
// a request under way. When places are short the others make room: the one that has been idle for longest, of the address that holds most.
// When none is idle, whoever comes is refused. An address that holds much more than is free makes room itself, or is refused, before all places
// are taken. Connections without an IP address count as one address, and have no such share. Safe for concurrent use.
type crowd struct {
	limits crowdLimits

	mu sync.Mutex
	// connections and calls are how many have a place, spare how many calls idle connections have beyond one each. guarded by mu
	connections, calls, spare int

	addresses map[netip.Addr]*neighbours // guarded by mu
	// idle are those that have idle connections; the first holds most. guarded by mu
	idle idlers
}

// neighbours are the connections of one address.
type neighbours struct {
	address            netip.Addr
	connections, calls int
	// oldest and newest are the ends of the list of idle connections.
	oldest, newest *seat
	// index is where they are among the idlers, -1 for nowhere.
	index int
}

// seat is the place of one connection. All of it but end is the crowd's.
type seat struct {
	// end ends the connection. It is called without a lock.
	end func()

	of             *neighbours // nil for none: it was never given one, or has given it back
	calls, engaged int
	older, newer   *seat
}

// spare is how many calls the connection has beyond one while it is idle.
func (s *seat) spare() int {
	if s.engaged > 0 {
		return 0
	}
	return max(s.calls-1, 0)
}

// places are what an address holds.
func (n *neighbours) places() int { return n.connections + n.calls }

// enter gives a connection a place, or refuses it. The caller ends the connection that made room, if there is one.
func (c *crowd) enter(s *seat, address netip.Addr) (evicted *seat, refused *session.LimitError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.addresses[address]
	if n == nil {
		n = &neighbours{address: address, index: -1}
	}
	free := c.limits.connections - c.connections
	switch {
	case c.limits.perAddress > 0 && n.connections >= c.limits.perAddress:
		refused = &session.LimitError{Name: "max_connections_per_address", Limit: strconv.Itoa(c.limits.perAddress)}
		evicted = n.oldest
	case c.limits.connections > 0 && free <= 0:
		refused = &session.LimitError{Name: "max_connections", Limit: strconv.Itoa(c.limits.connections)}
		evicted = c.yields(n, func(*seat) bool { return true })
	case c.limits.connections > 0 && n.hogs(n.connections, free):
		refused = &session.LimitError{Name: "max_connections", Limit: shareText(c.limits.connections, free, n.connections)}
		evicted = n.oldest
	}
	if refused != nil && evicted == nil {
		refused.RetryAfter = session.BusyRetryAfter
		return nil, refused
	}
	if evicted != nil {
		c.give(evicted)
	}
	if c.addresses == nil {
		c.addresses = map[netip.Addr]*neighbours{}
	}
	c.addresses[address] = n // which may have been the last of its address until now
	c.connections++
	n.connections++
	s.of = n
	c.list(s)
	return evicted, nil
}

// hogs reports whether an address that holds so many places holds too many to be given another of the free ones.
func (n *neighbours) hogs(held, free int) bool { return n.address.IsValid() && held > shareOfFree*free }

func shareText(most, free, held int) string {
	return strconv.Itoa(most) + ", of which " + strconv.Itoa(free) + " are free: an address that has " + strconv.Itoa(held) + " gets no more"
}

// yields returns the connection that makes room for n: of whoever holds most, if that is more than n holds, else of n itself. Called with mu held.
func (c *crowd) yields(n *neighbours, fits func(*seat) bool) *seat {
	if len(c.idle) > 0 && c.idle[0].places() > n.places() {
		if s := c.idle[0].find(fits); s != nil {
			return s
		}
	}
	return n.find(fits)
}

// find returns the connection that has been idle for longest of those that fit.
func (n *neighbours) find(fits func(*seat) bool) *seat {
	looked := 0
	for s := n.oldest; s != nil && looked < mostLooked; s = s.newer {
		if fits(s) {
			return s
		}
		looked++
	}
	return nil
}

// leave takes the place of a connection back, if it has one.
func (c *crowd) leave(s *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give(s)
}

// give is leave. Called with mu held.
func (c *crowd) give(s *seat) {
	n := s.of
	if n == nil {
		return
	}
	if s.engaged == 0 {
		c.unlist(s)
	}
	c.connections--
	n.connections--
	c.spare -= s.spare()
	c.calls -= s.calls
	n.calls -= s.calls
	s.of = nil
	if n.connections == 0 {
		delete(c.addresses, n.address)
	}
	c.moved(n)
}

// begin gives a call of a connection a place, or refuses it: it has a place all the same until finish, for it takes one to be refused. The caller
// ends the connection that made room, if there is one.
func (c *crowd) begin(s *seat) (evicted *seat, refused *session.LimitError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := s.of
	if n == nil {
		return nil, nil
	}
	free := c.limits.calls - c.calls
	silent := func(other *seat) bool { return other != s && other.calls > 0 }
	spares := func(other *seat) bool { return other != s && other.spare() > 0 }
	switch {
	case c.limits.calls <= 0:
	case free <= 0:
		refused = &session.LimitError{Name: "max_streams", Limit: strconv.Itoa(c.limits.calls)}
		evicted = c.yields(n, silent)
	case n.hogs(n.calls, free):
		refused = &session.LimitError{Name: "max_streams", Limit: shareText(c.limits.calls, free, n.calls)}
		evicted = n.find(silent)
	case s.engaged == 0 && s.calls > 0 && c.spare >= max(c.limits.calls/sparePart, 1):
		refused = &session.LimitError{
			Name: "max_streams", Limit: strconv.Itoa(c.limits.calls) + ", of which those that serve nothing may have " + strconv.Itoa(c.spare) + " beside one each",
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

// finish takes the place of a call back, and reports whether it was the only one of its connection.
func (c *crowd) finish(s *seat) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.of == nil {
		return false
	}
	c.count(s, -1)
	return s.calls == 0
}

// count is called with mu held.
func (c *crowd) count(s *seat, calls int) {
	c.spare -= s.spare()
	c.calls += calls
	s.calls += calls
	c.spare += s.spare()
	s.of.calls += calls
	c.moved(s.of)
}

// shared reports whether a connection has more than one call.
func (c *crowd) shared(s *seat) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.calls > 1
}

// engage notes that a connection serves something, disengage that it no longer does.
func (c *crowd) engage(s *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.engaged == 0 && s.of != nil {
		c.spare -= s.spare()
		c.unlist(s)
	}
	s.engaged++
}

func (c *crowd) disengage(s *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.engaged--; s.engaged == 0 && s.of != nil {
		c.spare += s.spare()
		c.list(s)
	}
}

// list makes a connection the newest idle one. Called with mu held.
func (c *crowd) list(s *seat) {
	n := s.of
	s.older, s.newer = n.newest, nil
	if n.newest != nil {
		n.newest.newer = s
	} else {
		n.oldest = s
	}
	n.newest = s
	c.moved(n)
}

// unlist is called with mu held.
func (c *crowd) unlist(s *seat) {
	n := s.of
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		n.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		n.newest = s.older
	}
	s.older, s.newer = nil, nil
	c.moved(n)
}

// moved puts an address where it belongs among the idlers. Called with mu held.
func (c *crowd) moved(n *neighbours) {
	switch {
	case n.oldest == nil && n.index >= 0:
		pq.Remove(&c.idle, n.index)
	case n.oldest != nil && n.index < 0:
		pq.Push(&c.idle, n)
	case n.index >= 0:
		pq.Fix(&c.idle, n.index)
	}
}

// open returns how many connections, and calls on them, have a place.
func (c *crowd) open() (connections, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connections, c.calls
}

// idlers are a heap of addresses: the first holds most.
type idlers []*neighbours

func (h *idlers) Len() int           { return len(*h) }
func (h *idlers) Less(i, j int) bool { return (*h)[i].places() > (*h)[j].places() }

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
