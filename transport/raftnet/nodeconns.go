package raftnet

import (
	"slices"
	"sync"

	"holdfast/session"
)

// maxPerNode bounds the connections that have greeted with one node number. Raft opens fewer: it keeps three to a node,
// and opens as many as it uses at once. Notices of commits have one more.
const maxPerNode = 7

// nodeConns are the connections that have greeted, by node number. Without TLS an attacker may greet in a node's name.
// The node's own connections are in use, so the quietest connection is evicted. Safe for concurrent use.
type nodeConns struct {
	mu sync.Mutex
	of map[session.Node][]*served // guarded by mu
	// history has the numbers of former connections. guarded by mu
	history map[session.Node]Links
}

// Links describe the connections for Raft that a node has opened to this one, by the number in its greetings.
type Links struct {
	// Open is the number of open connections, Opened the number of all connections so far.
	Open   int
	Opened uint64
	// Lost says that no connection is open, and that the other side ended the last one.
	Lost bool
}

// links returns the Links of a node.
func (t *nodeConns) links(node session.Node) Links {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.history[node]
	l.Open = len(t.of[node])
	l.Lost = l.Lost && l.Open == 0
	return l
}

// add adds s, and returns the evicted connection; nil for none.
func (t *nodeConns) add(node session.Node, s *served) (evicted *served) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of, t.history = map[session.Node][]*served{}, map[session.Node]Links{}
	}
	t.history[node] = Links{Opened: t.history[node].Opened + 1}
	all := t.of[node]
	if len(all) >= maxPerNode {
		evicted = slices.MinFunc(all, quieter)
		all = slices.DeleteFunc(all, func(one *served) bool { return one == evicted })
	}
	t.of[node] = append(all, s)
	return evicted
}

// quieter orders two connections. A connection on which no byte has ever arrived is quieter than any other, however new
// it is, because a node sends a request at once. Otherwise the connection with the longer silence is quieter.
func quieter(a, b *served) int {
	switch mute, other := a.lastReceived.Load() == 0, b.lastReceived.Load() == 0; {
	case mute && !other:
		return -1
	case other && !mute:
		return 1
	default:
		return a.spoke().Compare(b.spoke())
	}
}

// remove removes s, unless it was evicted or removed before, and reports whether it did.
func (t *nodeConns) remove(node session.Node, s *served) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.of[node])
	t.of[node] = slices.DeleteFunc(t.of[node], func(one *served) bool { return one == s })
	if len(t.of[node]) == before {
		return false
	}
	l := t.history[node]
	l.Lost = s.lost.Load()
	t.history[node] = l
	return true
}
