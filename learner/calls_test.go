package learner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A reply goes to the request with its number; other replies are dropped.
func TestCallsGetTheirOwnReplies(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCalls()
		ask := func() <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := c.do(t.Context(), session.Request{}, nil)
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first := ask()
		one := c.nextBatch()[0]
		second := ask()
		two := c.nextBatch()[0]
		c.replies([]session.Reply{{Seq: one.Seq + two.Seq + 1}})
		c.replies([]session.Reply{{Seq: two.Seq, Err: session.ErrClosing}, {Seq: two.Seq}}) // one reply too many
		if err := <-second; !errors.Is(err, session.ErrClosing) {
			t.Errorf("the second request: %v, want %v", err, session.ErrClosing)
		}
		unsent := ask()
		c.finish()
		if err := <-first; !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("a sent request whose stream ended: %v, want %v", err, session.ErrOutcomeUnknown)
		}
		if err := <-unsent; !errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("a request that was not sent: %v, want %v", err, session.ErrNoLeader)
		}
		if err := <-ask(); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("a request after the end: %v, want %v", err, session.ErrNoLeader)
		}
	})
}

// Each request gets its outcome once: in the order of the requests at the end of the stream, and without a lock.
func TestCallsTellOnce(t *testing.T) {
	c := newCalls()
	var told []uint64
	errs := make(map[uint64]error)
	submit := func() {
		var seq uint64
		c.submit(session.Request{}, func(_ session.Reply, err error) {
			c.mu.Lock() // which nobody may hold here
			defer c.mu.Unlock()
			told = append(told, seq)
			errs[seq] = err
		})
		seq = c.seq
	}
	for range 20 {
		submit()
	}
	sent := c.nextBatch()
	for range 5 {
		submit()
	}
	if len(sent) != 20 || sent[0].Seq != 1 || sent[19].Seq != 20 {
		t.Fatalf("%d requests to send, want 20 in their order: %v", len(sent), sent)
	}
	c.replies([]session.Reply{{Seq: 7}})
	c.finish()
	c.replies([]session.Reply{{Seq: 8}})
	want := []uint64{7}
	for seq := range uint64(25) {
		if seq+1 != 7 {
			want = append(want, seq+1)
		}
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	for seq, err := range errs {
		if unknown := errors.Is(err, session.ErrOutcomeUnknown); unknown != (seq <= 20 && seq != 7) {
			t.Errorf("request %d: %v", seq, err)
		}
	}
	refused := 0
	c.submit(session.Request{}, func(_ session.Reply, err error) {
		if refused++; !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("a request after the end: %v, want %v", err, session.ErrNoLeader)
		}
	})
	if refused != 1 {
		t.Errorf("told %d times, want once", refused)
	}
}

// The requests that wait for a reply are bounded. A request whose caller has gone frees its slot.
func TestCallsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCalls()
		for range maxPending {
			if _, err := c.begin(session.Request{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		drain := func() {
			for len(c.nextBatch()) > 0 {
			}
		}
		drain()
		if _, err := c.do(t.Context(), session.Request{}, nil); !errors.Is(err, session.ErrLimit) {
			t.Errorf("one request too many: %v, want %v", err, session.ErrLimit)
		}
		c.forget(1, nil)
		leave := func(sent bool) error {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := c.do(ctx, session.Request{}, nil)
				done <- err
			}()
			synctest.Wait()
			if sent {
				c.nextBatch()
			}
			cancel()
			return <-done
		}
		if err := leave(true); !errors.Is(err, session.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("a request whose caller has gone: %v, want %v", err, session.ErrOutcomeUnknown)
		}
		if err := leave(false); errors.Is(err, session.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("a request that was not sent, whose caller has gone: %v, want %v", err, context.Canceled)
		}
		if n, waiting := len(c.pending), c.nextBatch(); n != maxPending-1 || len(waiting) != 0 {
			t.Errorf("%d requests wait, want %d, and %d to be sent, want none", n, maxPending-1, len(waiting))
		}
	})
}
