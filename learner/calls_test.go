package learner

import (
	"context"
	"errors"
	"testing"

	"holdfast/session"
)

// A reply goes to the request with its number; other replies are dropped.
func TestCallsGetTheirOwnReplies(t *testing.T) {
	c := newCalls()
	ask := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := c.do(t.Context(), session.Request{})
			done <- err
		}()
		return done
	}
	first := ask()
	one := <-c.out
	second := ask()
	two := <-c.out
	c.reply(session.Reply{Seq: one.Seq + two.Seq + 1})
	c.reply(session.Reply{Seq: two.Seq, Err: session.ErrClosing})
	c.reply(session.Reply{Seq: two.Seq}) // a second reply
	if err := <-second; !errors.Is(err, session.ErrClosing) {
		t.Errorf("the second request: %v, want %v", err, session.ErrClosing)
	}
	c.finish()
	if err := <-first; !errors.Is(err, session.ErrOutcomeUnknown) {
		t.Errorf("a sent request whose stream ended: %v, want %v", err, session.ErrOutcomeUnknown)
	}
	if err := <-ask(); !errors.Is(err, session.ErrNoLeader) {
		t.Errorf("a request after the end: %v, want %v", err, session.ErrNoLeader)
	}
}

// The requests that wait for a reply are bounded. A request whose caller has gone makes room.
func TestCallsAreBounded(t *testing.T) {
	c := newCalls()
	for range maxPending {
		if _, _, err := c.begin(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.do(t.Context(), session.Request{}); !errors.Is(err, session.ErrLimit) {
		t.Errorf("one request too many: %v, want %v", err, session.ErrLimit)
	}
	c.forget(1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.do(ctx, session.Request{})
		done <- err
	}()
	<-c.out
	cancel()
	if err := <-done; !errors.Is(err, session.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("a request whose caller has gone: %v, want %v", err, session.ErrOutcomeUnknown)
	}
	if n := len(c.pending); n != maxPending-1 {
		t.Errorf("%d requests wait, want %d", n, maxPending-1)
	}
}
