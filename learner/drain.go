package learner

import (
	"math/rand/v2"
	"sync/atomic"

	"holdfast/session"
)

// drainer says whether the node is being drained, and where its clients are to go. The zero value is not. Safe for
// concurrent use.
type drainer struct {
	// to returns the client addresses of the nodes that can take clients; nil while the node is not being drained.
	to atomic.Pointer[func() []string]
}

// on takes no lock and allocates nothing.
func (d *drainer) on() bool { return d.to.Load() != nil }

// refusal is the refusal of a client that comes to the node. Each client gets another order of addresses.
func (d *drainer) refusal() error {
	var try []string
	if to := d.to.Load(); to != nil {
		try = (*to)()
		rand.Shuffle(len(try), func(i, j int) { try[i], try[j] = try[j], try[i] })
	}
	return &session.DrainingError{Try: try}
}

// takesOn reports whether a request makes the node take on a session.
func takesOn(r *session.Request) bool { return r.Open != nil || r.Resume != nil || r.Resumes != nil }

// Served are the connections that have global sessions here, and those sessions.
type Served struct{ Connections, Sessions int }

// Drain refuses opens, and resumes of global sessions, from now on, until [SendOff.End]. Everything else goes on:
// touches, closes, reads and writes of the sessions that are here. to returns the client addresses of the nodes that
// can take clients; it must be safe for concurrent use.
func (s *Server) Drain(to func() []string) *SendOff {
	s.standing.drain.to.Store(&to)
	return &SendOff{server: s, to: to, parts: make(map[string]int), clients: s.clients.list}
}

// SendAway sends the present clients away because the node's disk is full, and refuses nothing: those that come later, or
// come back, are served.
func (s *Server) SendAway(to func() []string) *SendOff {
	present := s.clients.list()
	return &SendOff{
		server: s, to: to, parts: make(map[string]int), clients: func() []*connection { return present }, diskFull: true,
	}
}

// SendOff sends the clients of a node away. Not safe for concurrent use.
type SendOff struct {
	server *Server
	to     func() []string
	// clients returns the connections to send away.
	clients func() []*connection
	// diskFull says that the node stays.
	diskFull bool
	// parts are the sessions of the clients that were told each address first.
	parts map[string]int
}

// Tell tells more connections to move their sessions to other nodes, in no order, until those that it told have at
// least so many sessions. It returns how many sessions were told.
func (o *SendOff) Tell(sessions int) (told int) {
	clients := o.server.clients
	for _, c := range o.clients() {
		if told >= sessions {
			break
		}
		if !clients.tellDrained(c, true) {
			continue
		}
		n := c.globals()
		if to := c.listener(); to != nil {
			to.Draining(&session.DrainingError{Try: o.inTurn(n), DiskFull: o.diskFull})
			told += n
		}
	}
	return told
}

// inTurn returns addresses in the order for a client with so many sessions: first the one whose part is the smallest
// yet, to which it adds them, and the others at random.
func (o *SendOff) inTurn(sessions int) []string {
	order := o.to()
	if len(order) == 0 {
		return nil
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	first := 0
	for i, address := range order {
		if o.parts[address] < o.parts[order[first]] {
			first = i
		}
	}
	order[0], order[first] = order[first], order[0]
	o.parts[order[0]] += max(sessions, 1)
	return order
}

// End ends what Drain or SendAway began, and tells the clients that have not gone.
func (o *SendOff) End() {
	clients := o.server.clients
	o.server.standing.drain.to.Store(nil)
	for _, c := range clients.list() {
		if to := c.listener(); to != nil && clients.tellDrained(c, false) {
			to.DrainingEnded()
		}
	}
}

// Dismiss ends the connections that were told to go and still have global sessions here, but for those with local
// sessions: these live nowhere else.
func (s *Server) Dismiss() {
	for _, c := range s.clients.list() {
		if to := c.listener(); to != nil && c.globals() > 0 && c.localCount() == 0 {
			to.Dismissed()
		}
	}
}

// ServedBy returns the connections of a server that still have global sessions there.
func ServedBy(s *Server) (all Served) {
	for _, c := range s.clients.list() {
		if n := c.globals(); n > 0 {
			all.Connections++
			all.Sessions += n
		}
	}
	return all
}

// Aside returns the members to which no client is sent, by the leader's word; false before a leader has told.
func (s *Server) Aside() (session.Aside, bool) {
	if a := s.beats.aside.Load(); a != nil {
		return *a, true
	}
	return session.Aside{}, false
}

// globals returns how many global sessions are served through c.
func (c *connection) globals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions.size()
}

// localCount returns how many local sessions are served through c.
func (c *connection) localCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.locals)
}
