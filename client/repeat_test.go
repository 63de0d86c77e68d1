package client

import (
	"context"
	"errors"
	"testing"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubbles"
	"holdfast/transport"
)

// O2: what an open finds that repeats another one of the caller's is attached to the node that took the first. The client has to resume it.
func TestTheCallersRepeatOfAnOpenIsResumed(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 2), Dial: c.dial, InFlight: FailInFlight})
		here := c.node(int(mustOpen(t, cl, 10*time.Second).Owner()))
		c.set(func() { here.script = func(string) error { return errMuteAfter } })
		time.AfterFunc(time.Second, here.down)
		o := SessionOptions{Timeout: 10 * time.Second, RequestID: session.RequestID{1}}
		if _, err := cl.Open(t.Context(), o); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Fatalf("open: %v, want %v", err, session.ErrOutcomeUnknown)
		}
		time.Sleep(time.Second)
		s, err := cl.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		c.set(func() {
			if c.sessions[s.ID()].served == nil {
				t.Errorf("%v, promised for %v, and no node serves it", s.State(), time.Until(s.SafeUntil()))
			}
		})
	})
}

// A client holds a session once: nobody would end a second one that is held under the same id.
func TestOpenOfASessionThatIsHeld(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		_, cl := newTrial(t, 1, 1)
		o := SessionOptions{Timeout: 10 * time.Second, RequestID: session.RequestID{1}}
		s, err := cl.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := cl.Open(t.Context(), o); !errors.Is(err, ErrHeld) {
			t.Errorf("opened %v, %v; want %v", again, err, ErrHeld)
		}
		time.Sleep(time.Minute)
		if s.State() != StateConnected || s.Context().Err() != nil {
			t.Errorf("the session is %v, its context %v", s.State(), s.Context().Err())
		}
	})
}

// An open may be sent through two connections. When the caller has its session by the answer of the first and a resume, the answer of the
// second names the very attachment that the caller holds: it must not be closed as one that nobody wants.
func TestALateAnswerToAnOpenClosesNothingThatIsHeld(t *testing.T) {
	l, cur, h := staged(t)
	h.closing, h.timeout, l.now = nil, 10*time.Second, time.Now()
	h.token.Local, cur.jeopardy, cur.failing, cur.up = true, true, errJeopardy, true
	cur.out = make(chan *holdfastv1.ClientMessage, requestWindow+touchWindow)
	call := newCall(t.Context())
	call.opts.Timeout = 10 * time.Second
	l.opens[call] = struct{}{}
	first := l.sendOpen(cur, call)
	l.pump(cur)
	next := &conn{
		target: target{"n2:7400", "n2:7400"}, cancel: func() {}, up: true, deadline: l.now.Add(time.Second),
		inflight: make(map[uint64]*request), out: make(chan *holdfastv1.ClientMessage, requestWindow+touchWindow),
	}
	l.next, l.mover.moving = next, true
	l.tryNext(next)
	l.pump(next) // the open goes along
	repeat := next.inflight[1]
	opened := func(c *conn, r *request, owner session.Node, attachment uint64) {
		c.take(r.seq)
		l.opened(c, r, call, &holdfastv1.Opened{
			Session: transport.SessionProto(session.Session{ID: 5, Timeout: 10 * time.Second, Owner: owner, Attachment: attachment}),
			Token:   transport.TokenProto(session.Token{ID: 5, Attachment: attachment}),
		})
	}
	opened(cur, first, 1, 20)
	l.step(t.Context())
	resume := next.inflight[2]
	next.take(2)
	l.resumed(next, resume, resume.body.(*resumeBody), &holdfastv1.Resumed{
		Session: transport.SessionProto(session.Session{ID: 5, Timeout: 10 * time.Second, Owner: 2, Attachment: 21}),
		Token:   transport.TokenProto(session.Token{ID: 5, Attachment: 21}), SafeFor: transport.PromiseProto(9 * time.Second),
	})
	if o := <-call.answer; o.err != nil || o.s.ID() != 5 {
		t.Fatalf("opened %v, %v", o.s, o.err)
	}
	opened(next, repeat, 2, 21)
	for _, r := range next.queue {
		if d, ok := r.body.(*discardBody); ok {
			t.Errorf("closes %v by attachment %d, which the caller holds", d.token.ID, d.token.Attachment)
		}
	}
}

// An open that is refused for now at a node that is tried beside a read-only one waits there, on its connection, where it has its place.
func TestAnOpenThatIsPutOffBesideAReadOnlyNodeKeepsItsPlace(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		c.node(1).becomes(session.ModeReadOnly)
		busy, dials, turn := c.node(2), 0, time.Time{}
		c.set(func() {
			busy.delay = time.Second // the read-only one is found first
			busy.script = func(kind string) error {
				if kind != "open" {
					return nil
				}
				if len(busy.dialled()) != dials { // a new connection has a new place
					dials, turn = len(busy.dialled()), time.Now().Add(10*time.Second)
				}
				if time.Now().Before(turn) {
					return full(time.Until(turn))
				}
				return nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second}); err != nil {
			t.Errorf("%v, after %d connections", err, len(busy.dialled()))
		}
	})
}
