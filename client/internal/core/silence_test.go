package core

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// quiet is a client whose node, acted by the test, sends nothing on its own. Its session has a timeout of an hour, so
// nothing but silence is due soon.
type quiet struct {
	t      *testing.T
	core   *Core
	now    time.Time
	wakeAt time.Time
	conn   *conn.Conn
}

// newQuiet returns a client with session 1, or without a session.
func newQuiet(t *testing.T, holds bool) *quiet { //nolint:revive // flag-parameter: two kinds of a fixture
	t.Helper()
	q := &quiet{t: t, now: time.Now()}
	q.core = New(Config{
		Instance: 77, Servers: []string{"10.0.0.1:7400"}, OnlyServers: true, ResolveNames: true,
		ConnectTimeout: 2 * time.Second, HedgeDelay: 250 * time.Millisecond,
		Jitter: route.NewJitter(rand.NewPCG(1, 2), testMinBackoff, 2*time.Second),
	})
	token := session.Token{ID: 1, Attachment: 9}
	q.conn = dialed(q.turn(Resume{Call: new(sessions.Call), Token: token}).Conns.Actions)
	seq := q.turn(Up{q.conn}).Conns.Actions[0].Message.GetResume().GetSeq()
	g := session.Session{ID: 1, Spec: session.Spec{Timeout: time.Hour}, Owner: 1, Attachment: 9}
	e := q.turn(q.message(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{
		Resumed: &holdfastv1.Resumed{
			Seq: seq, Session: wire.SessionProto(g), Token: wire.TokenProto(token),
			SafeFor: wire.PromiseProto(59 * time.Minute),
		},
	}}))
	if h := e.Sessions.Granted[0].Session; !holds {
		e = q.turn(Close{new(sessions.Call), h})
		seq = e.Conns.Actions[0].Message.GetClose().GetSeq()
		q.turn(q.message(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Closed{
			Closed: &holdfastv1.Closed{Seq: seq},
		}}))
	}
	return q
}

func (q *quiet) turn(in ...Input) *Effects {
	e := q.core.Turn(Moment{Now: q.now}, in...)
	q.wakeAt = e.WakeAt
	return e
}

func (q *quiet) message(m *holdfastv1.ServerMessage) Input { return Received{q.conn, m} }

// opens leaves an open pending at the node.
func (q *quiet) opens() {
	q.t.Helper()
	e := q.turn(Open{&sessions.Call{Want: sessions.Want{Spec: session.Spec{Timeout: time.Hour}}}})
	if len(e.Conns.Actions) != 1 || e.Conns.Actions[0].Message.GetOpen() == nil {
		q.t.Fatalf("actions %+v, want one open", e.Conns.Actions)
	}
}

// passes lets time pass, and takes a turn.
func (q *quiet) passes(d time.Duration, in ...Input) *Effects {
	q.now = q.now.Add(d)
	return q.turn(in...)
}

// wakes fails if the client's next turn is not due in the given time, and runs the turn.
func (q *quiet) wakes(in time.Duration) *Effects {
	q.t.Helper()
	if got := q.wakeAt.Sub(q.now); got != in {
		q.t.Fatalf("the next turn is due in %v, want %v", got, in)
	}
	return q.passes(in)
}

// asked returns the sessions that the turn's only message touches, nil if the turn sends nothing.
func (q *quiet) asked(e *Effects) (ids []uint64, seq uint64) {
	q.t.Helper()
	for _, a := range e.Conns.Actions {
		touch := a.Message.GetTouch()
		if a.Do != conn.Send || touch == nil || len(touch.GetIds()) == 0 || ids != nil {
			q.t.Fatalf("actions %+v, want one touch of a named session", e.Conns.Actions)
		}
		ids, seq = touch.GetIds(), touch.GetSeq()
	}
	return ids, seq
}

