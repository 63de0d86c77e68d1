package leader

import "time"

// clock is the accountable clock (A1). It runs with the monotonic clock for at most limit from its start, and from each
// moment at which a newer round is found good. Then it stands, and goes on from where it stood. So time in which the
// leader had no quorum or did not run ages no session (I8). mono is the monotonic time since the term began. Not safe
// for concurrent use.
type clock struct {
	// limit is two intervals. It changes only when a round has just been found good.
	limit time.Duration
	// At anchor the clock read base.
	base, anchor time.Duration
}

// read returns the clock's reading at mono.
func (c *clock) read(mono time.Duration) time.Duration { return c.base + min(mono-c.anchor, c.limit) }

// good notes that a newer round was found good at mono, and returns how long the clock had stood.
func (c *clock) good(mono time.Duration) time.Duration {
	stood := max(mono-c.anchor-c.limit, 0)
	c.base, c.anchor = c.read(mono), mono
	return stood
}

// credit returns for how long the clock has stood since the term began.
func (c *clock) credit(mono time.Duration) time.Duration { return mono - c.read(mono) }

// until returns how long after mono the clock reads t; false if the clock stands before that unless a round becomes
// good.
func (c *clock) until(t, mono time.Duration) (time.Duration, bool) {
	if now := c.read(mono); t <= now {
		return 0, true
	}
	at := c.anchor + t - c.base
	return at - mono, at-c.anchor <= c.limit
}
