package core

import (
	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	trees "holdfast/client/internal/core/tree"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Input is an event: a caller's request, or a report of a connection. The inputs are the types of this file.
type Input interface{ happen(c *Core) }

// Open opens a sessions.
type Open struct{ Call *sessions.Call }

// Resume resumes a sessions.
type Resume struct {
	Call  *sessions.Call
	Token session.Token
}

// Upgrade makes a session global.
type Upgrade struct {
	Call    *sessions.Call
	Session *sessions.Session
}

// Close closes a session. The application knows already that no promise holds.
type Close struct {
	Call    *sessions.Call
	Session *sessions.Session
}

// GiveUp reports that a caller stops waiting because of Cause.
type GiveUp struct {
	Call  *sessions.Call
	Cause error
}

// Missed are sessions whose promise had run out by the application's own timer when a renewal was delivered as if the
// promise had held.
type Missed struct{ Sessions []*sessions.Session }

// Read reads the tree. Session is nil for a read without a session.
type Read struct {
	Call    *trees.Call
	Session *sessions.Session
}

// Write changes the tree.
type Write struct {
	Call    *trees.Call
	Session *sessions.Session
}

// GiveUpTree reports that a caller of the tree stops waiting because of Cause.
type GiveUpTree struct {
	Call  *trees.Call
	Cause error
}

// AddWatch begins a watch.
type AddWatch struct{ Watch *trees.Watch }

// DropWatch ends a watch, which receives nothing any more.
type DropWatch struct{ Watch *trees.Watch }

// GiveUpWatch ends a watch whose reader stops waiting because of Cause. The watch receives Cause.
type GiveUpWatch struct {
	Watch *trees.Watch
	Cause error
}

// Servers is a new list of servers.
type Servers struct{ List []string }

// Resolved answers a [conn.Lookup].
type Resolved struct {
	Of        conn.Lookup
	Addresses []string
	Err       error
}

// Up reports that a dialed connection is open.
type Up struct{ Conn *conn.Conn }

// Received is a message of a node.
type Received struct {
	Conn    *conn.Conn
	Message *holdfastv1.ServerMessage
}

// Down reports that a connection was not made, or has ended.
type Down struct {
	Conn *conn.Conn
	Err  error
}

// Members are the client addresses of the members of the cluster. They answer [conn.AskMembers].
type Members struct {
	Conn      *conn.Conn
	Addresses []string
	Err       error
}

// KnownMembers are the client addresses of the members of the cluster, learnt without the connection for sessions. A
// client without this connection learns in this way what its other calls need.
type KnownMembers struct{ Addresses []string }

// Shut ends everything: nothing happens after it, and no Moved follows.
type Shut struct{}

func (in Open) happen(c *Core)    { c.sessions.Open(in.Call) }
func (in Resume) happen(c *Core)  { c.sessions.Resume(in.Call, in.Token) }
func (in Upgrade) happen(c *Core) { c.sessions.Upgrade(in.Call, in.Session) }
func (in Close) happen(c *Core)   { c.sessions.Close(in.Call, in.Session) }
func (in GiveUp) happen(c *Core)  { c.sessions.GiveUp(in.Call, in.Cause) }

func (in Missed) happen(c *Core) {
	for _, h := range in.Sessions {
		c.sessions.Missed(h)
	}
}

func (in Read) happen(c *Core)        { c.tree.Read(in.Call, in.Session) }
func (in Write) happen(c *Core)       { c.tree.Write(in.Call, in.Session) }
func (in GiveUpTree) happen(c *Core)  { c.tree.GiveUp(in.Call, in.Cause) }
func (in AddWatch) happen(c *Core)    { c.tree.AddWatch(in.Watch) }
func (in DropWatch) happen(c *Core)   { c.tree.DropWatch(in.Watch) }
func (in GiveUpWatch) happen(c *Core) { c.tree.GiveUpWatch(in.Watch, in.Cause) }

func (in Servers) happen(c *Core)  { c.conns.UpdateServers(in.List) }
func (in Resolved) happen(c *Core) { c.conns.Resolved(in.Of, in.Addresses, in.Err) }
func (in Up) happen(c *Core)       { c.conns.Connected(in.Conn) }

// A connection that was dropped meanwhile reports nothing any more.
func (in Down) happen(c *Core) {
	if c.conns.Knows(in.Conn) {
		c.conns.Lost(in.Conn, in.Err)
	}
}

// The answer of a connection that was dropped meanwhile is ignored. The client asks the node that serves it next.
func (in Members) happen(c *Core) {
	switch {
	case !c.conns.Knows(in.Conn):
	case in.Err != nil || len(in.Addresses) == 0:
		c.conns.MembersFailed()
	default:
		c.conns.RecordMembers(in.Addresses)
	}
}

func (in KnownMembers) happen(c *Core) { c.conns.RecordMembers(in.Addresses) }

// A message of a connection that was dropped meanwhile is ignored.
func (in Received) happen(c *Core) {
	if !c.conns.Knows(in.Conn) {
		return
	}
	c.conns.Received(in.Conn, in.Message.GetState())
	several, ok := in.Message.GetMessage().(*holdfastv1.ServerMessage_Answers)
	if !ok {
		c.receive(in.Conn, in.Message)
		return
	}
	for i, m := range several.Answers.GetMessages() {
		if i > 0 {
			c.step() // as if each had come alone
		}
		if !c.conns.Knows(in.Conn) {
			return
		}
		c.receive(in.Conn, m)
	}
}

// receive passes a message to the value that handles it, and reports whether there is one. An unknown message comes
// from a newer node and is ignored.
func (c *Core) receive(on *conn.Conn, m *holdfastv1.ServerMessage) (known bool) {
	if failed, ok := m.GetMessage().(*holdfastv1.ServerMessage_Failed); ok {
		c.refused(on, failed.Failed)
		return true
	}
	return c.conns.Receive(on, m) || c.sessions.Receive(on, m) || c.tree.Receive(on, m)
}

// refused passes the refusal of a request to the value that sent the request.
func (c *Core) refused(on *conn.Conn, m *holdfastv1.Failed) {
	r, ok := on.Window.Remove(m.GetSeq())
	if !ok {
		return
	}
	err := wire.FailedError(m)
	c.conns.Refused(on, err)
	if !c.sessions.Refused(on, r, err) {
		c.tree.Refused(on, r, err)
	}
}

// The sessions end before the requests of the tree, so writes learn of the end.
func (Shut) happen(c *Core) {
	c.sessions.Shut()
	c.tree.Shut()
	c.conns.Shut()
	c.position = Position{}
}