// A node with a pending answer is asked for a sign of life, once, and left when it gives none. A node that gives a
// sign, in any form, is kept, and asked again after as long a silence, as it may wait for a leader. The question names
// one session.
func TestASilentNodeIsAskedForASignOfLife(t *testing.T) {
	for name, sign := range map[string]func(seq uint64) *holdfastv1.ServerMessage{
		"none": nil,
		"without a promise": func(seq uint64) *holdfastv1.ServerMessage {
			touched := &holdfastv1.Touched{Seq: seq}
			return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: touched}}
		},
		"a refusal": func(seq uint64) *holdfastv1.ServerMessage {
			err := &session.LimitError{Name: "max_touches_per_second", RetryAfter: time.Millisecond}
			return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, err)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuiet(t, true)
			q.opens()
			due := q.conn.Touches.Due()
			ids, seq := q.asked(q.wakes(conn.AskAfter))
			if len(ids) != 1 || ids[0] != 1 {
				t.Fatalf("the node is asked for sessions %v, want the one that it serves", ids)
			}
			if sign == nil {
				q.wakes(conn.SignWithin)
				if why := q.conn.Failing(); !errors.Is(why, conn.ErrStalled) {
					t.Errorf("a node without a sign of life is left because of %v, want %v", why, conn.ErrStalled)
				}
				return
			}
			again, _ := q.asked(q.passes(conn.SignWithin-1, q.message(sign(seq))))
			if why := q.conn.Failing(); again != nil || why != nil || !q.conn.Touches.Due().Equal(due) {
				t.Errorf("after a sign of life: asked for %v, left because of %v, next touch %v later than it was due",
					again, why, q.conn.Touches.Due().Sub(due))
			}
			if again, _ := q.asked(q.wakes(conn.AskAfter)); again == nil {
				t.Error("after another silence the node is not asked again")
			}
		})
	}
}

// The question names a session that does not exist if the node serves none: a touch without ids would be about all that
// it serves.
func TestASignOfLifeKeepsNoSessionAlive(t *testing.T) {
	q := newQuiet(t, false)
	q.opens()
	if ids, _ := q.asked(q.wakes(conn.AskAfter)); len(ids) != 1 || session.ID(ids[0]).Node() != 0 {
		t.Errorf("the node is asked for sessions %v, want one of node 0", ids)
	}
}

// No caller waits for the answer to a touch: a node with no other pending answer is not asked, and is left later.
func TestANodeWithAPendingTouchIsNotAsked(t *testing.T) {
	q := newQuiet(t, true)
	q.now = q.conn.Touches.Due()
	if a := q.turn().Conns.Actions; len(a) != 1 || a[0].Message.GetTouch() == nil {
		t.Fatalf("actions %+v, want a touch", a)
	}
	if e := q.passes(conn.MaxSilence - 1); len(e.Conns.Actions) > 0 || q.conn.Failing() != nil {
		t.Errorf("left because of %v, actions %v", q.conn.Failing(), e.Conns.Actions)
	}
	if q.wakes(1); !errors.Is(q.conn.Failing(), conn.ErrStalled) {
		t.Errorf("left because of %v, want %v", q.conn.Failing(), conn.ErrStalled)
	}
}

// A client that did not run for long asks before it leaves.
func TestAClientThatDidNotRunAsksFirst(t *testing.T) {
	q := newQuiet(t, true)
	q.opens()
	if ids, _ := q.asked(q.passes(10 * conn.MaxSilence)); ids == nil || q.conn.Failing() != nil {
		t.Errorf("after a pause of the client: asked for %v, left because of %v", ids, q.conn.Failing())
	}
}

// A client that did not run for long finds inputs of its own before the answers that came meanwhile.
func TestAnAnswerThatWaitsInTheTurnIsNoSilence(t *testing.T) {
	for _, came := range []bool{false, true} {
		q := newQuiet(t, true)
		q.now = q.conn.Touches.Due()
		q.turn()
		in := []Input{nil}
		if came {
			in = append(in, q.message(&holdfastv1.ServerMessage{}))
		}
		q.passes(conn.MaxSilence, in...)
		if left := errors.Is(q.conn.Failing(), conn.ErrStalled); left == came {
			t.Errorf("an answer came: %v; the node is left: %v", came, left)
		}
	}
}

// Each message of a node has a value that handles it: a new kind that no value knows fails here.
func TestEachMessageIsHandled(t *testing.T) {
	kinds := (&holdfastv1.ServerMessage{}).ProtoReflect().Descriptor().Oneofs().ByName("message").Fields()
	for i := range kinds.Len() {
		kind := kinds.Get(i)
		m := &holdfastv1.ServerMessage{}
		m.ProtoReflect().Set(kind, m.ProtoReflect().NewField(kind))
		if _, several := m.GetMessage().(*holdfastv1.ServerMessage_Answers); several {
			continue // Received handles them separately
		}
		q := newQuiet(t, true)
		if !q.core.receive(q.conn, m) {
			t.Errorf("no value of the core handles %s", kind.Name())
		}
	}
}
