package learner

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// L8, S5: during an upgrade the log may decide, so a suspension voids the promises that rest on the upgrade's
// beginning. Before and after, the node's own clock decides, and that clock stood still as well (L4 local promises).
func TestL8ASuspensionVoidsPromisesDuringAnUpgrade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		w.suspend(time.Hour)
		w.promises("after a suspension", promised(0))
		time.Sleep(time.Second)
		done := w.upgrade(w.conn, was.Token)
		seq, _ := w.asked()
		time.Sleep(time.Second)
		w.promises("during the upgrade", promised(time.Second))
		w.suspend(time.Hour)
		if got := w.conn.Touch(nil); got.SafeFor >= 0 || len(got.Failures) > 0 {
			t.Errorf("touch during the upgrade, after a suspension: %+v, want no promise", got)
		}
		if safe, err := w.conn.TouchToken(t.Context(), was.Token); safe >= 0 || err != nil {
			t.Errorf("touch by token: %v, %v, want no promise", safe, err)
		}
		w.leader.reply(session.Reply{Seq: seq, Err: session.ErrNotLeader})
		<-done
		w.promises("after the refusal", promised(0))
	})
}

// L8: during an upgrade a grant makes the promise that a touch would get. The grants are a repeated open, and a resume
// that an upgrade overtakes.
func TestL8GrantsDuringAnUpgrade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		w.upgrade(w.conn, was.Token)
		_, _ = w.asked()
		time.Sleep(3 * time.Second)
		if again := w.openLocal(w.connect(&events{}), 1); again.Session.ID != was.Session.ID ||
			again.SafeFor != promised(3*time.Second) {
			t.Errorf("the repeat of the open is granted %+v, want a promise of %v", again, promised(3*time.Second))
		}

		other := w.openLocal(w.conn, 2)
		made, _, err := w.server.local.Resume(session.ResumeRequest{Token: other.Token, Instance: 1, Attempt: 1},
			localConn{w.conn}, w.server.clock.checkedNow())
		if err != nil {
			t.Fatal(err)
		}
		fresh := other.Token
		fresh.Attachment = made.Facts().Attachment
		w.upgrade(w.conn, fresh)
		_, _ = w.asked()
		time.Sleep(2 * time.Second)
		if g, err := w.conn.grantLocal(made); err != nil || g.SafeFor != promised(2*time.Second) {
			t.Errorf("the resume is granted %+v, %v, want a promise of %v", g, err, promised(2*time.Second))
		}
	})
}

// L8: a grant that comes after the hand-over or the end of its session adds nothing to the connection.
func TestL8AGrantAfterTheHandOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		made := w.conn.locals[was.Session.ID]
		done := w.upgrade(w.conn, was.Token)
		seq, r := w.asked()
		s := w.global(r, 40)
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: 1})
		<-done
		if _, err := w.conn.grantLocal(made); !errors.Is(err, session.ErrMoved) {
			t.Errorf("grant after the hand-over: %v, want %v", err, session.ErrMoved)
		}
		if got := w.conn.Touch(nil); len(got.Failures) > 0 || len(w.conn.locals) > 0 {
			t.Errorf("touch of all: %+v, want no failure", got)
		}
		ended := w.openLocal(w.conn, 2)
		made = w.conn.locals[ended.Session.ID]
		if err := w.conn.Close(t.Context(), ended.Token); err != nil {
			t.Fatal(err)
		}
		if _, err := w.conn.grantLocal(made); !errors.Is(err, session.ErrExpired) || len(w.conn.locals) > 0 {
			t.Errorf("grant after the end: %v, want %v", err, session.ErrExpired)
		}
	})
}
