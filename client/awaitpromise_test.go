package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// TestAwaitPromise: AwaitPromise returns at once with a promise, with the next promise after a lapse, and with the
// reason when ctx or the session ends.
func TestAwaitPromise(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 3), Dial: c.dial})
		s := mustOpen(t, cl, 10*time.Second)
		synctest.Wait()
		if promised, err := s.AwaitPromise(t.Context()); err != nil || promised != s.Context() {
			t.Errorf("with a promise: %v, %v", promised, err)
		}
		c.everyNode((*fakeNode).down)
		<-s.Context().Done()
		patience, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.AwaitPromise(patience); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a promise: %v", err)
		}
		c.everyNode((*fakeNode).up)
		if promised, err := s.AwaitPromise(t.Context()); err != nil || promised.Err() != nil {
			t.Errorf("with the next promise: %v, %v", promised, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.AwaitPromise(t.Context()); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
