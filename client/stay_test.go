package client

import (
	"context"
	"testing"
	"time"

	"holdfast/test/bubbles"
)

// A session that a client takes hold of during a move, and that the node that is tried puts off, is asked for at the former node when that
// recovers and the move ends there.
func TestWhatIsJoinedDuringAMoveIsJoinedWhereItEnds(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s, token := mustOpen(t, cl, time.Minute), mustOpen(t, newTestClient(t, c, c.endpoints(1, 2)), time.Minute).Token()
		former, other := c.node(int(s.Owner())), c.node(3-int(s.Owner()))
		other.refuses(100, func(int) error { return full(time.Second) })
		former.jeopardy()
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		joined := make(chan *Session, 1)
		go func() {
			b, err := cl.Resume(ctx, token)
			if err != nil {
				t.Errorf("it was never joined: %v", err)
			}
			joined <- b
		}()
		time.Sleep(100 * time.Millisecond)
		if got := len(other.when(t, "resume")); got < 2 {
			t.Fatalf("the node that is tried was asked %d times, want for both sessions", got)
		}
		begun := time.Now()
		former.jeopardyEnded()
		if b := <-joined; b != nil && (b.Owner() != former.number || time.Since(begun) > 20*time.Second) {
			t.Errorf("joined at node %d after %v, want %d", b.Owner(), time.Since(begun), former.number)
		}
		if s.Owner() != former.number || s.State() != StateConnected {
			t.Errorf("the session that was served is %v at node %d", s.State(), s.Owner())
		}
	})
}
