package learner

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubbles"
)

func TestR2AnswersWithWhatTheNodeReadsThen(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		for _, term := range []uint64{1, 1, 4} {
			w.view.mu.Lock()
			w.view.term, w.view.attachment = term, 10*term
			w.view.mu.Unlock()
			time.Sleep(time.Second)
			a := l.beat(session.Heartbeat{})
			if a.Term != term || a.Attachment != 10*term || a.Round != l.round || a.VouchAge != time.Since(w.server.table.base) {
				t.Errorf("answer to round %d: %+v, want term %d and h %d as they are now", l.round, a.Answer, term, 10*term)
			}
		}
	})
}

func TestT1HIsReadAfterTheTableIsTaken(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.open(2, 2)
		l.beat(session.Heartbeat{})
		w.conn.Touch([]session.ID{1})
		touched := false
		w.view.onAttachment = func() {
			if !touched {
				touched = true
				w.conn.Touch([]session.ID{2}) // comes too late for this answer
			}
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 1 {
			t.Errorf("answer holds %v, want session 1 only: h is read after the table was taken", got)
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 1 {
			t.Errorf("next answer holds %v, want session 2 only", got)
		}
	})
}

func TestT1LeavesOutWhatMovedByH(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		l.beat(session.Heartbeat{})
		w.conn.Touch(nil)
		w.view.onAttachment = func() { // the move is applied between the swap and the reading of h
			w.view.onAttachment = nil
			w.move(1, 5)
		}
		a := l.beat(session.Heartbeat{})
		if a.Attachment != 5 || len(a.touches) != 0 {
			t.Errorf("answer has h = %d and touches %v, want 5 and none", a.Attachment, a.touches)
		}
	})
}

func TestT2RefusesOtherAttachments(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 3)
		l.beat(session.Heartbeat{Attachment: 3})
		for _, test := range []struct {
			attachment uint64
			want       error
		}{{2, session.ErrMoved}, {4, session.ErrLagging}} {
			if _, err := w.conn.TouchToken(t.Context(), w.token(1, test.attachment)); !errors.Is(err, test.want) {
				t.Errorf("touch with attachment %d of 3: %v, want %v", test.attachment, err, test.want)
			}
		}
		w.move(1, 9)
		if got := w.conn.Touch([]session.ID{1}); len(got.Failures) != 1 || !errors.Is(got.Failures[0].Err, session.ErrMoved) {
			t.Errorf("touch after a move: %+v, want the failure ErrMoved", got)
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 0 {
			t.Errorf("refused touches were reported: %v", got)
		}
	})
}

func TestT2AnEndedSessionFailsOnceInATouchOfAll(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		w.open(2, 2)
		w.server.table.end(1, 9, session.ErrMoved) // a move whose word is not out yet
		got := w.conn.Touch(nil)
		if len(got.Failures) != 1 || got.Failures[0].ID != 1 || !errors.Is(got.Failures[0].Err, session.ErrMoved) || got.SafeFor < 0 {
			t.Errorf("touch of all: %+v, want a promise, and the failure of session 1", got)
		}
		if got := w.conn.Touch(nil); len(got.Failures) != 0 {
			t.Errorf("touch of all again: %+v, want no failure", got)
		}
	})
}

func TestT2NeedsTheCredential(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		l.beat(session.Heartbeat{})
		forged := w.token(1, 1)
		forged.Credential[0] ^= 1
		if _, err := w.conn.TouchToken(t.Context(), forged); !errors.Is(err, session.ErrBadCredential) {
			t.Errorf("touch with a forged credential: %v, want ErrBadCredential", err)
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 0 {
			t.Errorf("a forged touch was reported: %v", got)
		}
	})
}

func TestT3FirstAnswerOfAStreamIsCompleteAndTouchesGoOnce(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.open(2, 2)
		for i, want := range []int{2, 0, 1, 0} {
			if i == 2 {
				w.conn.Touch([]session.ID{2})
			}
			if got := l.beat(session.Heartbeat{}).touches; len(got) != want {
				t.Errorf("answer %d holds %v, want %d sessions", i, got, want)
			}
		}
		l = w.follow()
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 2 {
			t.Errorf("first answer of the second stream holds %v, want both sessions", got)
		}
	})
}

func TestT4AgesCountFromTheTouchOrTheBeginOfServing(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.open(2, 2)
		time.Sleep(3 * time.Second)
		w.conn.Touch([]session.ID{2})
		time.Sleep(2 * time.Second)
		got := l.beat(session.Heartbeat{}).touches
		if got[1] != 5*time.Second || got[2] != 2*time.Second {
			t.Errorf("ages are %v, want 5s since the open of 1 and 2s since the touch of 2", got)
		}
	})
}

