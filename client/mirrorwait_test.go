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

// A stamp from another process may not belong to this cluster: it is from before a restore, or of another cluster. Only
// the wait for it fails. The reads of the client continue, and later waits succeed.
func TestAMirrorWaitsForAStampThatNeverComes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		m := mustMirror(t, cl.Tree(), "/a")
		stamp := c.change(create("/a"))
		waiting, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := m.Wait(waiting, stamp+1<<32)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, session.ErrLagging) {
			t.Errorf("got %v, want that no node has come so far", err)
		}
		soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := cl.Tree().Get(soon, "/a"); err != nil {
			t.Errorf("a read after the wait: %v", err)
		}
		if _, err := s.Tree().Get(soon, "/a"); err != nil {
			t.Errorf("a read of a session after the wait: %v", err)
		}
		if err := m.Wait(soon, stamp); err != nil {
			t.Errorf("a wait for a change that there was: %v", err)
		}
		if got := cl.SeenStamp(); got > stamp+1<<16 {
			t.Errorf("the client says that it has seen %v, which no node has told", got)
		}
	})
}

// A wait ends with its mirror, also while no node answers.
func TestAWaitEndsWithItsMirror(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		m := mustMirror(t, cl.Tree(), "/a")
		stamp := c.change(create("/b"))
		c.node(1).refuse("read", errMute)
		waited := make(chan error)
		go func() { waited <- m.Wait(t.Context(), stamp+1) }()
		synctest.Wait()
		m.Close()
		select {
		case err := <-waited:
			if !errors.Is(err, session.ErrClosed) {
				t.Errorf("a wait at the end of its mirror: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a wait goes on after the end of its mirror")
		}
	})
}
