// Package route decides where a client goes next: rounds over servers, back-off with jitter, what a refusal means, and
// which clients move when the list of servers changes. It does no I/O and starts no goroutine.
package route

import (
	"maps"
	"net"
	"slices"
	"time"
)

const (
	// maxLearnt bounds the addresses learnt from nodes; the oldest is forgotten.
	maxLearnt = 16
	// MaxRacing bounds the concurrent attempts to connect, and to resolve a name; further attempts wait for one of them
	// to end.
	MaxRacing = 8
	// MaxAddresses is how many addresses of one name are tried in a round.
	MaxAddresses = 64
)

// Target is the destination of an attempt: a configured or learnt server, and one of its addresses; empty while its
// name is unresolved.
type Target struct{ Server, Address string }

// Router chooses the next server. It is a part of the loop.
type Router struct {
	Servers []string // configured
	learnt
	Last string // served most recently: tried last
	// Spread, when set, sorts servers so that the connections of a pool use different servers.
	Spread func(servers []string)

	Moving    bool
	first     string // tried before the others of the round
	Begun     bool   // a round is running; Left, Resolving and the racing attempts belong to the round
	Left      []Target
	Resolving int    // names that are being resolved
	Round     uint64 // numbers the rounds: names resolved for a former round are useless
	Rounds    int    // that came to nothing, in a row
	At        time.Time
	// NotBefore is the retry time of each refusing server; Others is set when a round met a server that did not refuse.
	NotBefore map[Target]time.Time
	Others    bool
	// Fresh: a node has served something since the last move began, so the next move begins a new row of rounds.
	Fresh bool
	// Refused: since a node has last served anything, a node has reported that it is read-only.
	Refused bool
}

// learnt is what nodes have reported: addresses, and that they are being drained.
type learnt struct {
	Learnt []string
	// reached are the learnt addresses at which there was a node, and failed counts the failed attempts in a row at an
	// address that was never reached. Only other nodes may be able to reach such an address, as with names inside a
	// container network.
	reached map[string]bool
	failed  map[string]int
	// removed are servers of a former configuration: they are not learnt.
	removed map[string]bool
	// avoided are servers that are tried last, and until when: their nodes are being drained.
	avoided map[string]time.Time
}

// Begin starts a round over all servers, in this order: the configured servers, shuffled; learnt servers that were
// reached; learnt servers that were never reached; avoided servers; the server that served last, unless home puts it
// first. Unreached addresses that have failed are left out, unless no node answers: silent reports that none answered
// in the previous round. Each round resolves the names again, when their turn comes.
func (m *Router) Begin(d *Jitter, home Home, silent bool) {
	servers := slices.Clone(m.Servers)
	d.Shuffle(servers)
	var good, doubtful []string
	for _, a := range m.Learnt {
		switch {
		case m.reached[a], a == m.Last:
			good = append(good, a)
		case m.failed[a] == 0 || silent:
			doubtful = append(doubtful, a)
		}
	}
	d.Shuffle(good)
	d.Shuffle(doubtful)
	all := append(servers, good...)
	i := slices.Index(all, m.Last)
	if i >= 0 && home == Only {
		m.Plan([]string{m.Last})
		return
	}
	if i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	if m.Spread != nil {
		m.Spread(all)
	}
	all = m.avoidedLast(append(all, doubtful...))
	switch {
	case i >= 0 && home == First:
		all = slices.Insert(all, 0, m.Last)
	case i >= 0:
		all = append(all, m.Last)
	}
	m.Plan(all)
}

// Avoid has a server tried last in rounds until then; zero ends that.
func (m *Router) Avoid(server string, then time.Time) {
	if m.avoided == nil {
		m.avoided = make(map[string]time.Time)
	}
	if m.avoided[server] = then; then.IsZero() {
		delete(m.avoided, server)
	}
}

// Forgive forgets the servers to be avoided until now.
func (m *Router) Forgive(now time.Time) {
	maps.DeleteFunc(m.avoided, func(_ string, then time.Time) bool { return !now.Before(then) })
}

// avoidedLast moves avoided servers to the end; the others keep their order.
func (m *Router) avoidedLast(servers []string) []string {
	if len(m.avoided) == 0 {
		return servers
	}
	var good, bad []string
	for _, s := range servers {
		if _, avoided := m.avoided[s]; avoided {
			bad = append(bad, s)
		} else {
			good = append(good, s)
		}
	}
	return append(good, bad...)
}

// Plan starts a round over servers, in their order.
func (m *Router) Plan(servers []string) {
	m.Begun, m.Left, m.Resolving, m.Others = true, nil, 0, false
	m.Round++
	for _, s := range servers {
		m.Left = append(m.Left, Target{Server: s})
	}
}

// Learn adds addresses that a node reported.
func (m *Router) Learn(addresses []string) {
	for _, a := range addresses {
		_, port, err := net.SplitHostPort(a)
		if err != nil || port == "" || m.removed[a] || slices.Contains(m.Servers, a) || slices.Contains(m.Learnt, a) {
			continue
		}
		m.Learnt = append(m.Learnt, a)
		if len(m.Learnt) > maxLearnt {
			m.forget(m.Learnt[slices.IndexFunc(m.Learnt, func(a string) bool { return a != m.Last })])
		}
	}
}

