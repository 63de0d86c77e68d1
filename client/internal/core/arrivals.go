package core

import (
	"slices"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// Up says that a connection is there.
type Up struct{ Conn *Conn }

func (in Up) happen(c *Core) { c.connected(in.Conn) }

// Received is a message of a node.
type Received struct {
	Conn    *Conn
	Message *holdfastv1.ServerMessage
}

// A connection that was dropped meanwhile has nothing to say any more.
func (in Received) happen(c *Core) {
	if !c.knows(in.Conn) {
		return
	}
	in.Conn.heard = true
	in.Conn.window.Heard(c.now)
	c.heardOf(in.Conn, in.Message.GetState())
	several, ok := in.Message.GetMessage().(*holdfastv1.ServerMessage_Answers)
	if !ok {
		c.received(in.Conn, in.Message)
		return
	}
	for i, m := range several.Answers.GetMessages() {
		if i > 0 {
			c.step() // as if each had come by itself
		}
		if !c.knows(in.Conn) {
			return
		}
		c.received(in.Conn, m)
	}
}

// Down says that a connection was not made, or has ended.
type Down struct {
	Conn *Conn
	Err  error
}

func (in Down) happen(c *Core) {
	if c.knows(in.Conn) {
		c.lost(in.Conn, in.Err)
	}
}

// Resolved answers a [Lookup].
type Resolved struct {
	Of        Lookup
	Addresses []string
	Err       error
}

func (in Resolved) happen(c *Core) { c.resolved(in.Of, in.Addresses, in.Err) }

// Missed are sessions whose promise had run out, by the application's own timer, when a [Promised] that did not say so
// was brought about.
type Missed struct{ Sessions []*Session }

func (in Missed) happen(c *Core) {
	for _, h := range in.Sessions {
		c.missed(h)
	}
}

// knows reports whether a connection is tried or serves.
func (c *Core) knows(on *Conn) bool {
	return on == c.cur || on == c.next || slices.Contains(c.racing, on)
}
