package raftnet

import (
	"net"
	"slices"
	"sync"

	"holdfast/session"
)

// maxSeats is how many connections that have greeted are kept of one node number: far as many as Raft opens to one
// node, which are three that it keeps and as many as it uses at once.
const maxSeats = 6

// lobby gives places to connections that have not said yet whose they are. Nobody can tell a node from a stranger
// there, and a node says at once what a stranger need never say. So when all places are taken, the one that has waited
// longest makes room, of the address that has most: a flood of strangers takes the places of strangers, and a node
// finds one always. Safe for concurrent use.
type lobby struct {
	most int

	mu sync.Mutex
	// guests are in the order in which they came. guarded by mu
	guests []*guest
}

// guest is a connection in its handshake.
type guest struct {
	address string
	conn    net.Conn
}

// enter gives conn a place. It returns the guest that made room for it, whose connection the caller closes; nil if
// there was room.
func (l *lobby) enter(conn net.Conn) (g, out *guest) {
	g = &guest{addressOf(conn), conn}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guests = append(l.guests, g)
	if len(l.guests) <= l.most {
		return g, nil
	}
	count := map[string]int{}
	for _, one := range l.guests {
		count[one.address]++
	}
	for _, one := range l.guests {
		if out == nil || count[one.address] > count[out.address] {
			out = one
		}
	}
	l.forget(out)
	return g, out
}

// leave gives the place back, unless somebody else was given it.
func (l *lobby) leave(g *guest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(g)
}

// forget is leave. Called with mu held.
func (l *lobby) forget(g *guest) {
	if i := slices.Index(l.guests, g); i >= 0 {
		l.guests = slices.Delete(l.guests, i, i+1)
	}
}

// addressOf returns the address that a connection comes from, without its port.
func addressOf(conn net.Conn) string {
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// seats are the connections that have greeted, by node. Before TLS anybody may greet in a node's name; the node's own
// are in use, so that the quietest makes room. Safe for concurrent use.
type seats struct {
	mu sync.Mutex
	by map[session.Node][]*served // guarded by mu
}

// take gives s a seat, and returns the connection that made room for it, nil if there was room.
func (t *seats) take(node session.Node, s *served) (out *served) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[session.Node][]*served{}
	}
	all := t.by[node]
	if len(all) >= maxSeats {
		out = slices.MinFunc(all, quieter)
		all = slices.DeleteFunc(all, func(one *served) bool { return one == out })
	}
	t.by[node] = append(all, s)
	return out
}

// quieter compares two connections: one on which nothing was ever said is the quieter one, however new it is, as a node
// has something to say at once; else the one that has been silent for longer.
func quieter(a, b *served) int {
	switch mute, other := a.heard.Load() == 0, b.heard.Load() == 0; {
	case mute && !other:
		return -1
	case other && !mute:
		return 1
	default:
		return a.spoke().Compare(b.spoke())
	}
}

// leave gives the seat of s back, if it has one.
func (t *seats) leave(node session.Node, s *served) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[node] = slices.DeleteFunc(t.by[node], func(one *served) bool { return one == s })
}
