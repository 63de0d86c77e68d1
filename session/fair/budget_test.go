package fair_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/session/fair"
	"holdfast/test/bubble"
)

// The first owner gets three quarters of a room, the next one three quarters of the rest, and so on: nobody takes all.
// Returned bytes are available again.
func TestNobodyTakesARoom(t *testing.T) {
	const limit = 4096
	r := fair.NewBudget[int](limit)
	free := limit
	for owner := range 5 {
		s := r.Share(owner)
		got := 0
		for s.Acquire(1) {
			got++
		}
		if want := free * 3 / 4; got != want {
			t.Errorf("owner %d took %d of %d bytes, want %d", owner, got, free, want)
		}
		free -= got
	}
	first := r.Share(0)
	first.Add(-first.Used())
	if !r.Share(9).Acquire(limit / 2) {
		t.Error("what was given back is not free")
	}
}

// A waiter is woken when it can take its bytes, whether its own owner or another one gives bytes back.
func TestWaitersAreWoken(t *testing.T) {
	r := fair.NewBudget[string](1000)
	a, b := r.Share("a"), r.Share("b")
	a.Add(700)
	b.Add(250)
	if a.Await(1) || b.Await(1) {
		t.Fatal("there is no room: 50 bytes are free")
	}
	if b.Add(-10) {
		t.Error("told too early: 60 bytes are free, and b has 240")
	}
	if !a.Add(-30) || !b.Await(1) || a.Await(1) {
		t.Error("90 bytes are free, b has 240, and nobody was told")
	}
	a.Add(-370)
	b.Add(360)
	if a.Await(301) {
		t.Fatal("100 bytes are free, and a has 300")
	}
	if a.Add(-60) {
		t.Error("told too early: 160 bytes are free, and a has 240")
	}
	// a has less than when it began to wait, so less of what b gives back is enough.
	if !b.Add(-25) || !a.Await(301) {
		t.Error("185 bytes are free, a has 240, and nobody was told")
	}
}

// turnstile wakes all who wait.
type turnstile struct {
	mu    sync.Mutex
	cond  *sync.Cond
	woken int // guarded by mu
}

func (w *turnstile) now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.woken
}

func (w *turnstile) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken++
	w.cond.Broadcast()
}

// waitSince returns once somebody was woken after now returned before.
func (w *turnstile) waitSince(before int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.woken == before {
		w.cond.Wait()
	}
}

// Shares are counted right, and a waiter is never left behind, whoever uses them at the same time: the bubble ends with
// a deadlock if one is.
func TestSharesTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := fair.NewBudget[int](1000)
		w := &turnstile{}
		w.cond = sync.NewCond(&w.mu)
		var waited atomic.Int64
		var wg sync.WaitGroup
		for owner := range 4 {
			for user := range 4 {
				wg.Go(func() {
					s := r.Share(owner)
					defer s.Close()
					for round := range 2000 {
						// What is left when its turn comes differs, so that who waits is woken by what others give
						// back, too.
						want, bytes := 1+(round*(user+1))%700, 50+round%300
						for before := w.now(); !s.Await(want); before = w.now() {
							waited.Add(1)
							w.waitSince(before)
						}
						s.Add(bytes)
						runtime.Gosched()
						if s.Add(-bytes) {
							w.wake()
						}
					}
				})
			}
		}
		wg.Wait()
		if r.Used() != 0 {
			t.Errorf("%d bytes are left", r.Used())
		}
		if waited.Load() == 0 {
			t.Error("nobody has waited: the test proves nothing")
		}
	})
}
