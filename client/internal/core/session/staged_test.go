package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

const (
	testMinBackoff = 50 * time.Millisecond
	testTimeout    = 10 * time.Second
)

// noTree is a client that does nothing with the tree.
type noTree struct{}

func (noTree) Attached(*Session, session.Grant)             {}
func (noTree) Upgraded(*Session)                            {}
func (noTree) Ended(*Session, error)                        {}
func (noTree) Acknowledge(*conn.Conn, *holdfastv1.Touch)    {}
func (noTree) DeliveredUpTo(c *conn.Conn, stamp tree.Stamp) {}

// alone is a manager whose connections carry nothing else.
type alone struct{ *Manager }

func (alone) ClusterChanged() {}

// stage is a manager whose nodes the test acts as.
type stage struct {
	*Manager
	t *testing.T
	// c is the current connection, which serves h.
	c *conn.Conn
	h *Session
}

// newStage returns a manager that holds session 1, without a promise, at the first of two nodes.
func newStage(t *testing.T) *stage {
	t.Helper()
	jitter := route.NewJitter(rand.NewPCG(1, 2), testMinBackoff, 2*time.Second)
	conns := conn.New(conn.Config{
		Servers: []string{"n1:7400", "n2:7400"}, OnlyServers: true, ConnectTimeout: 2 * time.Second,
		HedgeDelay: 250 * time.Millisecond, Jitter: jitter,
	})
	s := &stage{Manager: New(Config{Instance: 77, Jitter: jitter}, conns), t: t}
	s.SetTree(noTree{})
	conns.SetUser(alone{s.Manager}, alone{s.Manager})
	conns.SetTime(time.Now(), 0)
	s.Resume(new(Call), session.Token{ID: 1, Attachment: 8})
	s.h = s.sessions[1]
	s.c = s.connect()
	s.resumedAt(s.c, s.h, session.Session{ID: 1, Owner: 1, Attachment: 9}, -1)
	if s.conns.Current() != s.c || s.h.Conn() != s.c {
		t.Fatal("the session is not attached")
	}
	s.reset()
	return s
}

func (s *stage) reset() {
	s.Effects.Reset()
	s.conns.Effects.Reset()
}

// connect lets time pass until the client dials, and opens that connection.
func (s *stage) connect() *conn.Conn {
	s.t.Helper()
	for range 100 {
		s.conns.Advance()
		for _, a := range s.conns.Effects.Actions {
			if a.Do == conn.Dial && s.conns.Knows(a.Conn) {
				s.conns.Connected(a.Conn)
				s.conns.Pump(a.Conn)
				return a.Conn
			}
		}
		s.conns.SetTime(s.conns.Now().Add(100*time.Millisecond), 0)
	}
	s.t.Fatal("the client does not dial")
	return nil
}

// candidate has the client leave the current node, and returns the connection to the next one.
func (s *stage) candidate(why error) *conn.Conn {
	s.t.Helper()
	s.conns.Leave(s.c, why)
	next := s.connect()
	s.reset()
	return next
}

// resumedAt has c grant the pending resume of a session.
func (s *stage) resumedAt(c *conn.Conn, h *Session, g session.Session, promise time.Duration) {
	s.t.Helper()
	s.conns.Pump(c)
	r := h.attachment.resuming
	if r == nil {
		s.t.Fatal("the session is resumed nowhere")
	}
	g.Timeout = testTimeout
	s.Receive(c, &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
		Seq: r.Seq, Session: wire.SessionProto(g), SafeFor: wire.PromiseProto(promise),
		Token: wire.TokenProto(session.Token{ID: g.ID, Attachment: g.Attachment, Local: g.Local}),
	}}})
}

// closing makes a caller close the session, and returns its call.
func (s *stage) closing() *Call {
	call := new(Call)
	s.Close(call, s.h)
	return call
}

// answered returns the answer to a call; nil for none.
func (s *stage) answered(call *Call) *Answer {
	i := slices.IndexFunc(s.Effects.Answers, func(a Answer) bool { return a.Call == call })
	if i < 0 {
		return nil
	}
	return &s.Effects.Answers[i]
}

// resumeOn returns the pending resume of the session on c.
func (s *stage) resumeOn(c *conn.Conn) (*window.Request, *resumeBody) {
	s.t.Helper()
	r := s.h.attachment.resuming
	if r == nil || !s.h.resumingOn(c) {
		s.t.Fatal("the session is not resumed there")
	}
	b, _ := r.Body.(*resumeBody)
	return r, b
}

// queued returns the requests that wait on a connection.
func queued(c *conn.Conn) []*window.Request { return slices.Collect(c.Window.Queued()) }

// bodies returns the bodies of a kind that are queued or in flight on a connection.
func bodies[B any](c *conn.Conn) (all []B) {
	for _, r := range slices.AppendSeq(queued(c), c.Window.InFlight()) {
		if b, ok := r.Body.(B); ok {
			all = append(all, b)
		}
	}
	return all
}

// discarded returns the sessions closed through c because no caller waits for them.
func discarded(c *conn.Conn) (ids []session.ID) {
	for _, b := range bodies[*discardBody](c) {
		ids = append(ids, b.token.ID)
	}
	return ids
}

var errTest = errors.New("fault of the test")

func (h *Session) String() string { return fmt.Sprintf("session %d", h.id) }
