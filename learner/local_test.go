package learner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubbles"
)

func TestL1AskedOfNobody(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		g := w.openLocal(w.conn, 1)
		want := session.Session{ID: firstLocal, Timeout: timeout, Owner: 1, Attachment: 1, OpenedAt: session.TimeOfMS(7), Local: true}
		if fmt.Sprint(g.Session) != fmt.Sprint(want) || g.SafeFor != promised(0) || !g.Token.Local || g.Token.Attachment != 1 {
			t.Errorf("granted %+v, want %+v", g, want)
		}
		w.leader.end() // nobody leads any more, for as long as one likes
		for range 5 {
			time.Sleep(timeout - time.Second)
			if got := w.conn.Touch(nil); got.SafeFor != promised(0) || len(got.Failures) > 0 {
				t.Fatalf("a touch without a leader: %+v, want a promise of %v", got, promised(0))
			}
		}
		if got := w.openLocal(w.conn, 2); got.Session.ID != firstLocal+1 {
			t.Errorf("the second session is %v, want %v", got.Session.ID, firstLocal+1)
		}
		if _, err := w.conn.TouchToken(t.Context(), g.Token); err != nil {
			t.Errorf("touch by token: %v", err)
		}
		if err := w.conn.Close(t.Context(), g.Token); err != nil {
			t.Errorf("close: %v", err)
		}
		if l, err := w.server.Find(t.Context(), firstLocal+1); err != nil || l.Remaining <= 0 || !l.Session.Local {
			t.Errorf("shown as %+v, %v", l, err)
		}
		select {
		case m := <-w.leader.toLeader:
			t.Errorf("a leader was asked %+v", m)
		default:
		}
	})
}

func TestL1RefusedWhenOff(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.conn.Open(t.Context(), session.OpenRequest{Local: true, Timeout: timeout})
		if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "local" {
			t.Errorf("open: %v, want a FieldError of local", err)
		}
	})
}

// O2 holds of a local open as far as its node goes.
func TestL1RepeatedOpen(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		first := w.openLocal(w.conn, 1)
		e := &events{}
		if again := w.openLocal(w.connect(e), 1); again.Session.ID != first.Session.ID {
			t.Errorf("a repeat opened %v, want %v again", again.Session.ID, first.Session.ID)
		}
		if err := w.conn.Close(t.Context(), first.Token); err != nil {
			t.Fatal(err)
		}
		if e.ends() != 1 || w.events.ends() != 0 {
			t.Errorf("told %v and %v, want the connection that repeated the open", e.gone, w.events.gone)
		}
		_, err := w.conn.Open(t.Context(), session.OpenRequest{Local: true, Timeout: timeout, RequestID: session.RequestID{1}})
		if gone, ok := errors.AsType[*session.ExpiredError](err); !ok || gone.Certificate == nil || gone.Certificate.Cause != session.CauseClosed {
			t.Errorf("a repeat after the end: %v, want the certificate", err)
		}
	})
}

// A repeat that comes late, after the session was resumed, takes it from nobody.
func TestL1ARepeatedOpenAfterAResume(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		first := w.openLocal(w.conn, 1)
		e, late := &events{}, &events{}
		second, err := w.connect(e).Resume(t.Context(), session.ResumeRequest{Token: first.Token, Instance: 9, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		repeat := session.OpenRequest{Local: true, Timeout: timeout, RequestID: session.RequestID{1}}
		if _, err := w.connect(late).Open(t.Context(), repeat); !errors.Is(err, session.ErrMoved) {
			t.Errorf("a repeat after a resume: %v, want %v", err, session.ErrMoved)
		}
		if err := w.conn.Close(t.Context(), second.Token); err != nil || e.ends() != 1 || late.ends() != 0 {
			t.Errorf("closed: %v; told %v and %v, want the connection that resumed", err, e.gone, late.gone)
		}
	})
}

