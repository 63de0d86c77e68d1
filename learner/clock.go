package learner

import (
	"time"

	"github.com/hashicorp/go-hclog"
)

// clock measures this node's moments, which are durations since base, and detects times in which the process or the
// machine did not run. Safe for concurrent use.
type clock struct {
	base   time.Time
	stalls *stallDetector
	// runs is Config.Runs; it may be nil.
	runs func()
	log  hclog.Logger
}

// newClock returns a clock that begins at base. The clock calls suspended when it detects a suspension of the machine.
func newClock(cfg *Config, base time.Time, suspended func()) *clock {
	return &clock{
		base: base, runs: cfg.Runs, log: cfg.Logger,
		stalls: newStallDetector(cfg.Interval, instant{wall: base.Round(0)}, suspended),
	}
}

// now returns the present moment. It takes no lock.
func (c *clock) now() time.Duration { return time.Since(c.base) }

// checkedNow detects stalls, and returns the present moment. The server calls checkedNow before every promise and while
// it answers a heartbeat, because the node may have missed touches while it was paused (E1 full timeout after a change
// of leader, S5 suspended machines).
func (c *clock) checkedNow() time.Duration {
	if c.runs != nil {
		c.runs()
	}
	now := time.Now()
	moment := now.Sub(c.base)
	if c.stalls.observe(instant{mono: moment, wall: now.Round(0)}) {
		c.log.Warn("the machine was suspended: earlier touches no longer count as confirmed")
	}
	return moment
}
