package learner

import (
	"time"

	"github.com/hashicorp/go-hclog"
)

// clock tells this node's moments, which are durations since base, and notices when the process or the machine did not
// run. Safe for concurrent use.
type clock struct {
	base   time.Time
	stalls *stallDetector
	// runs is Config.Runs; it may be nil.
	runs func()
	log  hclog.Logger
}

// newClock returns a clock that begins at base. It calls suspended when the machine turns out to have been suspended.
func newClock(cfg *Config, base time.Time, suspended func()) *clock {
	return &clock{
		base: base, runs: cfg.Runs, log: cfg.Logger,
		stalls: newStallDetector(cfg.Interval, instant{wall: base.Round(0)}, suspended),
	}
}

// now returns the present moment. It takes no lock.
func (c *clock) now() time.Duration { return time.Since(c.base) }

// look returns the present moment after looking for stalls. The server looks before every promise and while it answers
// a heartbeat, because it must vouch for no time in which it did not run (E1, S5).
func (c *clock) look() time.Duration {
	if c.runs != nil {
		c.runs()
	}
	now := time.Now()
	moment := now.Sub(c.base)
	if c.stalls.look(instant{mono: moment, wall: now.Round(0)}) {
		c.log.Warn("the machine was suspended: promises were dropped")
	}
	return moment
}
