package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// solo runs a leader that is its own quorum.
func solo(t *testing.T, test func(w *world, m *member)) {
	t.Helper()
	inBubble(t, voters(1, 2), func(w *world) {
		w.view.members[1].Voter = false
		w.join(1, prompt)
		defer w.run()()
		w.at(0)
		test(w, w.join(2, prompt))
	})
}

// ask sends a request and returns its reply. The test fails if there is none.
func (m *member) ask(r session.Request) *session.Reply {
	m.w.t.Helper()
	m.mu.Lock()
	r.Seq = uint64(len(m.answers) + 1000)
	m.mu.Unlock()
	m.asks(r)
	reply := m.replied(r.Seq)
	if reply == nil {
		m.w.t.Fatalf("at %v no reply to %+v", m.w.now(), r)
	}
	return reply
}

// The refusal for an ended session carries the index at which the learner has the certificate.
func TestM5EndsSayWhatToWaitFor(t *testing.T) {
	solo(t, func(w *world, m *member) {
		tok := token(w.has(5, 2))
		w.view.mu.Lock()
		delete(w.view.sessions, 5)
		w.view.commit = 123
		w.view.mu.Unlock()
		r := m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok, Instance: 1, Attempt: 1}})
		if !errors.Is(r.Err, session.ErrExpired) || r.Index != 123 {
			t.Errorf("reply %+v, want ErrExpired and index 123", r)
		}
	})
}

// K-03: a client without the credential learns nothing, not even whether the session exists, and changes nothing.
func TestBadCredential(t *testing.T) {
	solo(t, func(w *world, m *member) {
		tok := token(w.has(5, 2))
		for _, id := range []session.ID{5, 6} {
			tok.ID, tok.Credential = id, session.Credential{}
			for _, r := range []*session.Reply{
				m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok}}), m.ask(session.Request{Close: &tok}),
			} {
				if !errors.Is(r.Err, session.ErrBadCredential) {
					t.Errorf("session %v: %v, want ErrBadCredential", id, r.Err)
				}
			}
		}
		if len(w.log.all) != 0 || w.tracker.Stats().Closing != 0 {
			t.Errorf("proposed %+v", w.log.all)
		}
	})
}

func TestUnknownSession(t *testing.T) {
	solo(t, func(w *world, m *member) {
		tok := session.Token{ID: 6, Credential: credential(6)}
		for _, r := range []*session.Reply{
			m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok}}), m.ask(session.Request{Close: &tok}),
		} {
			if got, ok := errors.AsType[*session.ExpiredError](r.Err); !ok || got.ID != 6 {
				t.Errorf("%v, want an ExpiredError", r.Err)
			}
		}
	})
}

// M5: a deposed leader that does not know it yet may not have applied the open.
func TestM5NotExpiredButLagging(t *testing.T) {
	solo(t, func(w *world, m *member) {
		tok := session.Token{ID: 6, Credential: credential(6), Attachment: w.view.Attachment() + 1}
		for _, r := range []*session.Reply{
			m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok}}), m.ask(session.Request{Close: &tok}),
		} {
			if !errors.Is(r.Err, session.ErrLagging) {
				t.Errorf("%v, want ErrLagging", r.Err)
			}
		}
	})
}

// M3: no heartbeat carries an attachment that a deposed leader has applied as a follower.
func TestM3HeartbeatOfADeposedLeader(t *testing.T) {
	solo(t, func(w *world, m *member) {
		w.at(600 * time.Millisecond)
		w.view.mu.Lock()
		w.view.onAttachment = func() { w.view.term, w.view.attachment = term+1, 99 }
		w.view.mu.Unlock()
		w.at(3 * time.Second)
		if got := m.last().Attachment; got == 99 {
			t.Error("a deposed leader vouched for attachment 99")
		}
	})
}

// M2: a close takes effect only under the session's attachment.
func TestM2Close(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.has(4, 1)
		s := w.has(5, 1)
		m := w.join(1, prompt)
		defer w.run()()
		w.at(0)
		for attachment, want := range map[uint64]error{
			s.Attachment - 1: session.ErrMoved, s.Attachment + 1: session.ErrLagging,
		} {
			tok := token(s)
			tok.Attachment = attachment
			if r := m.ask(session.Request{Close: &tok}); !errors.Is(r.Err, want) {
				t.Errorf("attachment %d of %d: %v, want %v", attachment, s.Attachment, r.Err, want)
			}
		}
		if closes, _ := proposed[session.CloseSessions](w.log); closes != nil {
			w.t.Fatalf("proposed %+v", closes)
		}
		tok := token(s)
		tok.Attachment--
		told, _ := errors.AsType[*session.MovedError](m.ask(session.Request{Close: &tok}).Err)
		if told == nil || told.Attachment != s.Attachment {
			t.Errorf("told %+v of a session with attachment %d", told, s.Attachment)
		}
		tok = token(s)
		if r := m.ask(session.Request{Close: &tok}); r.Err != nil || r.Index == 0 || r.Term != term {
			t.Errorf("reply %+v", r)
		}
		w.alive(4)
		closes, _ := proposed[session.CloseSessions](w.log)
		if closes[0].Cause != session.CauseClosed || closes[0].Term != term {
			t.Errorf("proposed %+v", closes[0])
		}
		if got := w.tracker.Stats(); got.Closed != 1 || got.Expired != 0 {
			t.Errorf("closed %d, expired %d, want 1, 0", got.Closed, got.Expired)
		}
	})
}

