package client

import (
	"sync"
	"time"
)

// suspendedBeyond is how far wall time may run ahead of monotonic time between two looks before the machine counts as
// having been suspended (S5).
const suspendedBeyond = time.Second

// clock tells the time and notices that the machine was suspended: promises are counted on the monotonic clock, which
// stands meanwhile. Safe for concurrent use.
type clock struct {
	// wall is a seam for tests: the wall clock's reading at a moment.
	wall func(now time.Time) time.Time

	mu          sync.Mutex
	last        time.Time // guarded by mu; monotonic
	lastWall    time.Time // guarded by mu
	suspensions uint64    // guarded by mu
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
	if !c.last.IsZero() && wall.Sub(c.lastWall)-now.Sub(c.last) > suspendedBeyond {
		c.suspensions++
	}
	c.last, c.lastWall = now, wall
	return now, c.suspensions
}
