package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// sessionsFull returns the refusal of every node of a full cluster (O4 state limits).
func sessionsFull() error {
	return &session.LimitError{
		Name: "max_sessions", Limit: "100 sessions, 100 open",
		RetryAfter: session.FullRetryAfter,
	}
}

// A full cluster is full through each node. An open waits at one node, asks again whenever the retry time has passed,
// and succeeds once there is room.
func TestO4AnOpenWaitsForRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		const full = time.Minute
		for i := range 3 {
			n := c.node(i + 1)
			n.answer(func(kind string) error {
				if kind == "open" && time.Since(c.start) < full {
					return sessionsFull()
				}
				return nil
			})
		}
		mustOpen(t, cl, 10*time.Second)
		if took := time.Since(c.start); took < full || took > full+2*session.FullRetryAfter+2*time.Second {
			t.Errorf("opened after %v, want soon after %v", took, full)
		}
		asked, nodes := 0, 0
		for i := range 3 {
			at := c.node(i+1).when(t, "open")
			for k := 1; k < len(at); k++ {
				if apart := at[k] - at[k-1]; apart < session.FullRetryAfter {
					t.Errorf("node %d was asked again after %v, want at least %v", i+1, apart, session.FullRetryAfter)
				}
			}
			if asked += len(at); len(at) > 0 {
				nodes++
			}
		}
		if most := int(full/session.FullRetryAfter) + 2; asked > most || nodes != 1 {
			t.Errorf("%d nodes were asked %d times, want one, and %d times at most", nodes, asked, most)
		}
		if c.opened != 1 {
			t.Errorf("%d sessions were opened", c.opened)
		}
	})
}

// The caller's context bounds the wait for room. The error names the limit.
func TestO4AnOpenGivesUpWithItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		for i := range 2 {
			n := c.node(i + 1)
			n.refuseAll(sessionsFull())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second})
		limit, ok := errors.AsType[*session.LimitError](err)
		if !ok || limit.Name != "max_sessions" || !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("Open: got %v, want the deadline and the limit that the nodes named", err)
		}
		if took := time.Since(c.start); took != 10*time.Second {
			t.Errorf("it took %v, want 10s", took)
		}
	})
}
