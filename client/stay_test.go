package client

import (
	"context"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// A client resumes another session during a move, and the next node has it wait. When the former node recovers and the
// move ends there, the session is resumed there.
func TestAResumeDuringAMoveIsServedWhereTheMoveEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s, token := mustOpen(t, cl, time.Minute),
			mustOpen(t, newTestClient(t, c, c.endpoints(1, 2)), time.Minute).Token()
		former, other := c.owner(s), c.other(s)
		other.refuseResumes(100, func(int) error { return full(time.Second) })
		former.jeopardy()
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		joined := make(chan *Session, 1)
		go func() {
			b, err := cl.Resume(ctx, token)
			if err != nil {
				t.Errorf("the resume failed: %v", err)
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
			t.Errorf("resumed at node %d after %v, want node %d within 20 s", b.Owner(), time.Since(begun),
				former.number)
		}
		if s.Owner() != former.number || s.State() != StateConnected {
			t.Errorf("the session that moved is %v at node %d", s.State(), s.Owner())
		}
	})
}

// A node recovers while another is tried. The client does not leave it when the other fails: otherwise its local
// sessions would end for nothing.
func TestARecoveredNodeIsKeptWhenTheNextNodeFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s, local := mustOpen(t, cl, 20*time.Second), mustOpenLocal(t, cl, 20*time.Second)
		here := c.owner(s)
		for _, n := range c.others(here) {
			n.refuseAll(errMute)
		}
		here.jeopardy()
		time.Sleep(time.Second)
		here.jeopardyEnded()
		time.Sleep(time.Second)
		for _, n := range c.others(here) {
			n.heal()
		}
		time.Sleep(30 * time.Second)
		if s.Owner() != here.number || local.Err() != nil {
			t.Errorf("served by node %d, want %d; the local session: %v", s.Owner(), here.number, local.Err())
		}
	})
}
