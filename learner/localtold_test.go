package learner

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// LocalChanged hears of each change of a local session, and once more of a repeated open.
func TestLocalChangesAreTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var (
			mu   sync.Mutex
			told []string // guarded by mu
		)
		cfg := localConfig()
		cfg.LocalChanged = func(c session.Change) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%d %v %d %v %v", c.Kind, c.Session.ID-firstLocal, c.Session.Attachment,
				c.Session.Local, c.Certificate.Cause))
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