// Replace learns the addresses of all members of the cluster, and forgets other learnt addresses. It keeps the server
// that served last: local sessions live only there, also when the members list another name for the server.
func (m *Router) Replace(members []string) {
	for _, a := range slices.Clone(m.Learnt) {
		if a != m.Last && !slices.Contains(members, a) {
			m.forget(a)
		}
	}
	m.Learn(members)
}

// forget drops a learnt address, also from the round. The round may be [Router.Dry] then.
func (m *Router) forget(address string) {
	m.Learnt = slices.DeleteFunc(m.Learnt, func(a string) bool { return a == address })
	m.Left = slices.DeleteFunc(m.Left, func(t Target) bool { return t.Server == address })
	delete(m.reached, address)
	delete(m.failed, address)
}

// Configure replaces the configured servers. Removed servers are not learnt from now on.
func (m *Router) Configure(servers []string) {
	former := m.Servers
	m.Servers = servers
	for _, a := range former {
		if m.removed == nil {
			m.removed = map[string]bool{}
		}
		m.removed[a] = true
	}
	for _, a := range servers {
		delete(m.removed, a)
	}
	m.Learnt = slices.DeleteFunc(m.Learnt, func(a string) bool {
		gone := slices.Contains(former, a) || slices.Contains(servers, a)
		if gone {
			delete(m.reached, a)
			delete(m.failed, a)
		}
		return gone
	})
}

// Doubtful reports whether a server is a learnt address that was never reached, and how often it has failed.
func (m *Router) Doubtful(server string) (failed int, is bool) {
	return m.failed[server], slices.Contains(m.Learnt, server) && !m.reached[server]
}

// IsDoubtful reports whether the next attempt need not wait for the attempt at server: a learnt address that was
// never reached, and has failed or is followed by another address that was never reached.
func (m *Router) IsDoubtful(server string) bool {
	failed, doubtful := m.Doubtful(server)
	if !doubtful || failed > 0 || len(m.Left) == 0 {
		return doubtful && failed > 0
	}
	_, too := m.Doubtful(m.Left[0].Server)
	return too
}

// Reached notes that there is a node at a server.
func (m *Router) Reached(server string) {
	if _, is := m.Doubtful(server); is {
		if m.reached == nil {
			m.reached = map[string]bool{}
		}
		m.reached[server] = true
		delete(m.failed, server)
	}
}

// Failed notes that an attempt to reach a server was in vain.
func (m *Router) Failed(server string) {
	if _, is := m.Doubtful(server); is {
		if m.failed == nil {
			m.failed = map[string]int{}
		}
		m.failed[server]++
	}
}

// Prefer makes address the next target, if it has not been tried in this round: two nodes that name each other get no
// more attempts than others.
func (m *Router) Prefer(address string) {
	m.Learn([]string{address})
	m.first = address
}

// Pop returns the next target; false when every target of the round was tried or is being tried.
func (m *Router) Pop() (Target, bool) {
	if len(m.Left) == 0 {
		return Target{}, false
	}
	i := max(slices.IndexFunc(m.Left, func(t Target) bool { return t.Server == m.first }), 0)
	t := m.Left[i]
	m.Left = slices.Delete(m.Left, i, i+1)
	m.first = ""
	return t, true
}

// Defer has a server tried last.
func (m *Router) Defer(server string) {
	if i := slices.IndexFunc(m.Left, func(t Target) bool { return t.Server == server }); i >= 0 {
		m.Left = append(slices.Delete(m.Left, i, i+1), Target{Server: server})
	}
}

// PutBack puts targets first: they were given up for another target, or are the addresses of a name.
func (m *Router) PutBack(targets ...Target) { m.Left = slices.Insert(m.Left, 0, targets...) }

// Dry reports whether a round has no target left, given the number of racing connections. It ends when its last attempt
// has failed; remaining targets may also have been forgotten, and then no attempt ends the round.
func (m *Router) Dry(racing int) bool {
	return m.Moving && m.Begun && len(m.Left) == 0 && m.Resolving == 0 && racing == 0
}

// WakesAt returns when the next attempt is due, given the number of racing connections; zero when it waits for another
// event.
func (m *Router) WakesAt(racing int) time.Time {
	if !m.Moving || m.Begun && len(m.Left) == 0 || m.Resolving+racing >= MaxRacing {
		return time.Time{}
	}
	return m.At
}

// Postpone has a server not tried before then.
func (m *Router) Postpone(now time.Time, t Target, then time.Time) {
	maps.DeleteFunc(m.NotBefore, func(_ Target, at time.Time) bool { return !now.Before(at) })
	if m.NotBefore == nil {
		m.NotBefore = map[Target]time.Time{}
	}
	m.NotBefore[t] = then
}

// Soonest returns when the first postponed address is due; zero when none waits.
func (m *Router) Soonest(now time.Time) (at time.Time) {
	for _, then := range m.NotBefore {
		if now.Before(then) {
			at = Earliest(at, then)
		}
	}
	return at
}

// Home says when a round over the nodes tries the node that served last, the only node that knows the local sessions
// (L1 local to one node).
type Home uint8

const (
	// Last says that the node has nothing that other nodes do not have.
	Last Home = iota
	// First says that the node has the local sessions, if it is alive; the other sessions can move to any node.
	First
	// Only says that no other node can do anything for this client.
	Only
)

// Earliest returns the earlier of two moments of which zero is never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Latest returns the later of two moments.
func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
