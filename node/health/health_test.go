package health

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// The first check that fails is the answer, and no later check runs: the state of a node that stalls may be locked.
func TestTheFirstCheckThatFailsIsTheAnswer(t *testing.T) {
	stalled, noLeader := errors.New("stalled"), errors.New("no leader")
	later := 0
	h := New(Config{Checks: []func() error{
		func() error { return nil }, func() error { return stalled }, func() error { later++; return noLeader },
	}})
	if err := h.Check(); !errors.Is(err, stalled) || later > 0 {
		t.Errorf("%v, and %d later checks; want %v and none", err, later, stalled)
	}
	if err := New(Config{}).Check(); err != nil {
		t.Error(err)
	}
}

func TestWarningsAreJoined(t *testing.T) {
	says := func(text string) func() string { return func() string { return text } }
	h := New(Config{Warnings: []func() string{says(""), says("a"), says(""), says("b")}})
	if got := h.Warning(); got != "a; b" {
		t.Errorf("%q", got)
	}
}

// A node that does not serve is checked five times as often. Ready is closed once, at the first check that succeeds.
func TestRunChecksMoreOftenWhileTheNodeDoesNotServe(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		serves := false
		fails := errors.New("no leader")
		h := New(Config{
			Pulse: session.NewPulse(), Interval: time.Second,
			Checks: []func() error{func() error {
				mu.Lock()
				defer mu.Unlock()
				if serves {
					return nil
				}
				return fails
			}},
			Serving: func(bool) {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begun))
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = h.Run(ctx) })
		count := func(span time.Duration) int {
			mu.Lock()
			before := len(at)
			mu.Unlock()
			time.Sleep(span)
			mu.Lock()
			defer mu.Unlock()
			return len(at) - before
		}
		if n := count(10 * time.Second); n < 48 || n > 52 {
			t.Errorf("%d checks in 10 s without serving, want about 50", n)
		}
		select {
		case <-h.Ready():
			t.Error("ready without serving")
		default:
		}
		mu.Lock()
		serves = true
		mu.Unlock()
		h.CheckSoon()
		<-h.Ready()
		if n := count(10 * time.Second); n < 9 || n > 11 {
			t.Errorf("%d checks in 10 s while serving, want about 10", n)
		}
		cancel()
		running.Wait()
	})
}
