package learner

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestL3ExpiresATimeoutAfterItsTouch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		g := w.openLocal(w.conn, 1)
		time.Sleep(3 * time.Second)
		w.conn.Touch(nil)
		time.Sleep(timeout - 1)
		if w.events.ends() > 0 || w.server.Stats().Local != 1 {
			t.Fatal("expired early (I1)")
		}
		time.Sleep(width + look + 1)
		synctest.Wait()
		if w.events.ends() != 1 {
			t.Fatalf("told of %d ends within a bucket and a look, want 1 (I2)", w.events.ends())
		}
		c := w.events.gone[0]
		if c.ID != g.Session.ID || c.Cause != session.CauseExpired || c.Owner != 1 || c.Index != 0 ||
			c.LastTouchAge < timeout || c.LastTouchAge > timeout+width+look {
			t.Errorf("certificate %+v", c)
		}
		if _, err := w.server.Find(t.Context(), g.Session.ID, session.ReadOptions{}); !errors.Is(err,
			session.ErrExpired) {
			t.Errorf("shown after its end: %v", err)
		}
		if _, err := w.conn.TouchToken(t.Context(), g.Token); !errors.Is(err, session.ErrExpired) {
			t.Errorf("touch after its end: %v", err)
		}
		if got := w.conn.Touch([]session.ID{g.Session.ID}).Failures; len(got) != 1 ||
			!errors.Is(got[0].Err, session.ErrExpired) {
			t.Errorf("touch on its connection after its end: %v", got)
		}
		if got := w.server.Stats(); got.Local != 0 || got.LocalExpired != 1 {
			t.Errorf("%d sessions, %d expired; want 0, 1", got.Local, got.LocalExpired)
		}
	})
}

// L3: a touch of all names an ended session once, because the promise does not cover it (I3).
func TestL3ATouchOfAllNamesTheEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		one, other := w.openLocal(w.conn, 1), w.openLocal(w.conn, 2)
		s := w.conn.locals[one.Session.ID]
		if _, err := w.server.local.close(s, 0, time.Now()); err != nil { // the connection has not been told yet
			t.Fatal(err)
		}
		got := w.conn.Touch(nil)
		if len(got.Failures) != 1 || got.Failures[0].ID != one.Session.ID || got.SafeFor != promised(0) {
			t.Errorf("touched %+v, want %v as a failure, and a promise for %v", got, one.Session.ID, other.Session.ID)
		}
		if got := w.conn.Touch(nil); len(got.Failures) != 0 {
			t.Errorf("touched again: %+v", got)
		}
	})
}

// L3, I8: after a stall of its node, a session has a full timeout from the end of the stall.
func TestL3AStallIsHeldAgainstNobody(t *testing.T) {
	l := localWith(firstLocal, 10)
	if _, err := l.open(opening{timeout: timeout, conn: &connection{}}, 0); err != nil {
		t.Fatal(err)
	}
	const woke = time.Minute
	stalls := stallsOf(stall{0, woke})
	if gone := l.expire(woke, stalls, time.Time{}); len(gone) > 0 {
		t.Fatal("expired for a time in which the node did not run")
	}
	if listed, ok := l.find(firstLocal, woke, stalls); !ok || listed.Remaining != timeout {
		t.Errorf("has %v left after the stall, want %v", listed.Remaining, timeout)
	}
	if gone := l.expire(woke+timeout-1, stalls, time.Time{}); len(gone) > 0 {
		t.Error("expired early")
	}
	if gone := l.expire(woke+timeout+width, stalls, time.Time{}); len(gone) != 1 {
		t.Errorf("%d ended, want 1", len(gone))
	}
}

// stall is a gap in which a process did not run.
type stall struct{ from, till time.Duration }

// stallsOf returns the credits that a detector gives for stalls.
func stallsOf(all ...stall) *session.Stalls {
	p := newStallDetector(interval, instant{}, func() {})
	for _, s := range all {
		for at := p.last; at < s.from; at += look {
			p.look(instant{mono: at, wall: time.Time{}.Add(at)})
		}
		p.look(instant{mono: s.from, wall: time.Time{}.Add(s.from)})
		p.look(instant{mono: s.till, wall: time.Time{}.Add(s.till)})
	}
	return p.stalled()
}

