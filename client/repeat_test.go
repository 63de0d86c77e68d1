package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// O2: what an open finds that repeats another one of the caller's is attached to the node that took the first. The
// client has to resume it.
func TestTheCallersRepeatOfAnOpenIsResumed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
	bubble.Test(t, func(t *testing.T) {
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

// opening is a staged loop that holds a local session, with an open under way on the connection that serves it.
func opening(t *testing.T, local bool) (l *loop, call *call, r *request) {
	t.Helper()
	l, cur, h := staged(t)
	h.closing, h.timeout, h.token.Local, l.now = nil, 10*time.Second, true, time.Now()
	cur.up, cur.out = true, make(chan *holdfastv1.ClientMessage, requestWindow+touchWindow)
	call = newCall(t.Context())
	call.opts.Timeout, call.opts.Local, call.request = 10*time.Second, local, session.RequestID{1}
	l.opens[call] = struct{}{}
	r = l.sendOpen(cur, call)
	l.pump(cur)
	return l, call, r
}

// alsoAt has the open of opening sent to another node too.
func alsoAt(t *testing.T, l *loop, address string) (*conn, *request) {
	t.Helper()
	l.cur.jeopardy, l.cur.failing = true, errJeopardy
	next := &conn{
		Target: route.Target{Server: address, Address: address}, cancel: func() {}, up: true,
		deadline: l.now.Add(time.Second),
		inflight: make(map[uint64]*request), out: make(chan *holdfastv1.ClientMessage, requestWindow+touchWindow),
	}
	l.next, l.router.Moving = next, true
	l.tryNext(next)
	l.pump(next)
	for _, r := range next.inflight {
		if _, open := r.body.(*openBody); open {
			return next, r
		}
	}
	t.Fatal("the open does not go along")
	return nil, nil
}

func (l *loop) answerOpen(c *conn, r *request, s session.Session, promised time.Duration) {
	c.take(r.seq)
	s.Timeout = 10 * time.Second
	l.opened(c, r, r.body.(*openBody).call, &holdfastv1.Opened{
		Session: wire.SessionProto(s), SafeFor: wire.PromiseProto(promised),
		Token: wire.TokenProto(session.Token{ID: s.ID, Attachment: s.Attachment, Local: s.Local}),
	})
}

// resumeAt answers the resume of a session that is on c.
func (l *loop) resumeAt(c *conn, id session.ID, owner session.Node, attachment uint64) {
	r := l.sessions[id].resuming
	l.pump(c)
	c.take(r.seq)
	l.resumed(c, r, r.body.(*resumeBody), &holdfastv1.Resumed{
		Session: wire.SessionProto(
			session.Session{ID: id, Timeout: 10 * time.Second, Owner: owner, Attachment: attachment},
		),
		Token:   wire.TokenProto(session.Token{ID: id, Attachment: attachment}),
		SafeFor: wire.PromiseProto(9 * time.Second),
	})
}

// discarded returns what is closed through c because nobody waits for it.
func discarded(c *conn) (ids []session.ID) {
	for _, r := range slices.Concat(c.queue, slices.Collect(maps.Values(c.inflight))) {
		if d, ok := r.body.(*discardBody); ok {
			ids = append(ids, d.token.ID)
		}
	}
	return ids
}

// An open may be sent through two connections. When the caller has its session by the answer of the first and a resume,
// the answer of the second names the very attachment that the caller holds: it must not be closed as one that nobody
// wants.
func TestALateAnswerToAnOpenClosesNothingThatIsHeld(t *testing.T) {
	l, call, first := opening(t, false)
	cur := l.cur
	next, repeat := alsoAt(t, l, "n2:7400")
	l.answerOpen(cur, first, session.Session{ID: 5, Owner: 1, Attachment: 20}, -1)
	l.step(t.Context())
	l.resumeAt(next, 5, 2, 21)
	if o := <-call.answer; o.err != nil || o.s.ID() != 5 {
		t.Fatalf("opened %v, %v", o.s, o.err)
	}
	l.answerOpen(next, repeat, session.Session{ID: 5, Owner: 2, Attachment: 21}, -1)
	if closed := discarded(next); len(closed) > 0 {
		t.Errorf("closes %v, which the caller holds", closed)
	}
}

// A refusal by one node of what another one has done leaves the call to its session.
func TestALateRefusalOfAnOpenThatIsDone(t *testing.T) {
	for _, err := range []error{&session.LimitError{Name: "max_sessions_per_connection"}, session.ErrOutcomeUnknown} {
		l, call, first := opening(t, false)
		cur := l.cur
		l.cfg.InFlight = FailInFlight
		next, repeat := alsoAt(t, l, "n2:7400")
		l.answerOpen(cur, first, session.Session{ID: 5, Owner: 1, Attachment: 20}, -1)
		next.take(repeat.seq)
		l.failed(next, repeat, err)
		l.resumeAt(next, 5, 2, 21)
		if o := <-call.answer; o.err != nil || o.s.ID() != 5 {
			t.Errorf("after %v: opened %v, %v", err, o.s, o.err)
		}
	}
}

// L1: a local open that goes through two nodes opens two sessions. The one that nobody waits for is closed.
func TestTheSecondOfTwoLocalSessionsIsClosed(t *testing.T) {
	l, _, first := opening(t, true)
	cur := l.cur
	l.router.Refused = true // the next node may be read-only as well: the open shows what it is
	next, repeat := alsoAt(t, l, "n2:7400")
	x, y := session.ID(1<<56|5), session.ID(2<<56|7)
	l.answerOpen(cur, first, session.Session{ID: x, Owner: 1, Attachment: 1, Local: true}, 9*time.Second)
	l.answerOpen(next, repeat, session.Session{ID: y, Owner: 2, Attachment: 1, Local: true}, 9*time.Second)
	if closed := discarded(next); !next.stray || !slices.Equal(closed, []session.ID{y}) {
		t.Errorf("closes %v, want %v; touches of all leave it out: %v", closed, y, next.stray)
	}
}

// What an open that was given up brought is left to the caller's repeat of it, when there is one under way.
func TestAnOpenThatIsGivenUpClosesNothingThatItsRepeatFinds(t *testing.T) {
	for name, repeated := range map[string]bool{"repeated": true, "given up for good": false} {
		t.Run(name, func(t *testing.T) {
			l, one, first := opening(t, false)
			cur := l.cur
			l.giveUp(one, context.DeadlineExceeded)
			two := newCall(t.Context())
			two.opts, two.request = one.opts, one.request
			var second *request
			if repeated {
				l.opens[two] = struct{}{}
				second = l.sendOpen(cur, two)
				l.pump(cur)
			}
			s := session.Session{ID: 5, Owner: 1, Attachment: 20}
			l.answerOpen(cur, first, s, 9*time.Second)
			if repeated {
				l.answerOpen(cur, second, s, -1)
			}
			if closed := discarded(cur); len(closed) > 0 == repeated || !cur.stray {
				t.Errorf("closes %v; touches of all leave it out: %v", closed, cur.stray)
			}
		})
	}
}

// An open that is refused for now at a node that is tried beside a read-only one waits there, on its connection, where
// it has its place.
func TestAnOpenThatIsPutOffBesideAReadOnlyNodeKeepsItsPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
