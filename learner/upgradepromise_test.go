package learner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

// S5: while the log may decide, a suspension voids what rests on the begin of the upgrade; before and after, the node's
// own clock decides, which stood as well (L4).
func TestL8ASuspensionVoidsPromisesDuringAnUpgrade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		w.suspend()
		if got := w.conn.Touch(nil).SafeFor; got != promised(0) {
			t.Errorf("promise after a suspension: %v, want %v", got, promised(0))
		}
		time.Sleep(time.Second)
		done := w.upgrade(w.conn, was.Token)
		seq, _ := w.asked()
		time.Sleep(time.Second)
		if got := w.conn.Touch(nil).SafeFor; got != promised(time.Second) {
			t.Errorf("promise during the upgrade: %v, want %v", got, promised(time.Second))
		}
		w.suspend()
		if got := w.conn.Touch(nil); got.SafeFor >= 0 || len(got.Failures) > 0 {
			t.Errorf("touch during the upgrade, after a suspension: %+v, want no promise", got)
		}
		if safe, err := w.conn.TouchToken(t.Context(), was.Token); safe >= 0 || err != nil {
			t.Errorf("touch by token: %v, %v, want no promise", safe, err)
		}
		w.leader.reply(session.Reply{Seq: seq, Err: session.ErrNotLeader})
		<-done
		if got := w.conn.Touch(nil).SafeFor; got != promised(0) {
			t.Errorf("promise after the refusal: %v, want %v", got, promised(0))
		}
	})
}

// A grant during an upgrade promises what a touch would: the repeat of the open, and a resume that an upgrade
// overtakes.
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
		made, _, err := w.server.local.resume(session.ResumeRequest{Token: other.Token, Instance: 1, Attempt: 1},
			w.conn, w.server.clock.look())
		if err != nil {
			t.Fatal(err)
		}
		fresh := other.Token
		fresh.Attachment = made.facts.Attachment
		w.upgrade(w.conn, fresh)
		_, _ = w.asked()
		time.Sleep(2 * time.Second)
		if g, err := w.conn.grantLocal(made); err != nil || g.SafeFor != promised(2*time.Second) {
			t.Errorf("the resume is granted %+v, %v, want a promise of %v", g, err, promised(2*time.Second))
		}
	})
}

// A node that stops does not wait for what it can ask no more.
func TestL8StoppingLeavesAnUnknownOutcome(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		done := w.upgrade(w.conn, was.Token)
		_, _ = w.asked()
		w.leader.end()
		synctest.Wait()
		w.server.Stop()
		time.Sleep(interval)
		synctest.Wait()
		select {
		case got := <-done:
			if !errors.Is(got.err, session.ErrOutcomeUnknown) {
				t.Errorf("upgrade: %v, want %v", got.err, session.ErrOutcomeUnknown)
			}
		default:
			t.Error("an upgrade keeps the node from stopping")
		}
		if got := w.conn.Touch(nil); len(got.Failures) > 0 || w.server.Stats().Local != 1 {
			t.Errorf("touch afterwards: %+v, want the session as it was", got)
		}
	})
}

// What this node could not wait for is an unknown outcome: the session is left as it is.
func TestL8AnEndThatIsNotAppliedHere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		f, _, err := w.server.local.lift(w.openLocal(w.conn, 1).Token, w.server.clock.look(), 0)
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.server.upgrades.fell(ended, f, 100); !errors.Is(err, session.ErrOutcomeUnknown) ||
			w.server.Stats().Local != 1 {
			t.Errorf("%v, %d local sessions left; want %v and 1", err, w.server.Stats().Local,
				session.ErrOutcomeUnknown)
		}
	})
}

// A flight that landed and left the session is not waited for again and again. Not in a bubble: time stands in one that
// spins.
func TestL8AResumeDoesNotSpin(t *testing.T) {
	server := NewServer(Config{
		Node: 1, Interval: time.Hour, Limits: session.Limits{Min: time.Second, Max: timeout}, Local: true,
		Upgrade: true, Logger: hclog.NewNullLogger(),
	}, newFakeView())
	server.ids.supply(firstLocal, 1)
	c, err := server.Connect(&events{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Open(t.Context(), session.OpenRequest{Local: true, Timeout: timeout, RequestID: session.RequestID{1}})
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := server.local.lift(g.Token, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.land(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	resume := func() error {
		_, err := c.Resume(ctx, session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1})
		return err
	}
	if err := resume(); !errors.Is(err, session.ErrOutcomeUnknown) || ctx.Err() != nil {
		t.Errorf("resume: %v, want %v at once, not by the context: %v", err, session.ErrOutcomeUnknown, ctx.Err())
	}
	cancel()
	for range 20 {
		if err := resume(); !errors.Is(err, context.Canceled) || errors.Is(err, session.ErrOutcomeUnknown) {
			t.Fatalf("resume of a call that has ended: %v, want %v: nothing was asked", err, context.Canceled)
		}
	}
}

// A grant that comes after the hand-over, or after an end, gives the connection nothing to touch.
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
