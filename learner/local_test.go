package learner

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestL1AskedOfNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		g := w.openLocal(w.conn, 1)
		want := session.Session{
			ID: firstLocal, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 1,
			OpenedAt: session.TimeOfMS(7), Local: true,
		}
		if fmt.Sprint(g.Session) != fmt.Sprint(want) || g.SafeFor != promised(0) || !g.Token.Local ||
			g.Token.Attachment != 1 {
			t.Errorf("granted %+v, want %+v", g, want)
		}
		w.leader.end() // no node leads from now on
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
		if l, err := w.server.Find(t.Context(), firstLocal+1, session.ReadOptions{}); err != nil || l.Remaining <= 0 ||
			!l.Session.Local {
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
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.conn.Open(t.Context(), session.OpenRequest{Local: true, Spec: session.Spec{Timeout: timeout}})
		if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "local" {
			t.Errorf("open: %v, want a FieldError of local", err)
		}
	})
}

// O2, L1: a node answers the repeat of a local open with the session of the first one.
func TestL1RepeatedOpen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
			t.Errorf("told the repeating connection %v and the first one %v, want the end told to the repeating one "+
				"only", e.gone,
				w.events.gone)
		}
		_, err := w.conn.Open(t.Context(),
			session.OpenRequest{Local: true, Spec: session.Spec{Timeout: timeout}, RequestID: session.RequestID{1}})
		if gone, ok := errors.AsType[*session.ExpiredError](err); !ok || gone.Certificate == nil ||
			gone.Certificate.Cause != session.CauseClosed {
			t.Errorf("a repeat after the end: %v, want the certificate", err)
		}
	})
}

// L1: a repeated open that comes after a resume does not move the session away from the connection that resumed it.
func TestL1ARepeatedOpenAfterAResume(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		first := w.openLocal(w.conn, 1)
		e, late := &events{}, &events{}
		second, err := w.connect(e).Resume(t.Context(),
			session.ResumeRequest{Token: first.Token, Instance: 9, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		repeat := session.OpenRequest{
			Local: true, Spec: session.Spec{Timeout: timeout},
			RequestID: session.RequestID{1},
		}
		if _, err := w.connect(late).Open(t.Context(), repeat); !errors.Is(err, session.ErrMoved) {
			t.Errorf("a repeat after a resume: %v, want %v", err, session.ErrMoved)
		}
		if err := w.conn.Close(t.Context(), second.Token); err != nil || e.ends() != 1 || late.ends() != 0 {
			t.Errorf("closed: %v; told the resuming connection %v and the late one %v, want the end told to the "+
				"resuming one only",
				err, e.gone, late.gone)
		}
	})
}

func TestL2OpensWaitForIDs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := localWorld(t)
		begun := time.Now()
		open := session.OpenRequest{Local: true, Spec: session.Spec{Timeout: timeout}, RequestID: session.RequestID{1}}
		if _, err := w.conn.Open(t.Context(), open); !errors.Is(err, session.ErrNoLeader) ||
			time.Since(begun) != time.Second {
			t.Errorf("open without ids: %v after %v, want %v after a second", err, time.Since(begun),
				session.ErrNoLeader)
		}
		w.follow()
		go func() {
			time.Sleep(300 * time.Millisecond)
			w.claims(firstLocal)
		}()
		begun = time.Now()
		if g, err := w.conn.Open(t.Context(), open); err != nil || g.Session.ID != firstLocal ||
			time.Since(begun) != 300*time.Millisecond {
			t.Errorf("open while ids are claimed: %+v, %v after %v", g, err, time.Since(begun))
		}
	})
}

// L2: the node claims more ids while half of a block is left, so that an open does not wait.
func TestL2ClaimsAheadOfNeed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		open := func(n int) session.ID {
			id := session.RequestID{1, byte(n), byte(n >> 8), byte(n >> 16)}
			g, err := w.conn.Open(t.Context(), session.OpenRequest{
				Local: true, Spec: session.Spec{Timeout: timeout},
				RequestID: id,
			})
			if err != nil {
				t.Fatalf("open %d: %v", n, err)
			}
			return g.Session.ID
		}
		n := 0
		for ; n < session.MaxClaim/2; n++ {
			open(n)
		}
		synctest.Wait()
		if len(w.leader.toLeader) != 0 {
			t.Errorf("claims more ids with %d left", w.server.local.IDs())
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
			t.Errorf("%d local sessions and %d ids in stock, want %d and %d", got.Local, got.LocalIDs, n+1,
				session.MaxClaim-1)
		}
	})
}

