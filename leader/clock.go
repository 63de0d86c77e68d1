package leader

import "time"

// clock is the accountable clock (A1 accountable clock). It runs with the monotonic clock for at most limit from its
// start, and for at most limit from each moment at which a newer round is found good. Then it stops, and later
// continues from its last reading. So time in which the leader had no quorum or did not run ages no session (I8 a sick
// server kills nobody). The parameter mono is the monotonic time since the term began. Not safe for concurrent use.
type clock struct {
	// limit is two intervals. It changes only at a moment at which a round is found good.
	limit time.Duration
	// At anchor the clock read base.
	base, anchor time.Duration
}

// read returns the clock's reading at mono.
func (c *clock) read(mono time.Duration) time.Duration { return c.base + min(mono-c.anchor, c.limit) }

// good records that a newer round was found good at mono, and returns the time for which the clock had stopped.
func (c *clock) good(mono time.Duration) time.Duration {
	stopped := max(mono-c.anchor-c.limit, 0)
	c.base, c.anchor = c.read(mono), mono
	return stopped
}

// credit returns the total time for which the clock has stopped since the term began.
func (c *clock) credit(mono time.Duration) time.Duration { return mono - c.read(mono) }

// until returns the time from mono until the clock reads t; false if the clock stops before t unless a round becomes
// good.
func (c *clock) until(t, mono time.Duration) (time.Duration, bool) {
	if now := c.read(mono); t <= now {
		return 0, true
	}
	at := c.anchor + t - c.base
	return at - mono, at-c.anchor <= c.limit
}