func TestL2OpensWaitForIDs(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := localWorld(t)
		begun := time.Now()
		open := session.OpenRequest{Local: true, Timeout: timeout, RequestID: session.RequestID{1}}
		if _, err := w.conn.Open(t.Context(), open); !errors.Is(err, session.ErrNoLeader) || time.Since(begun) != time.Second {
			t.Errorf("open without ids: %v after %v, want %v after a second", err, time.Since(begun), session.ErrNoLeader)
		}
		w.follow()
		go func() {
			time.Sleep(300 * time.Millisecond)
			w.claims(firstLocal)
		}()
		begun = time.Now()
		if g, err := w.conn.Open(t.Context(), open); err != nil || g.Session.ID != firstLocal || time.Since(begun) != 300*time.Millisecond {
			t.Errorf("open while ids are claimed: %+v, %v after %v", g, err, time.Since(begun))
		}
	})
}

// More are claimed while half of a block is left, so that an open waits for nobody.
func TestL2ClaimsAheadOfNeed(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		open := func(n int) session.ID {
			id := session.RequestID{1, byte(n), byte(n >> 8), byte(n >> 16)}
			g, err := w.conn.Open(t.Context(), session.OpenRequest{Local: true, Timeout: timeout, RequestID: id})
			if err != nil {
				t.Fatalf("open %d: %v", n, err)
			}
			return g.Session.ID
		}
		n := 0
		for ; n < session.MaxClaim-lowStock; n++ {
			open(n)
		}
		synctest.Wait()
		if len(w.leader.toLeader) != 0 {
			t.Errorf("claims more with %d ids left", w.server.local.stock())
		}
		open(n)
		n++
		second := firstLocal + 100*session.MaxClaim
		w.claims(second)
		for ; n < session.MaxClaim; n++ {
			open(n)
		}
		if got := open(n); got != second {
			t.Errorf("after the first block comes %v, want %v", got, second)
		}
		if got := w.server.Stats(); got.Local != n+1 || got.LocalIDs != session.MaxClaim-1 {
			t.Errorf("%d local sessions and %d ids in stock, want %d and %d", got.Local, got.LocalIDs, n+1, session.MaxClaim-1)
		}
	})
}

func TestL2SaysWhyThereAreNoIDs(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := localWorld(t)
		l := w.follow()
		l.reply(session.Reply{Seq: l.request().Seq, Err: session.ErrIDsUsedUp})
		synctest.Wait()
		if _, err := w.conn.Open(t.Context(), session.OpenRequest{Local: true, Timeout: timeout}); !errors.Is(err, session.ErrIDsUsedUp) {
			t.Errorf("open: %v, want %v", err, session.ErrIDsUsedUp)
		}
	})
}

func TestL3ExpiresATimeoutAfterItsTouch(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
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
		if c.ID != g.Session.ID || c.Cause != session.CauseExpired || c.Owner != 1 || c.Index != 0 || c.LastTouchAge < timeout || c.LastTouchAge > timeout+width+look {
			t.Errorf("certificate %+v", c)
		}
		if _, err := w.server.Find(t.Context(), g.Session.ID); !errors.Is(err, session.ErrExpired) {
			t.Errorf("shown after its end: %v", err)
		}
		if _, err := w.conn.TouchToken(t.Context(), g.Token); !errors.Is(err, session.ErrExpired) {
			t.Errorf("touch after its end: %v", err)
		}
		if got := w.conn.Touch([]session.ID{g.Session.ID}).Failures; len(got) != 1 || !errors.Is(got[0].Err, session.ErrExpired) {
			t.Errorf("touch on its connection after its end: %v", got)
		}
		if got := w.server.Stats(); got.Local != 0 || got.LocalExpired != 1 {
			t.Errorf("%d sessions, %d expired; want 0, 1", got.Local, got.LocalExpired)
		}
	})
}

// A touch of all names what has ended, once: the promise is not for it (I3).
func TestL3ATouchOfAllNamesTheEnded(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		one, other := w.openLocal(w.conn, 1), w.openLocal(w.conn, 2)
		s := w.conn.locals[one.Session.ID]
		if _, err := w.server.local.close(s, 0, time.Now()); err != nil { // and the connection has not been told yet
			t.Fatal(err)
		}
		got := w.conn.Touch(nil)
		if len(got.Failures) != 1 || got.Failures[0].ID != one.Session.ID || got.SafeFor != promised(0) {
			t.Errorf("touched %+v, want %v as a failure and a promise for %v", got, one.Session.ID, other.Session.ID)
		}
		if got := w.conn.Touch(nil); len(got.Failures) != 0 {
			t.Errorf("touched again: %+v", got)
		}
	})
}

