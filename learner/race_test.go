package learner

import (
	"sync"
	"testing"

	"holdfast/session"
)

// L8: touches by token and through the connection come while a session is handed over. Each touch finds the session as
// a local or as a global one.
func TestL8NoTouchFallsBetween(t *testing.T) {
	for round := range uint64(200) {
		w, g, _ := lifting(t)
		view, server, made := w.view, w.server, w.conn
		s := session.Session{ID: g.Session.ID, Timeout: timeout, Owner: 1, Attachment: round + 1}
		view.put(s)
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				<-begin
				for range 20 {
					if _, err := made.TouchToken(t.Context(), g.Token); err != nil {
						t.Errorf("touch by token: %v", err)
					}
					if got := made.Touch(nil); len(got.Failures) > 0 {
						t.Errorf("touch of all: %v", got.Failures)
					}
					if got := made.Touch([]session.ID{s.ID}); len(got.Failures) > 0 {
						t.Errorf("touch of one: %v", got.Failures)
					}
				}
			})
		}
		wg.Go(func() {
			<-begin
			server.Applied(1, 1, []session.Change{{Kind: session.Opened, Session: s}})
		})
		close(begin)
		wg.Wait()
		if server.local.has(s.ID) || server.table.Len() != 1 || t.Failed() {
			t.Fatalf("round %d: %d global sessions, still local: %v", round, server.table.Len(), server.local.has(s.ID))
		}
	}
}
