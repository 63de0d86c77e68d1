package learner

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// C2: a node that has stepped out refuses all requests, promises nothing, and leaves its leader.
func TestC2StepOut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		g := w.open(1<<56|1, 1)
		if got := w.conn.Touch(nil); got.SafeFor <= 0 {
			t.Errorf("before stepping out: %+v, want a promise", got)
		}
		w.server.StepOut()
		synctest.Wait()
		if got := w.conn.Touch(nil); got.SafeFor > 0 {
			t.Errorf("after stepping out the node promises %v", got.SafeFor)
		}
		select {
		case <-l.ended:
		case <-time.After(time.Second):
			t.Error("the node stays with its leader")
		}
		if _, err := w.server.Find(t.Context(), g.Session.ID, session.ReadOptions{}); err == nil {
			t.Error("the node answers reads")
		}
		if _, err := w.server.Connect(nil); err == nil {
			t.Error("the node takes connections")
		}
	})
}

func TestStateAllocatesNothing(t *testing.T) {
	w := NewServer(readOnlyConfig(), newFakeView())
	if n := testing.AllocsPerRun(100, func() { w.State() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRequestsEndWithTheStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.conn.Open(t.Context(), session.OpenRequest{}); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("open without a leader: %v, want ErrNoLeader", err)
		}
		l := w.follow()
		l.beat(session.Heartbeat{})
		done := w.opening()
		l.request()
		l.end()
		if got := <-done; !errors.Is(got.err, session.ErrOutcomeUnknown) {
			t.Errorf("open whose stream ended: %v, want ErrOutcomeUnknown", got.err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.follow().beat(session.Heartbeat{})
		_, err := w.conn.Open(ctx, session.OpenRequest{})
		if !errors.Is(err, session.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
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
			t.Error("ready before the node heard of a good round")
		}
		l.beat(session.Heartbeat{Attachment: 6, Good: 1})
		if err := w.server.Ready(); err == nil {
			t.Error("ready before the node applied anything that the leader had at first")
		}
		w.view.put(session.Session{ID: 1, Attachment: 5})
		if err := w.server.Ready(); err != nil {
			t.Errorf("caught up with the state that the leader had at first: %v", err)
		}
		time.Sleep(interval)
		l.beat(session.Heartbeat{Attachment: 7, Good: 2})
		if err := w.server.Ready(); err != nil {
			t.Errorf("behind by less than an interval: %v", err)
		}
		time.Sleep(interval)
		l.beat(session.Heartbeat{Attachment: 8, Good: 3})
		if err := w.server.Ready(); err == nil {
			t.Error("ready although behind by an interval")
		}
		w.view.put(session.Session{ID: 1, Attachment: 9})
		l.beat(session.Heartbeat{Attachment: 8, Good: 4, Compare: 20})
		time.Sleep(interval)
		l.beat(session.Heartbeat{Attachment: 8, Good: 5, Compare: 20})
		time.Sleep(interval)
		l.beat(session.Heartbeat{Attachment: 8, Good: 6, Compare: 21})
		if err := w.server.Ready(); err == nil {
			t.Error("ready although behind by entries that made no attachment")
		}
		w.view.apply(20)
		if err := w.server.Ready(); err != nil {
			t.Errorf("caught up with the state that the leader had an interval ago: %v", err)
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

// S4: the node follows no leader of a term that its Raft has not reached. The good rounds of such a term would count as
// newer than all rounds of the true leader.
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
			t.Errorf("after a good round of the true leader: %v", err)
		}
	})
}