// I8: a session that could not be heard, because its node did not run, has a full timeout from the end of that.
func TestL3AStallIsHeldAgainstNobody(t *testing.T) {
	l := newLocal(1, width, awake)
	l.supply(firstLocal, 10)
	if _, err := l.open(opening{timeout: timeout, conn: &connection{}}, 0); err != nil {
		t.Fatal(err)
	}
	const woke = time.Minute
	if gone := l.expire(woke, woke, time.Time{}); len(gone) > 0 {
		t.Fatal("expired for a time in which its node did not run")
	}
	if listed, ok := l.find(firstLocal, woke, woke); !ok || listed.Remaining != timeout {
		t.Errorf("has %v left after the stall, want %v", listed.Remaining, timeout)
	}
	if gone := l.expire(woke+timeout-1, woke, time.Time{}); len(gone) > 0 {
		t.Error("expired early")
	}
	if gone := l.expire(woke+timeout+width, woke, time.Time{}); len(gone) != 1 {
		t.Errorf("%d ended, want 1", len(gone))
	}
}

func TestL3ASuspendedMachineExpiresNobody(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		w.openLocal(w.conn, 1)
		time.Sleep(timeout - time.Second)
		w.server.pulse.look(instant{mono: time.Since(w.server.table.base), wall: time.Now().Add(time.Hour).Round(0)})
		time.Sleep(timeout - time.Second)
		if w.events.ends() > 0 {
			t.Error("expired before its client had a timeout to be heard in")
		}
		time.Sleep(time.Second + width + look)
		if w.events.ends() != 1 {
			t.Error("never expired")
		}
	})
}

// L4: whatever touches come, and whenever, no session ends within a promise.
func TestL4PromisesHold(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := newLocal(1, width, awake)
		l.supply(firstLocal, 100)
		all, safe := map[session.ID]*local{}, map[session.ID]time.Duration{}
		now, vouched := time.Duration(0), time.Duration(0)
		for request := range byte(20) {
			s, err := l.open(opening{
				OpenRequest: session.OpenRequest{RequestID: session.RequestID{request}}, timeout: time.Second * time.Duration(1+random.IntN(10)), conn: &connection{},
			}, now)
			if err != nil {
				t.Fatal(err)
			}
			all[s.facts.ID], safe[s.facts.ID] = s, l.promise(s, 0)
		}
		for len(all) > 0 {
			now += time.Duration(random.Int64N(int64(time.Second)))
			if random.IntN(20) == 0 {
				vouched = now
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
			for _, gone := range l.expire(now, vouched, time.Time{}) {
				if id := gone.certificate.ID; now < safe[id] {
					t.Fatalf("seed %d: %v ended at %v, was promised to be safe until %v", seed, id, now, safe[id])
				}
				delete(all, gone.certificate.ID)
			}
		}
	}
}

