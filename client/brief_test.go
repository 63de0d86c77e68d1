package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// A node ends each connection on which it gets a request. A client that repeats the request does not keep the nodes
// busy, and its session lives.
func TestBriefConnectionsAreFollowedByPauses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 2*time.Second)
		var asks atomic.Int64
		for _, n := range c.all() {
			n.answer(func(kind string) error {
				if kind != "read" {
					return nil
				}
				if asks.Add(1) == 5000 {
					panic("the client comes back without a pause")
				}
				go n.cut()
				return errMute
			})
		}
		const lasts = 20 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		if _, err := cl.Tree().Get(ctx, "/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		// 2 s / 24 are 83 ms, of which half is waited on average
		asked := int(asks.Load())
		if most := int(2 * lasts / (2 * time.Second / 48)); asked < 100 || asked > most {
			t.Errorf("asked %d times in %v, want at most %d", asked, lasts, most)
		}
		t.Logf("asked %d times in %v", asked, lasts)
		for _, n := range c.all() {
			n.heal()
		}
		if _, err := cl.Tree().Get(t.Context(), "/"); err != nil {
			t.Error(err)
		}
		if err := s.Err(); err != nil {
			t.Errorf("the session: %v", err)
		}
	})
}
