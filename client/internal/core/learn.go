package core

import (
	"time"

	"holdfast/client/internal/route"
)

// How a client learns the addresses of nodes that it was not configured with. It asks the node that serves it for the
// members of the cluster: at once when it has connected for the first time, some time after each later move, because
// thousands of clients may have moved at the same time, and rarely from then on. A round comes to these addresses after
// the configured ones.
const (
	// LearnEvery is how often a client asks, learnAfterMove how long it waits after a move at most.
	LearnEvery     = 5 * time.Minute
	learnAfterMove = 20 * time.Second
	// LearnAgain is how long it waits after a question in vain.
	LearnAgain = time.Minute
)

// learning is when a client asks for the members of its cluster.
type learning struct {
	learnAt time.Time // zero for never
	learnt  bool      // it has been told
}

// learnSoon has the client ask the node that serves it from now on.
func (m *moves) learnSoon() {
	switch {
	case m.cfg.OnlyServers:
	case m.learnt:
		m.learnAt = route.Earliest(m.learnAt, m.now.Add(m.cfg.Jitter.Within(learnAfterMove)))
	default:
		m.learnAt = m.now
	}
}

// learn asks when it is time. A client that needs no node asks none.
func (m *moves) learn() {
	if at := m.learnsAt(); at.IsZero() || m.now.Before(at) {
		return
	}
	m.learnAt = m.now.Add(LearnEvery + m.cfg.Jitter.Within(LearnEvery))
	m.effects.Actions = append(m.effects.Actions, Action{Conn: m.cur, Do: AskMembers})
}

// learnsAt returns when the client asks next; zero for never.
func (m *moves) learnsAt() time.Time {
	if m.cur == nil || !m.cur.up || m.idle() {
		return time.Time{}
	}
	return m.learnAt
}

// Members are the client addresses of the members of the cluster, by the word of a node that was asked for them.
type Members struct {
	Conn      *Conn
	Addresses []string
	Err       error
}

// A connection that was dropped meanwhile has nothing to say any more. The node that serves the client next is asked.
func (in Members) happen(c *Core) {
	if !c.knows(in.Conn) {
		return
	}
	if in.Err != nil || len(in.Addresses) == 0 {
		c.learnAt = route.Earliest(c.learnAt, c.now.Add(LearnAgain+c.cfg.Jitter.Within(LearnAgain)))
		return
	}
	KnownMembers{in.Addresses}.happen(c)
}

// KnownMembers are the client addresses of the members of the cluster, asked for beside the connection for sessions.
// A client that has no such connection learns in this way what its other calls need.
type KnownMembers struct{ Addresses []string }

func (in KnownMembers) happen(c *Core) {
	c.learnt = true
	c.router.Replace(in.Addresses)
	c.effects.Learnt = append([]string{}, c.router.Learnt...)
}
