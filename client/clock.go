package client

import (
	"sync"
	"time"
)

// suspendedBeyond is how far wall time may run ahead of monotonic time before the clock notices a suspension of the
// machine (S5). Short suspensions add up until the clock notices them together.
const suspendedBeyond = time.Second

// clock tells the time and notices suspensions of the machine. Promises count on the monotonic clock, which stands
// while the machine is suspended. Safe for concurrent use.
type clock struct {
	// wall is a seam for tests: the wall clock's reading at a moment.
	wall func(now time.Time) time.Time

	mu sync.Mutex
	// base and baseWall are readings of both clocks at the same moment: the first look, the last suspension that was
	// noticed, or the last time that the wall clock was set back. Each look compares both clocks with these readings,
	// not with those of the look before, so that short suspensions add up. guarded by mu
	base, baseWall time.Time
	suspensions    uint64 // guarded by mu
}

func newClock() *clock {
	c := &clock{wall: func(now time.Time) time.Time { return now.Round(0) }}
	c.look()
	return c
}

// look returns the time and the number of suspensions that were noticed. A promise from before the newest suspension is
// void.
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
