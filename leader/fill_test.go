package leader_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/leader"
	"holdfast/session"
)

// slowly is a frozen copy that waits before each session until the test lets it continue.
type slowly struct {
	sessions []session.Session
	step     chan struct{}
}

func (s *slowly) Ascend(_ session.ID, yield func(session.Session) bool) {
	for _, one := range s.sessions {
		<-s.step
		if !yield(one) {
			return
		}
	}
	<-s.step
}

// filling runs a leader whose queue is filled when the test calls fill.
func filling(t *testing.T, ids []session.ID, test func(w *world, m *member, fill func())) {
	t.Helper()
	inBubble(t, voters(1), func(w *world) {
		m := w.join(1, nil)
		frozen := &slowly{step: make(chan struct{})}
		for _, id := range ids {
			frozen.sessions = append(frozen.sessions, w.has(id, 1))
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		done := make(chan error, 1)
		go func() { done <- w.tracker.Run(ctx, frozen) }()
		fill := func() {
			close(frozen.step)
			synctest.Wait()
		}
		w.at(0)
		test(w, m, fill)
		cancel()
		<-done
	})
}

// The tracker serves while it fills. A touch of a session that is not filled in yet counts, and filling does not undo
// it.
func TestFillTouch(t *testing.T) {
	filling(t, []session.ID{5, 6}, func(w *world, m *member, fill func()) {
		w.at(200 * ms)
		m.says(answer(1, session.Touch{ID: 5, Age: 100 * ms}, session.Touch{ID: 7}))
		if got := w.tracker.Stats(); got.TouchesAccepted != 1 || got.TouchesRejected != 1 || got.FillTime != 0 || got.GoodRound != 1 {
			t.Errorf("stats while filling: %+v", got)
		}
		w.at(300 * ms)
		fill()
		if got := w.tracker.Stats(); got.Sessions != 2 || got.FillTime != 300*ms {
			t.Errorf("stats after filling: %+v", got)
		}
		m.replies(prompt)
		w.at(beat)
		remaining := m.ask(session.Request{Read: &session.ReadRequest{Remaining: []session.ID{5, 6}}}).Remaining
		if want := 100*ms + touched - beat; remaining[0] != want {
			t.Errorf("the touched session has %v, want %v", remaining[0], want)
		}
		if want := long - beat; remaining[1] != want {
			t.Errorf("the other has %v, want %v", remaining[1], want)
		}
	})
}

// Filling does not restore a session that has ended or moved since the copy was frozen.
func TestFillBehindTheLog(t *testing.T) {
	filling(t, []session.ID{5, 6, 7}, func(w *world, m *member, fill func()) {
		m.replies(prompt)
		m.says(answer(1))
		tok := token(session.Session{ID: 5, Attachment: 1})
		if r := m.ask(session.Request{Close: &tok}); r.Err != nil {
			w.t.Fatalf("close of a session that is not filled in: %v", r.Err)
		}
		tok = token(session.Session{ID: 6, Attachment: 2})
		if r := m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok}}); r.Err != nil {
			w.t.Fatalf("resume of a session that is not filled in: %v", r.Err)
		}
		w.log.apply(session.CloseSessions{Term: term, Sessions: []session.Closing{{ID: 7, Attachment: 3}}}, term)
		fill()
		if got := w.tracker.Stats(); got.Sessions != 1 {
			t.Errorf("%d sessions tracked, want 1", got.Sessions)
		}
		w.expires(4250*ms, 6)
		closes, _ := proposed[session.CloseSessions](w.log)
		if got := closes[len(closes)-1].Sessions[0]; got.Attachment != 4 {
			t.Errorf("closed with attachment %d, want that of the move, 4", got.Attachment)
		}
	})
}

// The remaining time of a session is known before the session is filled in.
func TestFillRemaining(t *testing.T) {
	filling(t, []session.ID{5}, func(w *world, m *member, fill func()) {
		m.replies(prompt)
		m.says(answer(1))
		w.at(time.Second)
		remaining := m.ask(session.Request{Read: &session.ReadRequest{Remaining: []session.ID{5, 6}}}).Remaining
		if remaining[0] != long-time.Second || remaining[1] >= 0 {
			t.Errorf("remaining %v, want 3s and negative", remaining)
		}
		fill()
	})
}

// The remaining time of a session that is not filled in counts the stalls of its owner.
func TestFillRemainingAfterAStall(t *testing.T) {
	filling(t, []session.ID{5}, func(w *world, m *member, fill func()) {
		m.replies(prompt)
		m.says(answer(1))
		w.at(time.Second)
		m.replies(func(b *session.Heartbeat) *session.Answer {
			a := answer(b.Round)
			a.StallAge, a.Credit = w.now()-600*ms, 200*ms
			return a
		})
		w.at(1500 * ms)
		reply := m.ask(session.Request{Read: &session.ReadRequest{Remaining: []session.ID{5}}})
		if got, want := reply.Remaining[0], long-1500*ms+200*ms; got != want {
			t.Errorf("remaining %v, want %v", got, want)
		}
		fill()
	})
}

// A session that comes due while it waits to be filled in expires once it is filled in.
func TestFillLate(t *testing.T) {
	filling(t, []session.ID{5}, func(w *world, m *member, fill func()) {
		m.replies(prompt)
		m.says(answer(1))
		w.at(10 * time.Second)
		w.alive(5)
		fill()
		w.at(10*time.Second + beat)
		w.alive()
	})
}

// T6, T3: a stream is superseded while the last chunk of one of its answers is being processed. The answer counts for
// no round; the touches in the chunk count, because they had arrived.
func TestFillSuperseded(t *testing.T) {
	filling(t, []session.ID{5}, func(w *world, m *member, fill func()) {
		w.at(200 * ms)
		looking, goOn := make(chan struct{}), make(chan struct{})
		w.view.onSession = sync.OnceFunc(func() {
			close(looking)
			<-goOn
		})
		m.says(answer(1, session.Touch{ID: 5, Age: 100 * ms}))
		<-looking
		newer := w.join(1, nil)
		if err := m.err(); !errors.Is(err, leader.ErrSuperseded) {
			t.Errorf("the older stream ended with %v, want %v", err, leader.ErrSuperseded)
		}
		close(goOn)
		synctest.Wait()
		if got := w.tracker.Stats(); got.TouchesAccepted != 1 || got.GoodRound != 0 {
			t.Errorf("an answer on a superseded stream: %d touches taken, good round %d, want 1 and 0", got.TouchesAccepted,
				got.GoodRound)
		}
		w.at(beat)
		newer.says(answer(newer.last().Round))
		if got := w.tracker.Stats(); got.GoodRound == 0 {
			t.Error("the newer stream's answer makes no round good")
		}
		fill()
	})
}
