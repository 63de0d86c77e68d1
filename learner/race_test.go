package learner

import (
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// TestL8NoTouchFallsBetween has touches come while a session is handed over, by token and through its connection: each
// finds it in one place or the other.
func TestL8NoTouchFallsBetween(t *testing.T) {
	for round := range uint64(200) {
		view := newFakeView()
		server := NewServer(Config{
			Node: 1, Interval: time.Hour, Limits: session.Limits{Min: time.Second, Max: timeout}, Local: true,
			Upgrade: true, Logger: hclog.NewNullLogger(),
		}, view)
		server.ids.supply(firstLocal, 1)
		made, err := server.Connect(&events{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := made.Open(t.Context(),
			session.OpenRequest{Local: true, Timeout: timeout, RequestID: session.RequestID{1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = server.local.lift(g.Token, 0, 0); err != nil {
			t.Fatal(err)
		}
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
			t.Fatalf("round %d: %d global sessions, local still: %v", round, server.table.Len(), server.local.has(s.ID))
		}
	}
}