func TestL2SaysWhyThereAreNoIDs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := localWorld(t)
		l := w.follow()
		l.reply(session.Reply{Seq: l.request().Seq, Err: session.ErrIDsUsedUp})
		synctest.Wait()
		if _, err := w.conn.Open(t.Context(), session.OpenRequest{
			Local: true,
			Spec:  session.Spec{Timeout: timeout},
		}); !errors.Is(err,
			session.ErrIDsUsedUp) {
			t.Errorf("open: %v, want %v", err, session.ErrIDsUsedUp)
		}
	})
}

// O2: the repeat of an open makes no second session, whether the first is global now, has moved, or has ended.
func TestL1RepeatedOpenAfterAnUpgrade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		_, now := w.upgraded(1, 40)
		repeat := func() granted {
			done := later(func() (session.Grant, error) {
				return w.connect(&events{}).Open(t.Context(),
					session.OpenRequest{
						Local: true, Spec: session.Spec{Timeout: timeout},
						RequestID: session.RequestID{1},
					})
			})
			synctest.Wait()
			select {
			case got := <-done:
				return got
			default:
			}
			r := w.leader.request()
			if r.Read == nil {
				t.Errorf("asked for %+v, want a read", r)
			}
			w.leader.reply(session.Reply{Seq: r.Seq, Index: w.view.AppliedIndex(), Remaining: []time.Duration{}})
			return <-done
		}
		time.Sleep(time.Second)
		if got := repeat(); got.err != nil || got.Token != now.Token || got.SafeFor >= 0 {
			t.Errorf("a repeat: %+v, %v; want the global session without a promise", got.Grant, got.err)
		}
		if touches := w.leader.beat(session.Heartbeat{}).touches; touches[now.Session.ID] < time.Second {
			t.Errorf("reported %v: the repeat is a touch", touches)
		}
		w.move(now.Session.ID, 50)
		if got := repeat(); got.err != nil || got.Token.Attachment != 50 || got.Session.Owner != 2 {
			t.Errorf("a repeat after a move: %+v, %v; want the session where it is now", got.Grant, got.err)
		}
		w.view.drop(session.Certificate{ID: now.Session.ID, Cause: session.CauseClosed, Owner: 2})
		got := repeat()
		if gone, ok := errors.AsType[*session.ExpiredError](got.err); !ok || gone.Certificate == nil ||
			gone.Certificate.Cause != session.CauseClosed {
			t.Errorf("a repeat after the end: %v, want the certificate", got.err)
		}
		if n := w.server.Stats(); n.Local != 0 {
			t.Errorf("%d local sessions, want none", n.Local)
		}
	})
}

// LocalChanged is called for each change of a local session, and once more for a repeated open.
func TestLocalChangesAreReported(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var (
			mu   sync.Mutex
			told []string // guarded by mu
		)
		cfg := localConfig()
		cfg.LocalChanged = func(c session.Change) {
			mu.Lock()
			defer mu.Unlock()
			var cause session.Cause
			if c.Certificate != nil {
				cause = c.Certificate.Cause
			}
			told = append(told, fmt.Sprintf("%d %v %d %v %v", c.Kind, c.Session.ID-firstLocal, c.Session.Attachment,
				c.Session.Local, cause))
		}
		w := newWorldOf(t, cfg)
		w.follow()
		w.claims(firstLocal)
		g := w.openLocal(w.conn, 1)
		w.openLocal(w.conn, 1)
		second := w.openLocal(w.conn, 2)
		if _, err := w.conn.Resume(t.Context(),
			session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		if err := w.conn.Close(t.Context(), second.Token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(timeout + time.Second)
		mu.Lock()
		defer mu.Unlock()
		want := []string{
			line(session.Opened, 0, 1, 0), line(session.Opened, 0, 1, 0), line(session.Opened, 1, 1, 0),
			line(session.Moved, 0, 2, 0),
			line(session.Ended, 1, 1, session.CauseClosed), line(session.Ended, 0, 2, session.CauseExpired),
		}
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told\n%q, want\n%q", told, want)
		}
	})
}

func line(k session.ChangeKind, id session.ID, attachment uint64, cause session.Cause) string {
	return fmt.Sprintf("%d %v %d true %v", k, id, attachment, cause)
}