// L3, I2: a node that stalls more often than once a timeout holds a dead session for the stalls and their credits, and
// no longer. A full timeout after each stall would hold the session for ever.
func TestL3HiccupsHoldNoDeadSession(t *testing.T) {
	l := localWith(firstLocal, 10)
	if _, err := l.open(opening{timeout: timeout, conn: &connection{}}, 0); err != nil {
		t.Fatal(err)
	}
	const hiccup, every = 3 * interval / 2, 5 * time.Second
	var all []stall
	for at := every; at <= timeout; at += every {
		all = append(all, stall{at, at + hiccup})
	}
	stalls := stallsOf(all...)
	due := timeout + 2*(hiccup+session.GraceIntervals*interval)
	if listed, ok := l.find(firstLocal, timeout, stalls); !ok || listed.Remaining != due-timeout {
		t.Errorf("has %v left after %v and %d hiccups, want %v", listed.Remaining, timeout, len(all), due-timeout)
	}
	if gone := l.expire(due-1, stalls, time.Time{}); len(gone) > 0 {
		t.Error("expired before the credit of the hiccups was over (I8)")
	}
	if gone := l.expire(due+width, stalls, time.Time{}); len(gone) != 1 {
		t.Error("never expired (I2)")
	}
}

// L3, I1: when a node stalls just before a session is due, it reads the touches that waited in its sockets before the
// session ends.
func TestL3NobodyComesDueRightAfterAStall(t *testing.T) {
	l := localWith(firstLocal, 10)
	if _, err := l.open(opening{timeout: timeout, conn: &connection{}}, 0); err != nil {
		t.Fatal(err)
	}
	woke := timeout + 2*time.Second // the session was due before the stall, and nothing had looked
	stalls := stallsOf(stall{woke - interval - 1, woke})
	if gone := l.expire(woke+session.GraceIntervals*interval-1, stalls, time.Time{}); len(gone) > 0 {
		t.Error("expired before the node had time to read the touches that waited")
	}
	if gone := l.expire(woke+session.GraceIntervals*interval+width, stalls, time.Time{}); len(gone) != 1 {
		t.Error("never expired")
	}
}

func TestL3ASuspendedMachineExpiresNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		w.openLocal(w.conn, 1)
		time.Sleep(timeout - time.Second)
		w.suspend(time.Hour)
		time.Sleep(timeout - time.Second)
		if w.events.ends() > 0 {
			t.Error("expired before its client had a full timeout to touch it")
		}
		time.Sleep(time.Second + width + look)
		if w.events.ends() != 1 {
			t.Error("never expired")
		}
	})
}

// L4: no session ends within a promise, under random touches and stalls.
func TestL4PromisesHold(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := localWith(firstLocal, 100)
		all, safe := map[session.ID]*local{}, map[session.ID]time.Duration{}
		now, stalls := time.Duration(0), (*session.Stalls)(nil)
		for request := range byte(20) {
			s, err := l.open(opening{
				OpenRequest: session.OpenRequest{RequestID: session.RequestID{request}},
				timeout:     time.Second * time.Duration(1+random.IntN(10)), conn: &connection{},
			}, now)
			if err != nil {
				t.Fatal(err)
			}
			all[s.facts.ID], safe[s.facts.ID] = s, l.promise(s, 0)
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
						if d, err := l.heard(s, now); err == nil {
							safe[id] = now + d
						}
					}
				}
			}
			for _, gone := range l.expire(now, stalls, time.Time{}) {
				if id := gone.certificate.ID; now < safe[id] {
					t.Fatalf("seed %d: %v ended at %v, was promised to be safe until %v", seed, id, now, safe[id])
				}
				delete(all, gone.certificate.ID)
			}
		}
	}
}