// The answer is slow on its way out: what it says of its time is as of the taking of the table.
func TestT4AgesCountToTheTakingOfTheTable(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		time.Sleep(3 * time.Second)
		w.view.onAttachment = func() { time.Sleep(interval) }
		got := l.beat(session.Heartbeat{})
		w.view.onAttachment = nil
		if got.touches[1] != 3*time.Second || got.VouchAge != 3*time.Second {
			t.Errorf("the age is %v, and the node vouches for %v; want 3s both", got.touches[1], got.VouchAge)
		}
	})
}

func TestE1VouchesSinceTheLastStall(t *testing.T) {
	p := newPulse(interval, instant{}, func() { t.Error("found a suspension") })
	wall := time.Unix(0, 0)
	p.last.wall = wall
	at := func(mono, ahead time.Duration) instant { return instant{mono, wall.Add(mono + ahead)} }
	if p.look(at(interval, 0)); p.vouches(interval) != interval {
		t.Error("a gap of one interval counts as a stall")
	}
	p.look(at(2*interval+1, 0))
	if got := p.vouches(2*interval + 1); got != 0 {
		t.Errorf("after a gap of an interval and 1 ns the node vouches for %v, want 0", got)
	}
	if got := p.vouches(3 * interval); got != interval-1 {
		t.Errorf("later it vouches for %v, want %v", got, interval-1)
	}
}

func TestE1IsLookedAtAgainWhileAnswering(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		time.Sleep(20 * interval)
		if got := l.beat(session.Heartbeat{}).VouchAge; got != 20*interval {
			t.Errorf("vouches for %v, want %v since the start", got, 20*interval)
		}
		w.server.pulse.mu.Lock() // as if nothing had looked for two intervals
		w.server.pulse.last.mono -= 2 * interval
		w.server.pulse.mu.Unlock()
		if got := l.beat(session.Heartbeat{}).VouchAge; got != 0 {
			t.Errorf("vouches for %v after a stall, want 0", got)
		}
	})
}

func TestRequestsEndWithTheStream(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.conn.Open(t.Context(), session.OpenRequest{}); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("open without a leader: %v, want ErrNoLeader", err)
		}
		l := w.follow()
		l.beat(session.Heartbeat{})
		done := make(chan error)
		go func() {
			_, err := w.conn.Open(t.Context(), session.OpenRequest{})
			done <- err
		}()
		l.request()
		l.end()
		if err := <-done; !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("open whose stream ended: %v, want ErrOutcomeUnknown", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.follow().beat(session.Heartbeat{})
		go func() {
			_, err := w.conn.Open(ctx, session.OpenRequest{})
			done <- err
		}()
		if err := <-done; !errors.Is(err, session.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("open whose context ended: %v, want ErrOutcomeUnknown and DeadlineExceeded", err)
		}
	})
}

func TestReadyOnceCaughtUp(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.server.Ready(); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("without a leader: %v, want ErrNoLeader", err)
		}
		l := w.follow()
		l.beat(session.Heartbeat{Attachment: 5})
		if err := w.server.Ready(); err == nil {
			t.Error("ready before it heard of a good round")
		}
		l.beat(session.Heartbeat{Attachment: 6, Good: 1})
		if err := w.server.Ready(); err == nil {
			t.Error("ready, and has applied nothing of what the leader had at first")
		}
		w.view.put(session.Session{ID: 1, Attachment: 5})
		if err := w.server.Ready(); err != nil {
			t.Errorf("caught up with what the leader had at first: %v", err)
		}
		time.Sleep(interval)
		l.beat(session.Heartbeat{Attachment: 7, Good: 2})
		if err := w.server.Ready(); err != nil {
			t.Errorf("behind by less than an interval: %v", err)
		}
		time.Sleep(interval)
		l.beat(session.Heartbeat{Attachment: 8, Good: 3})
		if err := w.server.Ready(); err == nil {
			t.Error("ready, and behind by an interval")
		}
	})
}

func TestStopRefuses(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.server.Stop()
		if _, err := w.server.Connect(nil); !errors.Is(err, session.ErrStopping) {
			t.Errorf("connect: %v, want ErrStopping", err)
		}
		if _, err := w.conn.Open(t.Context(), session.OpenRequest{}); !errors.Is(err, session.ErrStopping) {
			t.Errorf("open: %v, want ErrStopping", err)
		}
	})
}
