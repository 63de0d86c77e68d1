package leader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// submit sends requests in one message, numbered from 1, and waits until all goroutines are idle.
func (m *member) submit(all ...session.Request) {
	for i := range all {
		all[i].Seq = uint64(i + 1)
	}
	m.out <- session.LearnerMessage{Requests: all}
	synctest.Wait()
}

// The requests of a message are proposed in their order, and the closes among them share commands of bounded size.
func TestRequestsOfAMessageKeepTheirOrder(t *testing.T) {
	solo(t, func(w *world, m *member) {
		const sessions = 300
		var all []session.Request
		var want []session.ID
		for i := range sessions {
			s := w.has(session.ID(100+i), 2)
			w.log.apply(session.MoveSession{ID: s.ID, NewOwner: 2}, term) // the tracker hears of it
			s, _ = w.view.Session(s.ID)
			tok := token(s)
			all = append(all, session.Request{Open: &session.OpenRequest{
				Spec: session.Spec{Timeout: long},
				MS:   uint64(i),
			}},
				session.Request{Close: &tok})
			want = append(want, s.ID)
		}
		m.submit(all...)
		for i := range all {
			if r := m.replied(uint64(i + 1)); r == nil || r.Err != nil {
				t.Fatalf("request %d: %+v", i+1, r)
			}
		}
		opens, _ := proposed[session.OpenSession](w.log)
		if !slices.IsSortedFunc(opens, func(a, b session.OpenSession) int { return int(a.MS) - int(b.MS) }) ||
			len(opens) != sessions {
			t.Errorf("%d opens, or in another order", len(opens))
		}
		closes, _ := proposed[session.CloseSessions](w.log)
		var got []session.ID
		for _, c := range closes {
			for _, one := range c.Sessions {
				got = append(got, one.ID)
			}
		}
		if !slices.Equal(got, want) || len(closes) != 2 || len(closes[0].Sessions) != 256 {
			t.Errorf("%d closes in %d commands, want %d in 2, the first of 256, in order", len(got), len(closes), sessions)
		}
		if got := w.tracker.Stats(); got.Closed != sessions || got.Closing != 0 {
			t.Errorf("stats: %+v", got)
		}
	})
}

// E4, E5: of closes that share a command each has an outcome of its own, and each mark that the log left alone is
// removed.
func TestE4ClosesThatShareACommand(t *testing.T) {
	solo(t, func(w *world, m *member) {
		var all []session.Request
		for id := range session.ID(3) {
			w.has(5+id, 2)
			w.log.apply(session.MoveSession{ID: 5 + id, NewOwner: 2}, term)
			s, _ := w.view.Session(5 + id)
			tok := token(s)
			all = append(all, session.Request{Close: &tok})
		}
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if _, ok := c.(session.CloseSessions); ok {
				w.log.apply(session.MoveSession{ID: 6, NewOwner: 1}, term) // another client was first
			}
			return session.Result{}, nil, false
		})
		m.submit(all...)
		for seq, want := range map[uint64]error{1: nil, 2: session.ErrMoved, 3: nil} {
			if r := m.replied(seq); r == nil || !errors.Is(r.Err, want) {
				t.Errorf("close %d: %+v, want ErrMoved of the second alone: %v", seq, r, want)
			}
		}
		w.alive(6)
		if got := w.tracker.Stats(); got.Closed != 2 || got.Closing != 0 || got.Returned != 1 {
			t.Errorf("%d closed, %d closing, %d returned, want 2, 0, 1", got.Closed, got.Closing, got.Returned)
		}
	})
}

// E4: the outcome of a close decides about the mark also when the stream that asked for the close has ended.
func TestE4ACloseOutlivesItsStream(t *testing.T) {
	for name, outcome := range map[string]error{"refused": session.ErrNotLeader, "unknown": session.ErrOutcomeUnknown} {
		t.Run(name, func(t *testing.T) {
			solo(t, func(w *world, m *member) {
				w.has(5, 2)
				w.log.apply(session.MoveSession{ID: 5, NewOwner: 2}, term)
				s, _ := w.view.Session(5)
				tok := token(s)
				release := make(chan struct{})
				w.log.decides(func(context.Context, session.Command) (session.Result, error, bool) {
					<-release
					return session.Result{}, outcome, true
				})
				m.submit(session.Request{Close: &tok})
				m.cut()
				synctest.Wait()
				if got := w.tracker.Stats().Closing; got != 1 {
					t.Errorf("%d closing after the stream has ended, want 1", got)
				}
				close(release)
				synctest.Wait()
				want := 0
				if errors.Is(outcome, session.ErrOutcomeUnknown) {
					want = 1
				}
				if got := w.tracker.Stats().Closing; got != want {
					t.Errorf("%d closing after the outcome, want %d", got, want)
				}
			})
		})
	}
}

// A tracker that ends waits for no outcome: only the log's bounds end the wait for them.
func TestATrackerEndsWhileItsCommandsWait(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		release := make(chan struct{})
		w.log.decides(func(context.Context, session.Command) (session.Result, error, bool) {
			<-release
			return session.Result{}, session.ErrNotLeader, true
		})
		m := w.join(1, prompt)
		stop := w.run()
		w.at(0)
		m.submit(session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}})
		if err := stop(); !errors.Is(err, context.Canceled) || w.now() != 0 {
			t.Errorf("Run = %v after %v, want it to end at once", err, w.now())
		}
		close(release)
		time.Sleep(time.Millisecond)
	})
}
