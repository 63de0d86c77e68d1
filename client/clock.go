package client

import (
	"sync"
	"time"
)

// suspendedBeyond is how far wall time may run ahead of monotonic time before the clock notices a suspension of the
// machine (S5 suspended machines). Short suspensions add up until the clock notices them together.
const suspendedBeyond = time.Second

// clock reads the time and detects suspensions of the machine. Promises count on the monotonic clock, which stands
// while the machine is suspended. Safe for concurrent use.
type clock struct {
	// wall is a seam for tests: the wall clock's reading at a moment.
	wall func(now time.Time) time.Time

	mu sync.Mutex
	// base and baseWall are readings of both clocks at one moment: the first reading, the last detected suspension, or
	// the last time that the wall clock was set back. Each reading is compared with this base rather than with the
	// previous reading, so that short suspensions add up. guarded by mu
	base, baseWall time.Time
	suspensions    uint64 // guarded by mu
}

func newClock() *clock {
	c := &clock{wall: func(now time.Time) time.Time { return now.Round(0) }}
	c.now()
	return c
}

// now returns the time and the number of detected suspensions. A promise from before the newest suspension is void.
func (c *clock) now() (now time.Time, suspensions uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = time.Now()
	wall := c.wall(now)
	ahead := wall.Sub(c.baseWall) - now.Sub(c.base)
	suspended := !c.base.IsZero() && ahead > suspendedBeyond
	if suspended {
		c.suspensions++
	}
	if suspended || c.base.IsZero() || ahead < 0 {
		c.base, c.baseWall = now, wall
	}
	return now, c.suspensions
}
