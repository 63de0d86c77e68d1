package learner

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestR2AnswersWithWhatTheNodeReadsThen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		for _, term := range []uint64{1, 1, 4} {
			w.view.mu.Lock()
			w.view.term, w.view.attachment = term, 10*term
			w.view.mu.Unlock()
			time.Sleep(time.Second)
			a := l.beat(session.Heartbeat{})
			if a.Term != term || a.Attachment != 10*term || a.Round != l.round ||
				a.VouchAge != time.Since(w.server.clock.base) || a.ProcessAge != a.VouchAge || a.Credit != 0 {
				t.Errorf("answer to round %d: %+v, want term %d and h %d as they are now", l.round, a.Answer, term,
					10*term)
			}
		}
	})
}

func TestT1HIsReadAfterTheTableIsTaken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
	bubble.Test(t, func(t *testing.T) {
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
	bubble.Test(t, func(t *testing.T) {
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
		if got := w.conn.Touch([]session.ID{1}); len(got.Failures) != 1 ||
			!errors.Is(got.Failures[0].Err, session.ErrMoved) {
			t.Errorf("touch after a move: %+v, want the failure ErrMoved", got)
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 0 {
			t.Errorf("refused touches were reported: %v", got)
		}
	})
}

func TestT2AnEndedSessionFailsOnceInATouchOfAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		w.open(2, 2)
		w.server.table.end(1, 9, session.ErrMoved) // a move whose word is not out yet
		got := w.conn.Touch(nil)
		if len(got.Failures) != 1 || got.Failures[0].ID != 1 || !errors.Is(got.Failures[0].Err, session.ErrMoved) ||
			got.SafeFor < 0 {
			t.Errorf("touch of all: %+v, want a promise, and the failure of session 1", got)
		}
		if got := w.conn.Touch(nil); len(got.Failures) != 0 {
			t.Errorf("touch of all again: %+v, want no failure", got)
		}
	})
}

func TestT2NeedsTheCredential(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
	bubble.Test(t, func(t *testing.T) {
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
	bubble.Test(t, func(t *testing.T) {
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
	bubble.Test(t, func(t *testing.T) {
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
	wall := time.Unix(0, 0)
	p := newStallDetector(interval, instant{wall: wall}, func() { t.Error("found a suspension") })
	at := func(mono, ahead time.Duration) instant { return instant{mono, wall.Add(mono + ahead)} }
	if p.look(at(interval, 0)); vouches(p, interval) != interval {
		t.Error("a gap of one interval counts as a stall")
	}
	p.look(at(2*interval+1, 0))
	if got := vouches(p, 2*interval+1); got != 0 {
		t.Errorf("after a gap of an interval and 1 ns the node vouches for %v, want 0", got)
	}
	if got := vouches(p, 3*interval); got != interval-1 {
		t.Errorf("later it vouches for %v, want %v", got, interval-1)
	}
}

func vouches(p *stallDetector, now time.Duration) time.Duration {
	age, _, _ := p.vouches(now)
	return age
}

// E1: a stall is credited with its length and the grace, a suspension with what the monotonic clock did not show as
// well, and no moment twice. The process's age is that of its start, whatever it stalled.
func TestE1CreditsStalls(t *testing.T) {
	const begun, second, grace = time.Minute, time.Second, session.GraceIntervals * interval
	for _, tt := range []struct {
		name  string
		looks []time.Duration
		ahead time.Duration // of the last
		want  time.Duration
	}{
		{"none", []time.Duration{interval, 2 * interval}, 0, 0},
		{"one", []time.Duration{interval, interval + second}, 0, second + grace},
		{"two apart", []time.Duration{second, second + interval, second + grace, second + grace + 100, 2*second +
			grace + 100}, 0, 2 * (second + grace)},
		{"two close together", []time.Duration{second, second + 100, 2*second + 100}, 0, 2*second + 100 + grace},
		{"a suspension", []time.Duration{interval}, 5 * second, interval + grace + 5*second},
		{"a clock set forward", []time.Duration{interval}, 200 * 365 * 24 * time.Hour, interval + grace +
			session.MaxTimeout},
		{"a suspension within the grace", []time.Duration{second, second + 100}, 5 * second, second + 100 + grace +
			5*second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wall := time.Unix(0, 0)
			p := newStallDetector(interval, instant{begun, wall}, func() {})
			for i, at := range tt.looks {
				ahead := time.Duration(0)
				if i == len(tt.looks)-1 {
					ahead = tt.ahead
				}
				p.look(instant{begun + at, wall.Add(at + ahead)})
			}
			if _, process, credit := p.vouches(begun + time.Hour); credit != tt.want || process != time.Hour {
				t.Errorf("credited with %v after %v, want %v after 1h", credit, process, tt.want)
			}
		})
	}
}

func TestE1IsLookedAtAgainWhileAnswering(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		time.Sleep(20 * interval)
		if got := l.beat(session.Heartbeat{}).VouchAge; got != 20*interval {
			t.Errorf("vouches for %v, want %v since the start", got, 20*interval)
		}
		w.server.clock.stalls.mu.Lock() // as if nothing had looked for two intervals
		w.server.clock.stalls.last -= 2 * interval
		w.server.clock.stalls.mu.Unlock()
		got := l.beat(session.Heartbeat{})
		if got.VouchAge != 0 || got.ProcessAge != 20*interval || got.Credit != (2+session.GraceIntervals)*interval {
			t.Errorf("after a stall it vouches for %v, runs for %v and is credited with %v", got.VouchAge,
				got.ProcessAge, got.Credit)
		}
	})
}

func TestRequestsEndWithTheStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
	bubble.Test(t, func(t *testing.T) {
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
		w.view.put(session.Session{ID: 1, Attachment: 9})
		l.beat(session.Heartbeat{Attachment: 8, Good: 4, Compare: 20})
		time.Sleep(interval)
		l.beat(session.Heartbeat{Attachment: 8, Good: 5, Compare: 20})
		time.Sleep(interval)
		l.beat(session.Heartbeat{Attachment: 8, Good: 6, Compare: 21})
		if err := w.server.Ready(); err == nil {
			t.Error("ready, and behind by entries that made no attachment")
		}
		w.view.apply(20)
		if err := w.server.Ready(); err != nil {
			t.Errorf("caught up with what the leader had an interval ago: %v", err)
		}
	})
}

func TestStopRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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

// S4: a leader of a term that this node's Raft has not come to is not followed: its good rounds would count as newer
// than all of the leader's own.
func TestS4ALeaderOfATermThatIsToComeIsNotFollowed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, term := range []uint64{2, math.MaxUint64} {
			l := newFakeLeader(t)
			<-l.toRelay
			l.toRelay <- session.LeaderMessage{Welcome: &session.Welcome{Term: term, Leader: 2}}
			followed := make(chan error, 1)
			go func() { followed <- w.server.Follow(l) }()
			select {
			case l.toRelay <- session.LeaderMessage{Heartbeat: &session.Heartbeat{Round: 1, Good: 1}}:
			case <-time.After(time.Second):
			}
			time.Sleep(time.Second)
			l.end()
			if err := <-followed; !errors.Is(err, session.ErrNoLeader) {
				t.Errorf("term %d: %v, want ErrNoLeader", term, err)
			}
		}
		w.follow().beat(session.Heartbeat{Good: 1})
		time.Sleep(interval)
		if err := w.server.Ready(); err != nil {
			t.Errorf("after a good round of the leader's own: %v", err)
		}
	})
}
