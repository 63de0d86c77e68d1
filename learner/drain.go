package learner

import (
	"math/rand/v2"
	"sync/atomic"

	"holdfast/session"
)

// drainer says whether the node is being drained, and where its clients should go. The zero value is a node that is not
// drained. Safe for concurrent use.
type drainer struct {
	// to returns the client addresses of the nodes that can serve clients; nil while the node is not being drained.
	to atomic.Pointer[func() []string]
}

// on reports whether the node is being drained. It takes no lock and allocates nothing.
func (d *drainer) on() bool { return d.to.Load() != nil }

// refusal returns the refusal of a client that comes to the node. Each client gets the addresses in another order.
func (d *drainer) refusal() error {
	var try []string
	if to := d.to.Load(); to != nil {
		try = (*to)()
		rand.Shuffle(len(try), func(i, j int) { try[i], try[j] = try[j], try[i] })
	}
	return &session.DrainingError{Try: try}
}

// bringsSession reports whether a request brings a session to the node.
func bringsSession(r *session.Request) bool {
	return r.Open != nil || r.Resume != nil || r.Resumes != nil
}

// Served counts the connections that have global sessions here, and those sessions.
type Served struct{ Connections, Sessions int }

// Drain refuses opens, and resumes of global sessions, from now on, until [Offload.End]. All else continues: touches,
// closes, reads and writes of the sessions here. to returns the client addresses of the nodes that can serve clients;
// it must be safe for concurrent use.
func (s *Server) Drain(to func() []string) *Offload {
	s.modeFacts.drain.to.Store(&to)
	return &Offload{server: s, to: to, parts: make(map[string]int), clients: s.clients.list}
}

// Offload sends the present clients away because the node's disk is full. It refuses nothing: clients that come later,
// or come back, are served.
func (s *Server) Offload(to func() []string) *Offload {
	present := s.clients.list()
	return &Offload{
		server: s, to: to, parts: make(map[string]int), clients: func() []*connection { return present }, diskFull: true,
	}
}

// Offload sends clients of a node away. Not safe for concurrent use.
type Offload struct {
	server *Server
	to     func() []string
	// clients returns the connections to be sent away.
	clients func() []*connection
	// diskFull means that the node itself stays.
	diskFull bool
	// parts counts, for each address, the sessions of the clients that got it as the first address.
	parts map[string]int
}

// AskNext asks more connections, in no order, to move to other nodes, until their global sessions are at least
// sessions. It returns the number of global sessions of the notified connections.
func (o *Offload) AskNext(sessions int) (asked int) {
	clients := o.server.clients
	for _, c := range o.clients() {
		if asked >= sessions {
			break
		}
		if !clients.markDrained(c, true) {
			continue
		}
		n := c.globals()
		if to := c.listener(); to != nil {
			to.Draining(&session.DrainingError{Try: o.inTurn(n), DiskFull: o.diskFull})
			asked += n
		}
	}
	return asked
}

// inTurn returns addresses in the order for a client with so many sessions: first the address with the fewest sessions
// so far, to which inTurn adds them, and the others at random.
func (o *Offload) inTurn(sessions int) []string {
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

// End ends what Drain or Offload began, and notifies the clients that have stayed.
func (o *Offload) End() {
	clients := o.server.clients
	o.server.modeFacts.drain.to.Store(nil)
	for _, c := range clients.list() {
		if to := c.listener(); to != nil && clients.markDrained(c, false) {
			to.DrainingEnded()
		}
	}
}

// CloseRemaining ends the connections that were asked to go and still have global sessions here. It spares connections
// with local sessions, which live nowhere else.
func (s *Server) CloseRemaining() {
	for _, c := range s.clients.list() {
		if to := c.listener(); to != nil && c.globals() > 0 && c.localCount() == 0 {
			to.DrainTimeout()
		}
	}
}

// ServedBy counts the connections of a server that still have global sessions there.
func ServedBy(s *Server) (all Served) {
	for _, c := range s.clients.list() {
		if n := c.globals(); n > 0 {
			all.Connections++
			all.Sessions += n
		}
	}
	return all
}

// Excluded returns the members to which the leader wants no client sent; false before the first heartbeat.
func (s *Server) Excluded() (session.Excluded, bool) {
	if a := s.beats.excluded.Load(); a != nil {
		return *a, true
	}
	return session.Excluded{}, false
}

// globals returns the number of global sessions served through c.
func (c *connection) globals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions.size()
}

// localCount returns the number of local sessions served through c.
func (c *connection) localCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.locals)
}
