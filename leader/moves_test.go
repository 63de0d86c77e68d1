package leader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"holdfast/session"
)

// resumes is a request for sessions that are resumed by their present tokens.
func resumes(all ...session.Session) *session.ResumesRequest {
	r := &session.ResumesRequest{Instance: 77}
	for i, s := range all {
		t := token(s)
		r.Sessions = append(r.Sessions, session.Resuming{
			ID: s.ID, Credential: t.Credential, Attachment: s.Attachment, Attempt: uint64(i) + 1,
		})
	}
	return r
}

// M1, K-03: each session of a request for many is checked by itself, and the ones that pass are one command. The reply
// has what became of each, in the order of the request.
func TestM1ResumesAreOneCommand(t *testing.T) {
	solo(t, func(w *world, m *member) {
		a, b, c := w.has(5, 2), w.has(6, 2), w.has(7, 1)
		unknown, ahead := session.Session{ID: 8, Attachment: 1}, session.Session{ID: 9, Attachment: 1 << 40}
		r := resumes(a, b, unknown, ahead, c)
		r.Sessions[1].Credential[3]++
		got := m.ask(session.Request{Resumes: r})
		if got.Err != nil || len(got.Moved) != 5 || got.Term != term || got.Index != w.log.newest() {
			t.Fatalf("reply %+v, want five outcomes in the term's newest entry, %d", got, w.log.newest())
		}
		for i, want := range []error{nil, session.ErrBadCredential, session.ErrExpired, session.ErrLagging, nil} {
			one := got.Moved[i]
			if !errors.Is(one.Err, want) || (one.Attachment != 0) != (want == nil) {
				t.Errorf("session %d: %+v, want %v", i, one, want)
			}
		}
		moves, _ := proposed[session.MoveSessions](w.log)
		want := []session.Moving{
			{ID: 5, Attempt: 1, Named: a.Attachment}, {ID: 7, Attempt: 5, Named: c.Attachment},
		}
		if len(moves) != 1 || moves[0].NewOwner != 2 || moves[0].Instance != 77 ||
			!slices.Equal(moves[0].Sessions, want) {
			t.Errorf("proposed %+v, want %+v once", moves, want)
		}
		if now, _ := w.view.Session(6); now.Attachment != b.Attachment {
			t.Errorf("the session with a bad credential was moved: %+v", now)
		}
	})
}

// M6: of many sessions, the closing ones are not moved.
func TestM6ClosingOnesOfManyAreNotMoved(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		a, b := w.has(5, 1), w.has(6, 1)
		tok := token(b)
		release := w.blocked()
		m := w.join(1, prompt)
		defer w.run()()
		w.at(ms)
		m.asks(session.Request{Seq: 1, Close: &tok})
		got := m.ask(session.Request{Resumes: resumes(a, b)})
		if len(got.Moved) != 2 || got.Moved[0].Err != nil || !errors.Is(got.Moved[1].Err, session.ErrClosing) {
			t.Errorf("%+v, want one moved and one closing", got)
		}
		release(nil)
		if r := m.replied(1); r == nil || r.Err != nil {
			t.Errorf("close: %+v", r)
		}
	})
}

// M3: what a deposed leader's entry did, and what nobody knows the outcome of, is unknown for each of the sessions that
// were proposed. The others keep their refusals.
func TestM3ResumesOfUnknownOutcome(t *testing.T) {
	for name, answer := range map[string]func(session.Command) (session.Result, error){
		"another term": func(session.Command) (session.Result, error) {
			return session.Result{Term: term + 1, Moved: []session.MoveResult{{Attachment: 50}, {Attachment: 51}}}, nil
		},
		"no answer": func(session.Command) (session.Result, error) { return session.Result{}, session.ErrOutcomeUnknown },
		"half a result": func(session.Command) (session.Result, error) {
			return session.Result{Term: term, Moved: []session.MoveResult{{Attachment: 50}}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			solo(t, func(w *world, m *member) {
				a, b := w.has(5, 2), w.has(6, 2)
				w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
					result, err := answer(c)
					return result, err, true
				})
				got := m.ask(session.Request{Resumes: resumes(a, session.Session{ID: 8, Attachment: 1}, b)})
				for i, want := range []error{session.ErrOutcomeUnknown, session.ErrExpired, session.ErrOutcomeUnknown} {
					if len(got.Moved) != 3 || !errors.Is(got.Moved[i].Err, want) || got.Moved[i].Attachment != 0 {
						t.Fatalf("reply %+v, want %v for session %d", got, want, i)
					}
				}
			})
		})
	}
}

// S2: each of many moves sets the session's deadline like a touch.
func TestS2ResumesTouch(t *testing.T) {
	solo(t, func(w *world, m *member) {
		a, b := w.has(5, 1), w.has(6, 1)
		w.at(long / 2)
		if got := m.ask(session.Request{Resumes: resumes(a, b)}); got.Err != nil || got.Moved[1].Attachment == 0 {
			t.Fatalf("%+v", got)
		}
		w.at(long + long/4)
		w.alive(5, 6)
	})
}

// A stream has a bound of sessions that are being moved at once.
func TestMovesHaveABound(t *testing.T) {
	solo(t, func(w *world, m *member) {
		var all []session.Session
		for id := range session.ID(session.MaxBatch) {
			all = append(all, w.has(id+1, 2))
		}
		release := make(chan struct{})
		w.log.decides(func(context.Context, session.Command) (session.Result, error, bool) {
			<-release
			return session.Result{}, nil, false
		})
		const most = 1 << 17 / session.MaxBatch
		for seq := range uint64(most + 1) {
			m.asks(session.Request{Seq: seq, Resumes: resumes(all...)})
		}
		limit, ok := errors.AsType[*session.LimitError](m.replied(most).Err)
		if !ok || limit.Name != "moves_per_stream" || limit.RetryAfter != session.BusyRetryAfter {
			t.Errorf("the request beyond the bound: %v, want a LimitError of moves_per_stream", m.replied(most).Err)
		}
		close(release)
		synctest.Wait()
		if r := m.ask(session.Request{Resumes: resumes(all[0])}); r.Err != nil {
			t.Errorf("when the others are answered: %+v", r)
		}
	})
}