func TestL5AResumeFencesTheFormerAttachment(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		first := w.openLocal(w.conn, 1)
		e := &events{}
		other := w.connect(e)
		r := session.ResumeRequest{Token: first.Token, Instance: 9, Attempt: 2}
		second, err := other.Resume(t.Context(), r)
		if err != nil || second.Token.Attachment != 2 || !second.Token.Local || second.SafeFor != promised(0) {
			t.Fatalf("resumed as %+v, %v", second, err)
		}
		if !slices.Equal(w.events.local, []session.ID{first.Session.ID}) || !slices.Equal(w.events.to, []uint64{2}) {
			t.Errorf("the former connection was told %v, to %v", w.events.local, w.events.to)
		}
		if got := w.conn.Touch([]session.ID{first.Session.ID}).Failures; len(got) != 1 || !errors.Is(got[0].Err, session.ErrMoved) {
			t.Errorf("touch through the former connection: %v, want %v", got, session.ErrMoved)
		}
		if _, err := w.conn.TouchToken(t.Context(), first.Token); !errors.Is(err, session.ErrMoved) {
			t.Errorf("touch by the former token: %v, want %v", err, session.ErrMoved)
		}
		if err := w.conn.Close(t.Context(), first.Token); !errors.Is(err, session.ErrMoved) {
			t.Errorf("close by the former token: %v, want %v", err, session.ErrMoved)
		}
		if again, err := other.Resume(t.Context(), r); err != nil || again.Token != second.Token {
			t.Errorf("the same attempt again: %+v, %v; want %+v", again.Token, err, second.Token)
		}
		r.Attempt = 1
		if _, err := w.conn.Resume(t.Context(), r); !errors.Is(err, session.ErrMoved) {
			t.Errorf("an attempt that comes late: %v, want %v (M1)", err, session.ErrMoved)
		}
		if err := other.Close(t.Context(), second.Token); err != nil || e.ends() != 1 {
			t.Errorf("close by the present token: %v, told %v", err, e.gone)
		}
	})
}

func TestL5NeedsTheCredential(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		bad := w.openLocal(w.conn, 1).Token
		bad.Credential[3] ^= 1
		_, touch := w.conn.TouchToken(t.Context(), bad)
		_, resume := w.conn.Resume(t.Context(), session.ResumeRequest{Token: bad, Instance: 1, Attempt: 1})
		for _, err := range []error{touch, resume, w.conn.Close(t.Context(), bad)} {
			if !errors.Is(err, session.ErrBadCredential) {
				t.Errorf("with a bad credential: %v", err)
			}
		}
		if w.server.Stats().Local != 1 {
			t.Error("it did something")
		}
	})
}

// L6: a node that does not know a session says which node alone may know it, and knows better when there is a certificate.
func TestL6ElsewhereItIsNotKnown(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		w := stocked(t)
		const theirs = session.ID(7)<<56 | 1
		local := w.token(theirs, 1)
		local.Local = true
		resume := func(ctx context.Context, t session.Token) error {
			done := make(chan error, 1)
			go func() {
				_, err := w.conn.Resume(ctx, session.ResumeRequest{Token: t, Instance: 1, Attempt: 1})
				done <- err
			}()
			r := w.leader.request()
			if r.Resume == nil || r.Resume.Token != t {
				w.t.Errorf("asked %+v", r)
			}
			w.leader.reply(session.Reply{Seq: r.Seq, Err: &session.ExpiredError{ID: t.ID}})
			return <-done
		}
		gone, ok := errors.AsType[*session.ExpiredError](resume(t.Context(), local))
		if !ok || gone.LocalTo != 7 || gone.Error() != "session 0x0700000000000001 is not known here: it is local to node 7, or has ended" {
			t.Errorf("resume: %v", gone)
		}
		if _, err := w.conn.TouchToken(t.Context(), local); !errors.Is(err, session.ErrMoved) {
			t.Errorf("touch: %v, want %v: another node may know it", err, session.ErrMoved)
		}
		gone, ok = errors.AsType[*session.ExpiredError](resume(t.Context(), w.token(theirs, 1)))
		if !ok || gone.LocalTo != 0 {
			t.Errorf("resume with a global token: %v, want no word of a local session: the log has known it", gone)
		}
		w.view.drop(session.Certificate{ID: theirs, Cause: session.CauseExpired, Owner: 7})
		gone, ok = errors.AsType[*session.ExpiredError](resume(t.Context(), local))
		if !ok || gone.LocalTo != 0 || gone.Certificate == nil {
			t.Errorf("resume of one that has ended: %v", gone)
		}
		if _, err := w.conn.TouchToken(t.Context(), local); !errors.Is(err, session.ErrExpired) {
			t.Errorf("touch of one that has ended: %v", err)
		}
		ours := w.token(firstLocal+9, 1)
		ours.Local = true
		if _, err := w.conn.TouchToken(t.Context(), ours); !errors.Is(err, session.ErrExpired) {
			t.Errorf("touch of one that this node knew: %v, want %v", err, session.ErrExpired)
		}
	})
}
