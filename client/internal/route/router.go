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
	// MaxRacing bounds the attempts to connect, and to resolve a name, that are under way at a time; the next one waits
	// for one of them to end.
	MaxRacing = 8
	// MaxAddresses is how many addresses of one name are tried in a round.
	MaxAddresses = 64
)

// Target is where an attempt goes: a server as it was configured or learnt, and one of its addresses; empty while its
// name is not resolved yet.
type Target struct{ Server, Address string }

// Router chooses where to go. It is a part of the loop.
type Router struct {
	Servers []string // configured
	learnt
	Last string // served most recently: tried last
	// spread, when set, sorts servers so that the connections of a pool come to different ones.
	Spread func(servers []string)

	Moving bool
	first  string // tried before the others of the round
	Begun  bool   // there is a round, and left, asked and what races is of it
	Left   []Target
	Asked  int    // names that are being resolved
	Round  uint64 // numbers the rounds: names resolved for a former one are of no use
	Rounds int    // that came to nothing, in a row
	At     time.Time
	// NotBefore is when those want to be asked again that refused for now; others is set when a round met a node that
	// did not.
	NotBefore map[Target]time.Time
	Others    bool
	// fresh: a node has served something since the last move began, so the next move begins a new row of rounds.
	Fresh bool
	// refused: a node has said that it is read-only since a node has served anything.
	Refused bool
}

// learnt is what nodes have told: addresses, and that they are being drained.
type learnt struct {
	Learnt []string
	// reached are the learnt addresses at which there was a node, and failed counts the attempts in a row at one that was
	// never reached. Such an address may be good for other nodes alone, as the names inside of a container network are.
	reached map[string]bool
	failed  map[string]int
	// removed are servers that were configured before: they are not learnt.
	removed map[string]bool
	// avoided are servers that are tried last, and until when: their nodes are being drained.
	avoided map[string]time.Time
}

// Begin starts a round over all servers: the configured ones in random order, those learnt, and the one that served
// last, sooner if home says so. Learnt addresses that were never reached come after the other ones. Those of them that
// have failed are left out, unless no node answers: silent says that none did in the round before. Names are resolved
// again in each round, when their turn comes.
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

// Forgive forgets what was to be avoided until now.
func (m *Router) Forgive(now time.Time) {
	maps.DeleteFunc(m.avoided, func(_ string, then time.Time) bool { return !now.Before(then) })
}

// avoidedLast sorts servers that are avoided behind the others, which keep their order.
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
	m.Begun, m.Left, m.Asked, m.Others = true, nil, 0, false
	m.Round++
	for _, s := range servers {
		m.Left = append(m.Left, Target{Server: s})
	}
}

// Learn adds addresses that a node told.
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

// Replace learns the addresses of all members of the cluster, and forgets those learnt before that are none of them. It
// keeps the server that served last: local sessions live there alone, also when the members call it by another name.
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

// Configure replaces the configured servers. Those that go are not learnt from now on.
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

// HoldsUpNothing reports whether the next attempt need not wait for the one at server: a learnt address that was never
// reached and has failed, or is followed by another one of these.
func (m *Router) HoldsUpNothing(server string) bool {
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

// Prefer has address tried next, if it has not been tried in this round: two nodes that name each other get no more
// attempts than others.
func (m *Router) Prefer(address string) {
	m.Learn([]string{address})
	m.first = address
}

// Pop returns what is tried next; false when everything of the round is under way or was tried.
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

// PutOff has a server tried last.
func (m *Router) PutOff(server string) {
	if i := slices.IndexFunc(m.Left, func(t Target) bool { return t.Server == server }); i >= 0 {
		m.Left = append(slices.Delete(m.Left, i, i+1), Target{Server: server})
	}
}

// PutBack has targets tried next: they were given up for another one, or are the addresses of a name.
func (m *Router) PutBack(targets ...Target) { m.Left = slices.Insert(m.Left, 0, targets...) }

// Dry reports whether a round has nothing left, given how many connections race. It ends when its last attempt has
// failed; what was left may also have been forgotten, and then no attempt ends it.
func (m *Router) Dry(racing int) bool {
	return m.Moving && m.Begun && len(m.Left) == 0 && m.Asked == 0 && racing == 0
}

// WakesAt returns when the next attempt is due, given how many connections race; zero when it waits for something else.
func (m *Router) WakesAt(racing int) time.Time {
	if !m.Moving || m.Begun && len(m.Left) == 0 || m.Asked+racing >= MaxRacing {
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

// Soonest returns when the first of those wants to be asked that were postponed; zero when none waits.
func (m *Router) Soonest(now time.Time) (at time.Time) {
	for _, then := range m.NotBefore {
		if now.Before(then) {
			at = Earliest(at, then)
		}
	}
	return at
}

// Home says when a round over the nodes comes to the one that served last, which alone knows the local sessions (L1).
type Home uint8

const (
	// Last says that there is nothing to find there that is not elsewhere.
	Last Home = iota
	// First says that local sessions live there, if it does; the others can be moved to any node.
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