// E4: the rule holds for a client's close too. If the close is refused the session lives on. The proposal outlives the
// stream, so that its outcome still decides about the mark.
func TestE4ClientClose(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		tok := token(w.has(5, 1))
		release := w.blocked()
		m := w.join(1, prompt)
		defer w.run()()
		w.at(ms)
		m.asks(session.Request{Seq: 1, Close: &tok})
		if got := w.tracker.Stats().Closing; got != 1 {
			w.t.Fatalf("%d closing, want 1", got)
		}
		m.cut()
		synctest.Wait()
		if got := w.tracker.Stats().Closing; got != 1 {
			w.t.Fatalf("%d closing after the stream ended, want 1", got)
		}
		release(session.ErrNotLeader)
		if got := w.tracker.Stats(); got.Closing != 0 || got.Returned != 1 {
			t.Errorf("%d closing, %d returned, want 0, 1", got.Closing, got.Returned)
		}
		w.alive(5)
	})
}

// If the state machine left the session alone, the reply to the close says why.
func TestCloseLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		before session.Command
		want   error
	}{
		"moved before": {session.MoveSession{ID: 5, NewOwner: 1}, session.ErrMoved},
		"ended before": {
			session.CloseSessions{Term: term, Sessions: []session.Closing{{ID: 5, Attachment: 1}}},
			session.ErrExpired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, voters(1), func(w *world) {
				tok := token(w.has(5, 1))
				m := w.join(1, prompt)
				defer w.run()()
				w.at(ms)
				w.log.decides(func(_ context.Context, p session.Command) (session.Result, error, bool) {
					w.log.apply(c.before, term)
					return session.Result{}, nil, false
				})
				if r := m.ask(session.Request{Close: &tok}); !errors.Is(r.Err, c.want) {
					t.Errorf("%v, want %v", r.Err, c.want)
				}
			})
		})
	}
}

// M3: a leader does not say what an entry of another term did, nor what an entry did once its own term is over.
func TestM3OutcomeUnknown(t *testing.T) {
	for name, in := range map[string]uint64{"entry of another term": term + 1, "own term over": term} {
		t.Run(name, func(t *testing.T) {
			solo(t, func(w *world, m *member) {
				w.has(5, 2)
				w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
					if in == term {
						w.view.mu.Lock()
						w.view.term++
						w.view.mu.Unlock()
					}
					return w.log.apply(c, in), nil, true
				})
				synctest.Wait()
				reply, err := w.tracker.Answer(w.t.Context(),
					2, &session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}})
				if !errors.Is(err, session.ErrOutcomeUnknown) || reply.Session.ID != 0 {
					t.Errorf("%+v, %v, want ErrOutcomeUnknown", reply, err)
				}
			})
		})
	}
}

// A stream has a bound of requests in flight. Requests beyond it are refused, and the others are answered.
func TestRequestsBounded(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		release := make(chan struct{})
		w.log.decides(func(context.Context, session.Command) (session.Result, error, bool) {
			<-release
			return session.Result{Term: term}, nil, true
		})
		m := w.join(1, prompt)
		defer w.run()()
		for seq := range uint64(4097) {
			m.out <- session.LearnerMessage{
				Requests: []session.Request{{Seq: seq, Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}}},
			}
		}
		synctest.Wait()
		limit, ok := errors.AsType[*session.LimitError](m.replied(4096).Err)
		if !ok || limit.Limit != "4096" || m.replied(0) != nil {
			t.Errorf("the request beyond the bound: %+v; the first: %+v", m.replied(4096), m.replied(0))
		}
		close(release)
		synctest.Wait()
		for seq := range uint64(4096) {
			if r := m.replied(seq); r == nil || r.Err != nil {
				w.t.Fatalf("reply %d: %+v", seq, r)
			}
		}
		if r := m.ask(session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}}); r.Err != nil {
			t.Errorf("after the others were answered: %v", r.Err)
		}
	})
}

// Waiting opens use no slot of a resume, a close or a read of the same node.
func TestOpensThatWaitHoldUpNothingElse(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		tok, other := token(w.has(5, 1)), token(w.has(6, 1))
		release := make(chan struct{})
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if _, ok := c.(session.OpenSession); ok {
				<-release
			}
			return session.Result{}, nil, false
		})
		m := w.join(1, prompt)
		defer w.run()()
		const waiting = 4097
		for seq := range uint64(waiting) {
			m.out <- session.LearnerMessage{
				Requests: []session.Request{{Seq: seq, Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}}},
			}
		}
		synctest.Wait()
		limit, ok := errors.AsType[*session.LimitError](m.replied(waiting - 1).Err)
		if !ok || limit.Name != "opens_per_stream" || limit.Limit != "4096" {
			t.Errorf("the open beyond the bound: %+v, want a LimitError of opens_per_stream", m.replied(waiting-1))
		}
		for name, r := range map[string]session.Request{
			"resume": {Resume: &session.ResumeRequest{Token: tok, Instance: 1, Attempt: 1}},
			"close":  {Close: &other},
			"read":   {Read: &session.ReadRequest{}},
		} {
			if r := m.ask(r); r == nil || r.Err != nil {
				t.Errorf("%s: %+v, want it answered while %d opens wait", name, r, waiting-1)
			}
		}
		close(release)
		synctest.Wait()
		for seq := range uint64(waiting - 1) {
			if r := m.replied(seq); r == nil || r.Err != nil {
				t.Fatalf("open %d: %+v", seq, r)
			}
		}
	})
}

func TestEmptyRequest(t *testing.T) {
	solo(t, func(_ *world, m *member) {
		if r := m.ask(session.Request{}); !errors.Is(r.Err, session.ErrInvalid) {
			t.Errorf("%+v, want ErrInvalid", r)
		}
	})
}
