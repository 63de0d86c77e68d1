package learner

import (
	"context"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A page of a list looks at 100,000 sessions, whatever its filter lets through, and a page of deaths at 20,000
// certificates. It then ends early, with what the next page begins after.
func TestAPageLooksAtSoMany(t *testing.T) {
	rare := session.Labels{{Key: "rare"}}
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		const sessions, deaths = 100_001, 20_001
		w.view.mu.Lock()
		for id := range session.ID(sessions) {
			w.view.sessions[id+1] = session.Session{
				ID: id + 1, Spec: session.Spec{Timeout: timeout}, Owner: 2,
				Attachment: 1,
			}
		}
		for n := range uint64(deaths) {
			id := session.ID(1<<40 + n)
			w.view.certificates[id] = session.Certificate{ID: id, Index: n + 1}
		}
		last := w.view.sessions[sessions]
		last.Labels = rare
		w.view.sessions[sessions] = last
		oldest := w.view.certificates[1<<40]
		oldest.Story.Labels = rare
		w.view.certificates[1<<40] = oldest
		w.view.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				select {
				case m := <-w.leader.toLeader:
					r := m.Requests[0]
					w.leader.reply(session.Reply{Seq: r.Seq, Remaining: make([]time.Duration, len(r.Read.Remaining))})
				case <-ctx.Done():
					return
				}
			}
		}()
		defer func() { cancel(); <-served }()
		list := func(after session.ID) session.Page {
			t.Helper()
			page, err := w.server.List(t.Context(), session.Query{
				After: after, Size: 10, Filter: session.Filter{Labels: rare, Scope: session.ScopeGlobal},
			})
			if err != nil {
				t.Fatal(err)
			}
			return page
		}
		first := list(0)
		if second := list(first.Next); len(first.Sessions) != 0 || first.Next != sessions-1 || len(second.Sessions) != 1 ||
			second.Next != 0 {
			t.Errorf("the pages have %d and %d sessions, and go on after %d and %d; want 0 and 1, after %d and 0",
				len(first.Sessions), len(second.Sessions), first.Next, second.Next, sessions-1)
		}
		ended := func(before uint64) session.DeathPage {
			t.Helper()
			page, err := w.server.Deaths(t.Context(), session.DeathQuery{
				Before: before, Size: 10, Filter: session.DeathFilter{Labels: rare},
			})
			if err != nil {
				t.Fatal(err)
			}
			return page
		}
		newest := ended(0)
		if older := ended(newest.Next); len(newest.Certificates) != 0 || newest.Next != 2 || len(older.Certificates) != 1 ||
			older.Next != 0 {
			t.Errorf("the pages have %d and %d deaths, and go on before %d and %d; want 0 and 1, before 2 and 0",
				len(newest.Certificates), len(older.Certificates), newest.Next, older.Next)
		}
	})
}
