package core

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/session"
)

const testMinBackoff = 50 * time.Millisecond

// newTestCore returns a core that holds nothing.
func newTestCore() *Core {
	return New(Config{
		Instance: 77, Servers: []string{"n1:7400"}, OnlyServers: true,
		ConnectTimeout: 2 * time.Second, HedgeDelay: 250 * time.Millisecond,
		Jitter: route.NewJitter(rand.NewPCG(1, 2), testMinBackoff, 2*time.Second),
	})
}

// newTestConn returns a connection to address that is not up.
func newTestConn(address string) *Conn {
	return &Conn{window: window.New(), Target: route.Target{Server: address, Address: address}}
}

// staged returns a core that holds one session, the session's connection, and the session. A call is closing it. The
// connection has served it since request 5.
func staged(t *testing.T) (*Core, *Conn, *Session) {
	t.Helper()
	l, c := newTestCore(), newTestConn("n1:7400")
	h := l.hold(new(Call), session.Token{ID: 1, Attachment: 9})
	h.joining, h.closing = nil, []*Call{new(Call)}
	h.state, h.on, h.since = StateConnecting, c, 5
	l.cur = c
	return l, c, h
}

// upConn returns a connection to address that is up.
func upConn(address string) *Conn {
	c := newTestConn(address)
	c.up = true
	return c
}

// answered returns the answer to a call; nil while there is none.
func (c *Core) answered(call *Call) *Answer {
	i := slices.IndexFunc(c.effects.Answers, func(a Answer) bool { return a.Call == call })
	if i < 0 {
		return nil
	}
	return &c.effects.Answers[i]
}

// queued returns the requests that wait on a connection.
func queued(c *Conn) []*window.Request { return slices.Collect(c.window.Queued()) }
