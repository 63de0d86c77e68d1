package ids

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/session"
)

// Errors of Next. Test for them with errors.Is.
var (
	// ErrClockSetBack says that the clock is behind the newest id. See [ClockSetBackError].
	ErrClockSetBack = errors.New("clock was set back")
	// ErrClockStopped says that the millisecond's ids are used up, and the clock has not advanced within [MaxWait].
	ErrClockStopped = errors.New("clock has stopped")
	// ErrClockRange says that the clock is before the epoch, or past the 41 bits of milliseconds, 69.7 years after it.
	ErrClockRange = errors.New("clock is not within 69.7 years after the epoch of the ids")
)

// ClockSetBackError is [ErrClockSetBack] with how far the clock is behind the newest id. The Snowflake makes no id
// before the clock has caught up.
type ClockSetBackError struct{ Behind time.Duration }

func (e *ClockSetBackError) Error() string {
	return fmt.Sprintf("clock was set back: it is %v behind the newest id", e.Behind)
}

// Is makes e an [ErrClockSetBack].
func (e *ClockSetBackError) Is(target error) bool { return target == ErrClockSetBack }

// Snowflake makes snowflakes: at most 4,096 a millisecond, fewer with [RollbackBits]. Whatever the policy, all of its
// ids are later than the millisecond of its creation. So successive processes with one machine number repeat no id, as
// long as the clock of each starts at or after the newest id of the processes before. Safe for concurrent use.
type Snowflake struct {
	layout Layout
	policy Policy
	epoch  int64 // Unix milliseconds
	perMS  uint64
	now    func() time.Time

	mu sync.Mutex
	// sequencers differ in worker, or in rollback number: there is one for the machine's worker, and one for each spare
	// or each further rollback number. Guarded by mu.
	sequencers []sequencer
	// current is the index of the sequencer in use. Guarded by mu.
	current int
}

// sequencer makes rising ids.
type sequencer struct {
	// bits are the bits of the ids between the milliseconds and the sequence.
	bits uint64
	// ms is the newest millisecond in which the sequencer, or one of an earlier process, may have made ids. used is the
	// number of used ids of ms.
	ms   int64
	used uint64
}

// NewSnowflake returns a Snowflake, and starts nothing. The error is a [session.FieldError] of epoch, datacenter,
// worker, policy, spares, rollback_bits or not_before, or [ErrClockRange] when the clock is not within the 69.7 years
// after the epoch.
func NewSnowflake(c SnowflakeConfig) (*Snowflake, error) {
	layout, err := SnowflakeLayout(c.Epoch, c.RollbackBits)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, err
	}
	g := &Snowflake{
		layout: layout, policy: c.Policy, epoch: layout.epoch.UnixMilli(), now: c.Now,
		perMS: 1 << (snowflakeSequenceBits - c.RollbackBits), sequencers: c.sequencers(),
	}
	if g.now == nil {
		g.now = time.Now
	}
	ms := g.now().UnixMilli() - g.epoch
	if ms < 0 || ms > MaxSnowflakeMS {
		return nil, ErrClockRange
	}
	floor := ms
	if !c.NotBefore.IsZero() {
		before := c.NotBefore.UnixMilli() - g.epoch
		if before < 0 || before >= MaxSnowflakeMS {
			return nil, &session.FieldError{Field: "not_before", Limit: "within 69.7 years after the epoch"}
		}
		floor = max(ms, before)
	}
	for i := range g.sequencers { // all, because an earlier process may have used any of them
		g.sequencers[i].ms, g.sequencers[i].used = floor, g.perMS
	}
	return g, nil
}

// Layout returns the layout of the ids.
func (g *Snowflake) Layout() Layout { return g.layout }

// Next returns an id. When the millisecond's ids are used up it waits for the next millisecond, more than once if other
// callers are faster. A wait ends with the cause of ctx's end, or with [ErrClockStopped] when the clock does not
// advance within [MaxWait]. Next fails with a [ClockSetBackError] when the clock was set back and the policy makes no
// ids then, and with [ErrClockRange] when the clock is out of range. A failed call uses up no id.
func (g *Snowflake) Next(ctx context.Context) (uint64, error) {
	newest, waited := int64(-1), time.Duration(0)
	for {
		r := g.try()
		if r.err != nil || r.wait == 0 {
			return r.id, r.err
		}
		if r.ms > newest {
			newest, waited = r.ms, 0
		}
		// Waits without progress are bounded: the clock may have stopped, or been set back during the wait.
		if waited += r.wait; waited > MaxWait {
			return 0, ErrClockStopped
		}
		if err := session.Sleep(ctx, r.wait); err != nil {
			return 0, err
		}
	}
}

// result is the outcome of one reading of the clock, which showed ms: an id, an error, or a wait before the next
// reading.
type result struct {
	id   uint64
	err  error
	ms   int64
	wait time.Duration
}

// try reads the clock once. It holds mu from the reading on: if another caller could get an id in between, this caller
// would believe that the clock was set back.
func (g *Snowflake) try() result {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	ms := now.UnixMilli() - g.epoch
	if ms < 0 || ms > MaxSnowflakeMS {
		return result{err: ErrClockRange}
	}
	l := g.sequencer(ms)
	if ms < l.ms {
		behind := until(now, l.ms-ms)
		if g.policy != Wait || behind >= MaxWait {
			return result{err: &ClockSetBackError{behind}}
		}
		return result{ms: ms, wait: behind}
	}
	if ms > l.ms {
		l.ms, l.used = ms, 0
	}
	if l.used == g.perMS {
		return result{ms: ms, wait: until(now, 1)}
	}
	l.used++
	return result{id: uint64(ms)<<snowflakeMSShift | l.bits | (l.used - 1)}
}

// sequencer returns the sequencer to use at ms. If the newest millisecond of the current sequencer is after ms, it
// switches to the next sequencer whose newest millisecond is before ms, if there is such a sequencer. The caller holds
// mu.
func (g *Snowflake) sequencer(ms int64) *sequencer {
	if ms < g.sequencers[g.current].ms {
		for i := range g.sequencers {
			next := (g.current + i) % len(g.sequencers)
			if g.sequencers[next].ms < ms {
				g.current = next
				break
			}
		}
	}
	return &g.sequencers[g.current]
}

// until returns the time from now to the beginning of the millisecond that is ms milliseconds later. It is positive for
// a positive ms.
func until(now time.Time, ms int64) time.Duration {
	return time.Duration(ms)*time.Millisecond - time.Duration(now.Nanosecond())%time.Millisecond
}
