package learner

import (
	"errors"
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

// L3: a touch of all names an ended session once, because the promise does not cover it (I3 an acknowledged touch
// counts).
func TestL3ATouchOfAllNamesTheEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		one, other := w.openLocal(w.conn, 1), w.openLocal(w.conn, 2)
		s := w.conn.locals[one.Session.ID]
		if _, err := w.server.local.Close(s, 0, time.Now()); err != nil { // the connection has not been told yet
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
