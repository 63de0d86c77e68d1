package learner

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// S4, R1: jeopardy begins after three of the leader's intervals; after three of the node's own where a leader does not
// tell.
func TestS4JeopardyAfterThreeIntervalsOfTheLeader(t *testing.T) {
	for told, want := range map[time.Duration]time.Duration{
		0: interval, 4 * interval: 4 * interval, interval / 5: interval / 5,
	} {
		t.Run(told.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.follow()
				l.beat(session.Heartbeat{Good: 1, Interval: interval * 3 / 2}) // a former leader's is forgotten
				l.beat(session.Heartbeat{Good: 2, Interval: told})
				begin := time.Now()
				time.Sleep(60 * interval)
				synctest.Wait()
				w.events.mu.Lock()
				defer w.events.mu.Unlock()
				if len(w.events.at) != 1 {
					t.Fatalf("told jeopardy %v, want it once", w.events.jeopardy)
				}
				after := w.events.at[0].Sub(begin)
				if least := jeopardyIntervals * want; after <= least || after > least+interval/4 {
					t.Errorf("told of jeopardy after %v, want just above %v", after, least)
				}
			})
		})
	}
}

// E1, R1: a stall above the leader's interval counts, where that is shorter than the node's own; the node looks often
// enough that nothing else does. One above the node's own counts too, where that is shorter: local sessions rest on it
// (L3).
func TestE1StallsByTheShorterInterval(t *testing.T) {
	for told, stall := range map[time.Duration]time.Duration{interval / 5: interval / 4, 10 * interval: interval + 1} {
		t.Run(told.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.follow()
				l.beat(session.Heartbeat{Good: 1, Interval: told})
				begin := time.Now()
				time.Sleep(10*interval + 1)
				if got := l.beat(session.Heartbeat{Good: 2, Interval: told}); got.VouchAge != time.Since(begin) ||
					got.Credit != 0 {
					t.Errorf("without a stall it vouches for %v and is credited with %v, want %v and 0", got.VouchAge,
						got.Credit, time.Since(begin))
				}
				w.server.clock.stalls.mu.Lock() // as if nothing had looked since
				w.server.clock.stalls.last -= stall
				w.server.clock.stalls.mu.Unlock()
				got := l.beat(session.Heartbeat{Good: 3, Interval: told})
				if want := stall + session.GraceIntervals*min(told, interval); got.VouchAge != 0 || got.Credit != want {
					t.Errorf("after a stall of %v it vouches for %v and is credited with %v, want 0 and %v", stall,
						got.VouchAge, got.Credit, want)
				}
			})
		})
	}
}
