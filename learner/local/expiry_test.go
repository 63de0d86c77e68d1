package local

import (
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/session"
)

// L3, I8: after a stall of its node, a session has a full timeout from the end of the stall.
func TestL3AStallIsHeldAgainstNobody(t *testing.T) {
	l := tableWith(firstLocal, 10)
	if _, err := l.Open(session.OpenRequest{Spec: session.Spec{Timeout: timeout}}, &conn{}, 0); err != nil {
		t.Fatal(err)
	}
	const woke = time.Minute
	stalls := stallsOf(stall{0, woke})
	if gone := l.Expire(woke, stalls, time.Time{}); len(gone) > 0 {
		t.Fatal("expired for a time in which the node did not run")
	}
	if listed, ok := l.Find(firstLocal, woke, stalls); !ok || listed.Remaining != timeout {
		t.Errorf("has %v left after the stall, want %v", listed.Remaining, timeout)
	}
	if gone := l.Expire(woke+timeout-1, stalls, time.Time{}); len(gone) > 0 {
		t.Error("expired early")
	}
	if gone := l.Expire(woke+timeout+width, stalls, time.Time{}); len(gone) != 1 {
		t.Errorf("%d ended, want 1", len(gone))
	}
}

// stall is a gap in which a process did not run.
type stall struct{ from, till time.Duration }

// stallsOf returns the credits that a node gives its sessions for stalls: the gap with a grace behind it, where
// overlapping times count once (E1 full timeout after a change of leader).
func stallsOf(all ...stall) (stalls *session.Stalls) {
	const grace = session.GraceIntervals * interval
	covered := time.Duration(0)
	for _, s := range all {
		stalls = stalls.With(s.till, s.till+grace-max(s.from, covered), grace)
		covered = s.till + grace
	}
	return stalls
}

// L3, I2: a node that stalls more often than once a timeout holds a dead session for the stalls and their credits, and
// no longer. A full timeout after each stall would hold the session for ever.
func TestL3HiccupsHoldNoDeadSession(t *testing.T) {
	l := tableWith(firstLocal, 10)
	if _, err := l.Open(session.OpenRequest{Spec: session.Spec{Timeout: timeout}}, &conn{}, 0); err != nil {
		t.Fatal(err)
	}
	const hiccup, every = 3 * interval / 2, 5 * time.Second
	var all []stall
	for at := every; at <= timeout; at += every {
		all = append(all, stall{at, at + hiccup})
	}
	stalls := stallsOf(all...)
	due := timeout + 2*(hiccup+session.GraceIntervals*interval)
	if listed, ok := l.Find(firstLocal, timeout, stalls); !ok || listed.Remaining != due-timeout {
		t.Errorf("has %v left after %v and %d hiccups, want %v", listed.Remaining, timeout, len(all), due-timeout)
	}
	if gone := l.Expire(due-1, stalls, time.Time{}); len(gone) > 0 {
		t.Error("expired before the credit of the hiccups was over (I8)")
	}
	if gone := l.Expire(due+width, stalls, time.Time{}); len(gone) != 1 {
		t.Error("never expired (I2)")
	}
}

// L3, I1: when a node stalls just before a session is due, it reads the touches that waited in its sockets before the
// session ends.
func TestL3NobodyComesDueRightAfterAStall(t *testing.T) {
	l := tableWith(firstLocal, 10)
	if _, err := l.Open(session.OpenRequest{Spec: session.Spec{Timeout: timeout}}, &conn{}, 0); err != nil {
		t.Fatal(err)
	}
	woke := timeout + 2*time.Second // the session was due before the stall, and nothing had looked
	stalls := stallsOf(stall{woke - interval - 1, woke})
	if gone := l.Expire(woke+session.GraceIntervals*interval-1, stalls, time.Time{}); len(gone) > 0 {
		t.Error("expired before the node had time to read the touches that waited")
	}
	if gone := l.Expire(woke+session.GraceIntervals*interval+width, stalls, time.Time{}); len(gone) != 1 {
		t.Error("never expired")
	}
}

// L4: no session ends within a promise, under random touches and stalls.
func TestL4PromisesHold(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := tableWith(firstLocal, 100)
		all, safe := map[session.ID]*Session{}, map[session.ID]time.Duration{}
		now, stalls := time.Duration(0), (*session.Stalls)(nil)
		for request := range byte(20) {
			s, err := l.Open(session.OpenRequest{
				RequestID: session.RequestID{request},
				Spec:      session.Spec{Timeout: time.Second * time.Duration(1+random.IntN(10))},
			}, &conn{}, now)
			if err != nil {
				t.Fatal(err)
			}
			all[s.facts.ID], safe[s.facts.ID] = s, session.SafeFor(s.facts.Timeout, 0)
		}
		for len(all) > 0 {
			now += time.Duration(random.Int64N(int64(time.Second)))
			if random.IntN(20) == 0 {
				stalls = stalls.With(now, time.Duration(random.Int64N(int64(time.Second))),
					session.GraceIntervals*interval)
			}
			if now < 30*time.Second {
				for id, s := range all {
					if random.IntN(10) == 0 {
						if d, err := l.Touch(s, now); err == nil {
							safe[id] = now + d
						}
					}
				}
			}
			for _, gone := range l.Expire(now, stalls, time.Time{}) {
				if id := gone.Certificate.ID; now < safe[id] {
					t.Fatalf("seed %d: %v ended at %v, was promised to be safe until %v", seed, id, now, safe[id])
				}
				delete(all, gone.Certificate.ID)
			}
		}
	}
}
