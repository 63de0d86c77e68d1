package client

import (
	"sync"
	"time"
)

// suspendedBeyond is how far wall time may run ahead of monotonic time, all suspensions since the last one that was
// noticed taken together, before the machine counts as having been suspended (S5).
const suspendedBeyond = time.Second

// clock tells the time and notices that the machine was suspended: promises are counted on the monotonic clock, which
// stands meanwhile. Safe for concurrent use.
type clock struct {
	// wall is a seam for tests: the wall clock's reading at a moment.
	wall func(now time.Time) time.Time

	mu sync.Mutex
	// base and baseWall are what both clocks read when wall time was last put in relation to monotonic time: at the
	// first look, after a suspension that was noticed, and whenever the wall clock was set back. Wall time is compared
	// with this one relation, not from look to look, so that short suspensions add up. guarded by mu
	base, baseWall time.Time
	suspensions    uint64 // guarded by mu
}

func newClock() *clock {
	c := &clock{wall: func(now time.Time) time.Time { return now.Round(0) }}
	c.look()
	return c
}

// look returns the time and how many suspensions have been noticed: what was promised under a smaller number is void.
func (c *clock) look() (now time.Time, suspensions uint64) {
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
