package client

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/internal/core"
	"holdfast/session"
	"holdfast/test/bubble"
)

// Callers that open sessions at the same time share messages, in both directions, once the node has reported that it
// accepts batches. Each gets its own session.
func TestOpensAtTheSameTimeShareMessages(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const callers = 200
		c, cl := newModalTrial(t, 1, nil)
		mustOpen(t, cl, 10*time.Second)
		var mu sync.Mutex
		seen := map[session.ID]bool{}
		block := make(chan struct{})
		blocked := make(chan struct{})
		go cl.loop.call(func(*core.Core) { close(blocked); <-block })
		<-blocked
		for range callers {
			go func() {
				s, err := cl.Open(t.Context(), SessionOptions{Timeout: 10 * time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[s.ID()] = true
			}()
		}
		synctest.Wait() // all wait for the loop
		close(block)
		synctest.Wait()
		if len(seen) != callers {
			t.Fatalf("%d callers have %d different sessions", callers, len(seen))
		}
		n := c.node(1)
		requests := 0
		for _, size := range n.batches {
			requests += size
		}
		if most := callers/fakeBatch + 2; requests < callers-1 || len(n.batches) > most {
			t.Errorf("%d requests in %d batches, want %d in at most %d", requests, len(n.batches), callers, most)
		}
	})
}

// A client that ends answers every caller, also those whose inputs wait for a blocked loop. Opens end with ErrClosed.
func TestTheEndOfAClientAnswersPendingCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newModalTrial(t, 1, nil)
		s := mustOpen(t, cl, 10*time.Second)
		block, blocked := make(chan struct{}), make(chan struct{})
		go cl.loop.call(func(*core.Core) { close(blocked); <-block })
		<-blocked
		const callers = 2*maxTurn + 10
		opens, closes := make(chan error, callers), make(chan error, 1)
		for range callers {
			go func() {
				_, err := cl.Open(t.Context(), SessionOptions{Timeout: 10 * time.Second})
				opens <- err
			}()
		}
		go func() { closes <- s.Close(t.Context()) }()
		synctest.Wait()
		ended := make(chan struct{})
		go func() { _ = cl.Close(); close(ended) }()
		synctest.Wait()
		close(block)
		<-ended
		synctest.Wait()
		if len(opens) != callers || len(closes) != 1 {
			t.Fatalf("%d of %d opens and %d of 1 closes were answered", len(opens), callers, len(closes))
		}
		for range callers {
			if err := <-opens; !errors.Is(err, session.ErrClosed) {
				t.Errorf("an open ended with %v, want %v", err, session.ErrClosed)
			}
		}
	})
}
