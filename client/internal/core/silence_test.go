package core

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// The arithmetic of silence.go: there is time to answer the touch that renews a promise; the node is left before the
// end of the promise, at most 5/12 of the timeout after the former touch; and if 5/6 of the timeout are promised, two
// other nodes can be tried after that.
func TestSilenceArithmetic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		timeout := time.Duration(rapid.IntRange(100, 60_000).Draw(rt, "timeout")) * time.Millisecond
		safeFor := time.Duration(rapid.Int64Range(0, int64(timeout)).Draw(rt, "safe for"))
		sent := time.Unix(1000, 0)
		until := sent.Add(safeFor)
		by := renewBy(sent, safeFor, timeout, until)
		touch := touchIn(safeFor, timeout)
		switch room := until.Sub(by); {
		case room < timeout/answerPart:
			rt.Fatalf("the node is left %v before the end of the promise, want at least the time for an answer", room)
		case by.Sub(sent) > timeout*5/12:
			rt.Fatalf("the node is left after %v, later than 5/12 of the timeout", by.Sub(sent))
		case safeFor >= timeout*5/6 && room < 2*(timeout/tryPart):
			rt.Fatalf("the node is left %v before the end of the promise, no time for two others", room)
		case by.Sub(sent)-touch < timeout/answerPart && room > timeout/answerPart:
			rt.Fatalf("the touch at %v has %v to be answered", touch, by.Sub(sent)-touch)
		case touch < timeout/minTouchPart || touch > timeout/TouchPart:
			rt.Fatalf("touched after %v of %v", touch, timeout)
		}
	})
}

// owing returns a core at time.Now whose connection, to the node of session 1, owes the answer to an open since then.
// Nothing else is due soon.
func owing(t *testing.T) (*Core, *Conn, *Session) {
	t.Helper()
	l, c, h := staged(t)
	h.closing, h.timeout, h.renewBy = nil, time.Hour, time.Now().Add(time.Hour)
	c.failing, c.up, c.touchAt, l.now = nil, true, time.Now().Add(time.Hour), time.Now()
	l.send(c, &window.Request{Body: &openBody{call: &Call{on: c}, on: c}})
	l.effects.reset()
	return l, c, h
}

// asked returns the sessions that the turn's only message touches, nil when the turn sends nothing.
func asked(t *testing.T, e *Effects) (ids []uint64, seq uint64) {
	t.Helper()
	for _, a := range e.Actions {
		touch := a.Message.GetTouch()
		if a.Do != Send || touch == nil || len(touch.GetIds()) == 0 || ids != nil {
			t.Fatalf("actions %+v, want one touch of a named session", e.Actions)
		}
		ids, seq = touch.GetIds(), touch.GetSeq()
	}
	return ids, seq
}

// turnAt sleeps until the core wants a turn, fails if that is not in the given time, and takes the turn.
func turnAt(t *testing.T, l *Core, in time.Duration) *Effects {
	t.Helper()
	if got := l.wakeAt().Sub(l.now); got != in {
		t.Fatalf("the next turn is due in %v, want %v", got, in)
	}
	time.Sleep(in)
	return l.Turn(Moment{Now: time.Now()})
}

// A node that owes an answer is asked for a sign of life, once, and left when it gives none. One that gives it, in any
// form, is kept and asked again after as long a silence, as it may wait for a leader. The question names one session.
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
			bubble.Test(t, func(t *testing.T) {
				l, c, h := owing(t)
				due := c.touchAt
				ids, seq := asked(t, turnAt(t, l, AskAfter))
				if len(ids) != 1 || ids[0] != uint64(h.id) {
					t.Fatalf("the node is asked for sessions %v, want the one that it serves", ids)
				}
				if sign == nil {
					turnAt(t, l, SignWithin)
					if !errors.Is(c.failing, ErrStalled) {
						t.Errorf("a node without a sign of life is left because of %v, want %v", c.failing, ErrStalled)
					}
					return
				}
				time.Sleep(SignWithin - 1)
				e := l.Turn(Moment{Now: time.Now()}, Received{c, sign(seq)})
				if again, _ := asked(t, e); again != nil || c.failing != nil || !c.touchAt.Equal(due) {
					t.Errorf("after a sign of life: asked for %v, left because of %v, next touch %v later than it was due",
						again, c.failing, c.touchAt.Sub(due))
				}
				if again, _ := asked(t, turnAt(t, l, AskAfter)); again == nil {
					t.Error("after another silence the node is not asked again")
				}
			})
		})
	}
}

// The question names no session when the node serves none: an empty touch would be about all that it serves.
func TestASignOfLifeKeepsNoSessionAlive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, c, _ := owing(t)
		clear(l.sessions)
		l.opens[&Call{on: c}] = struct{}{} // without a session nothing but the silence wakes the client
		if ids, _ := asked(t, turnAt(t, l, AskAfter)); len(ids) != 1 || ids[0] != uint64(nobody) {
			t.Errorf("the node is asked for sessions %v, want %v alone", ids, nobody)
		}
	})
}

// Nobody waits for the answer to a touch: a node that owes nothing else is not asked, and is left later. A client that
// did not run for long asks before it leaves.
func TestWhoIsAskedForNoSignOfLife(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, c, h := staged(t)
		h.closing, h.timeout, h.renewBy = nil, time.Hour, time.Now().Add(time.Hour)
		c.failing, c.up, c.touchAt, l.now = nil, true, time.Now().Add(time.Hour), time.Now()
		l.sendTouch(c, &touchBody{smallest: h.timeout})
		time.Sleep(MaxSilence - 1)
		if e := l.Turn(Moment{Now: time.Now()}); len(e.Actions) > 0 || c.failing != nil {
			t.Errorf("left because of %v, actions %v", c.failing, e.Actions)
		}
		if turnAt(t, l, 1); !errors.Is(c.failing, ErrStalled) {
			t.Errorf("left because of %v, want %v", c.failing, ErrStalled)
		}
	})
	bubble.Test(t, func(t *testing.T) {
		l, c, _ := owing(t)
		time.Sleep(10 * MaxSilence)
		if ids, _ := asked(t, l.Turn(Moment{Now: time.Now()})); ids == nil || c.failing != nil {
			t.Errorf("after a pause of the client: asked for %v, left because of %v", ids, c.failing)
		}
	})
}
