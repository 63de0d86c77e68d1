package learner

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// G6: a node is stale while it has not applied the commit index that the leader reported 10 s ago.
func TestG6StaleAfterTenSeconds(t *testing.T) {
	var f freshness
	if f.stale(0, time.Hour) {
		t.Error("stale before the first heartbeat")
	}
	f.record(0, 0) // nothing is committed
	f.record(5, 2*time.Second)
	f.record(9, 4*time.Second)
	f.record(7, 6*time.Second) // a new leader, which knows less
	for _, tt := range []struct {
		applied uint64
		at      time.Duration
		want    bool
	}{
		{0, 11 * time.Second, false},
		{0, 12 * time.Second, true},
		{5, 13 * time.Second, false},
		{5, 14 * time.Second, true},
		{8, 16 * time.Second, true},
		{9, time.Hour, false},
	} {
		if got := f.stale(tt.applied, tt.at); got != tt.want {
			t.Errorf("applied %d at %v: stale %v, want %v", tt.applied, tt.at, got, tt.want)
		}
	}
	f.record(0, time.Hour)
	if !f.stale(8, time.Hour) || f.stale(9, time.Hour) {
		t.Error("what was told long ago is forgotten")
	}
	if f.stale(8, time.Hour) && len(f.recent) != 1 {
		t.Errorf("%d moments are kept, want 1", len(f.recent))
	}
}

// G6: however often heartbeats come, a node is never stale too early, and at most a second too late; and
// what it keeps is bounded.
func TestG6AgainstAllReports(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var f freshness
	var all []commitReport
	now, committed := time.Duration(0), uint64(0)
	for range 20_000 {
		now += time.Duration(random.Int64N(int64(50 * time.Millisecond)))
		if random.IntN(500) == 0 {
			now += time.Duration(random.Int64N(int64(30 * time.Second)))
		}
		committed += random.Uint64N(3)
		f.record(committed, now)
		all = append(all, commitReport{committed: committed, to: now})
		at := now + time.Duration(random.Int64N(int64(15*time.Second)))
		applied := committed - min(committed, random.Uint64N(700))
		must, may := behindAt(all, applied, at-mergeWindow), behindAt(all, applied, at)
		if got := f.stale(applied, at); must && !got || got && !may {
			t.Fatalf("applied %d at %v: stale %v, may be %v, must be %v", applied, at, got, may, must)
		}
		if len(f.recent) > 12 {
			t.Fatalf("%d moments are kept", len(f.recent))
		}
	}
}

// behindAt reports whether a node that has applied up to an index is behind an index that was reported 10 s before at.
func behindAt(all []commitReport, applied uint64, at time.Duration) bool {
	for _, told := range slices.Backward(all) {
		if at-told.to >= staleAfter {
			return applied < told.committed
		}
	}
	return false
}

// G6: each heartbeat has the commit index.
func TestG6HeartbeatsTellWhatIsCommitted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.leader.beat(session.Heartbeat{Committed: 8})
		time.Sleep(staleAfter)
		now := w.server.clock.now()
		if !w.server.beats.stale(7, now) || w.server.beats.stale(8, now) {
			t.Errorf("at 7 stale: %v, at 8: %v", w.server.beats.stale(7, now), w.server.beats.stale(8, now))
		}
	})
}
