package client

import (
	"sync"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// wallClock is the wall clock of a client in a bubble. A bubble cannot suspend its machine, so the tests of S5 set the
// wall clock ahead of the monotonic one through the seam of clock: nothing else outside the package can.
type wallClock struct {
	mu    sync.Mutex
	ahead time.Duration // guarded by mu
}

// newWallClock replaces the wall clock of c, which nothing uses yet.
func newWallClock(c *clock) *wallClock {
	w := new(wallClock)
	c.wall = func(now time.Time) time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return now.Round(0).Add(w.ahead)
	}
	return w
}

// advance sets the wall clock ahead, as a suspension of d does; back if d is negative, as an administrator does.
func (w *wallClock) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
}

// S5: the clock compares wall time with one moment, so suspensions of less than a second add up, also after the wall
// clock was set back.
func TestS5ClockCountsShortSuspensions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newClock()
		w := newWallClock(c)
		for i, want := range []uint64{0, 1} {
			w.advance(900 * time.Millisecond)
			if _, got := c.now(); got != want {
				t.Errorf("after %d suspensions of 0.9 s: counted %d, want %d", i+1, got, want)
			}
		}
		w.advance(-time.Hour)
		c.now()
		for range 60 {
			w.advance(900 * time.Millisecond)
			c.now()
		}
		if _, got := c.now(); got != 1+60/2 {
			t.Errorf("after 60 more suspensions of 0.9 s: counted %d, want %d: each second one counts", got, 1+60/2)
		}
	})
}
