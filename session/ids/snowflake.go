package ids

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/session"
)

// MaxWait is the bound of what [Wait] waits for, and of how long any policy waits for a clock that stands.
const MaxWait = 15 * time.Millisecond

// Errors of Next. Test for them with errors.Is.
var (
	// ErrClockSetBack is what [ClockSetBackError] is.
	ErrClockSetBack = errors.New("clock was set back")
	// ErrClockStands says that the millisecond's ids are used up, and that the clock has not moved on within MaxWait.
	ErrClockStands = errors.New("clock stands still")
	// ErrClockRange says that the clock is before the epoch, or past the last of the 41 bits, 69.7 years after it.
	ErrClockRange = errors.New("clock is not within 69.7 years after the epoch of the ids")
)

// ClockSetBackError is ErrClockSetBack with how far the clock is behind the newest id: nothing is made before it has
// caught up.
type ClockSetBackError struct{ Behind time.Duration }

func (e *ClockSetBackError) Error() string {
	return fmt.Sprintf("clock was set back: it is %v behind the newest id", e.Behind)
}

// Is makes e an [ErrClockSetBack].
func (e *ClockSetBackError) Is(target error) bool { return target == ErrClockSetBack }

// Policy is the answer of a [Snowflake] to a clock that was set back. All of them keep the ids of one Snowflake unique;
// none remembers anything beyond the process: a process that starts while the clock is behind where an earlier one of
// the same machine number had it repeats ids, unless SnowflakeConfig.NotBefore says where that was. So none goes back
// to before the start.
type Policy uint8

const (
	// Refuse fails until the clock has caught up. Ids rise.
	Refuse Policy = iota
	// Wait waits until the clock has caught up when it is less than MaxWait behind, and fails otherwise. Ids rise. That
	// is enough for what NTP's small steps do.
	Wait
	// SwitchWorker goes on with a spare worker number that has made no id in this millisecond or a later one, and fails
	// when there is none. The spares must be this Snowflake's alone. Ids do not rise over a switch: their time goes
	// back with the clock.
	SwitchWorker
	// RollbackBits gives the high bits of the sequence to a number that goes one up, round and round, when the clock is
	// set back, passes over numbers that have made an id in this millisecond or a later one, and fails when there is no
	// other. With b bits the clock may go over one and the same millisecond 2^b times, and a millisecond has 2^(12-b)
	// ids. Ids do not rise over a rollback: their time goes back with the clock.
	RollbackBits
)

// Policies returns all policies.
func Policies() []Policy { return []Policy{Refuse, Wait, SwitchWorker, RollbackBits} }

// ParsePolicy returns the policy that String names. It fails with a [session.FieldError] of policy.
func ParsePolicy(name string) (Policy, error) {
	for _, p := range Policies() {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, &session.FieldError{Field: "policy", Limit: fmt.Sprintf("one of %v", Policies())}
}

func (p Policy) String() string {
	switch p {
	case Refuse:
		return "refuse"
	case Wait:
		return "wait"
	case SwitchWorker:
		return "switch-worker"
	case RollbackBits:
		return "rollback-bits"
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// SnowflakeConfig says how a [Snowflake] makes ids.
type SnowflakeConfig struct {
	// Epoch is what the ids count from: whole milliseconds; zero is TwitterEpoch.
	Epoch time.Time
	// Machine must be this Snowflake's alone while it lives: see [DeriveMachine] for what happens otherwise.
	Machine Machine
	// Policy is the answer to a clock that was set back. Zero refuses.
	Policy Policy
	// Spares are the other workers of the machine's datacenter for SwitchWorker, in the order they are tried: 1 to
	// MaxMachine of them, none twice. The other policies have none.
	Spares []uint64
	// RollbackBits is how many bits of the sequence RollbackBits takes: 1 to MaxRollbackBits. The other policies have
	// 0.
	RollbackBits int
	// NotBefore is a moment that no id of an earlier process with the same numbers is later than, such as one that was
	// stored before it was reached. Ids are later than it. Zero when nothing is known.
	NotBefore time.Time
	// Now is the wall clock, nil for time.Now. It is called with a lock held: it must return soon, and not use the
	// Snowflake.
	Now func() time.Time
}

// Snowflake makes snowflakes: at most 4,096 a millisecond, less with RollbackBits. All of its ids are later than the
// millisecond it was made in, whatever the policy, so that processes with one machine number that run one after the
// other repeat nothing as long as each starts with the clock at or after the newest id of those before. Safe for
// concurrent use.
type Snowflake struct {
	layout Layout
	policy Policy
	epoch  int64 // Unix milliseconds
	perMS  uint64
	now    func() time.Time

	mu sync.Mutex
	// lanes are what ids of one millisecond may be told apart by, besides their sequence: the one worker, the worker
	// and its spares, or the rollback numbers. guarded by mu, like current, the index of the one that ids are made on.
	lanes   []lane
	current int
}

// lane is a set of ids that only rises.
type lane struct {
	// bits are the id's between the milliseconds and the sequence.
	bits uint64
	// ms is the newest millisecond in which the lane has made ids, or an earlier process may have, and used how many.
	ms   int64
	used uint64
}

// NewSnowflake starts nothing. A [session.FieldError] names what cannot be: epoch, datacenter, worker, policy, spares,
// rollback_bits, not_before. ErrClockRange when the clock is not within the ids' 69.7 years.
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
		perMS: 1 << (snowflakeSequenceBits - c.RollbackBits), lanes: c.lanes(),
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
	for i := range g.lanes { // all: nobody knows which of them an earlier process has used
		g.lanes[i].ms, g.lanes[i].used = floor, g.perMS
	}
	return g, nil
}

func (c SnowflakeConfig) check() error {
	if err := c.Machine.check(); err != nil {
		return err
	}
	if _, err := ParsePolicy(c.Policy.String()); err != nil {
		return err
	}
	switch {
	case c.Policy != SwitchWorker && len(c.Spares) > 0:
		return &session.FieldError{Field: "spares", Limit: "must be empty unless the policy is " +
			SwitchWorker.String()}
	case c.Policy == SwitchWorker && !c.sparesAreDistinct():
		return &session.FieldError{
			Field: "spares", Limit: fmt.Sprintf("1 to %d workers, %s, each once and not the machine's own", MaxMachine,
				machineLimit()),
		}
	case (c.Policy == RollbackBits) != (c.RollbackBits > 0):
		return &session.FieldError{
			Field: "rollback_bits", Limit: fmt.Sprintf("1 to %d when the policy is %v, otherwise 0", MaxRollbackBits,
				RollbackBits),
		}
	}
	return nil
}

// sparesAreDistinct reports whether there are spares, and all of them are workers that can be told apart from each
// other and from the machine's own.
func (c SnowflakeConfig) sparesAreDistinct() bool {
	seen := map[uint64]bool{c.Machine.Worker: true}
	for _, worker := range c.Spares {
		if worker > MaxMachine || seen[worker] {
			return false
		}
		seen[worker] = true
	}
	return len(c.Spares) > 0
}

func (c SnowflakeConfig) lanes() []lane {
	machine := func(worker uint64) uint64 {
		return c.Machine.Datacenter<<snowflakeDatacenterShift | worker<<snowflakeWorkerShift
	}
	lanes := []lane{{bits: machine(c.Machine.Worker)}}
	for _, worker := range c.Spares {
		lanes = append(lanes, lane{bits: machine(worker)})
	}
	for rollback := uint64(1); rollback < 1<<c.RollbackBits; rollback++ {
		lanes = append(lanes, lane{bits: lanes[0].bits | rollback<<(snowflakeSequenceBits-c.RollbackBits)})
	}
	return lanes
}

// Layout is that of the ids.
func (g *Snowflake) Layout() Layout { return g.layout }

// Next returns an id. When the millisecond's ids are used up it waits for the next one, and a caller of many may have
// to wait again. While it waits it ends with ctx, and with ErrClockStands when the clock does not move on within
// MaxWait. A clock that was set back fails with a [ClockSetBackError] when the policy has no other answer, one that is
// out of range with ErrClockRange. A call that fails has used no id.
func (g *Snowflake) Next(ctx context.Context) (uint64, error) {
	newest, stood := int64(-1), time.Duration(0)
	for {
		r := g.try()
		if r.err != nil || r.wait == 0 {
			return r.id, r.err
		}
		if r.ms > newest {
			newest, stood = r.ms, 0
		}
		// The waits that were for nothing are bounded: the clock stood, or was set back meanwhile.
		if stood += r.wait; stood > MaxWait {
			return 0, ErrClockStands
		}
		if err := sleep(ctx, r.wait); err != nil {
			return 0, err
		}
	}
}

// result is what came of one look at the clock, at ms: an id, an error, or a wait before the next look.
type result struct {
	id   uint64
	err  error
	ms   int64
	wait time.Duration
}

// try looks at the clock once, and is the only one who does meanwhile: a caller that looked at it before another one
// got an id would take the clock for one that was set back.
func (g *Snowflake) try() result {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	ms := now.UnixMilli() - g.epoch
	if ms < 0 || ms > MaxSnowflakeMS {
		return result{err: ErrClockRange}
	}
	l := g.lane(ms)
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

// lane returns the lane to go on with at ms: the current one, unless the clock is behind it and another one is not.
// g.mu is held.
func (g *Snowflake) lane(ms int64) *lane {
	if ms < g.lanes[g.current].ms {
		for i := range g.lanes {
			next := (g.current + i) % len(g.lanes)
			if g.lanes[next].ms < ms {
				g.current = next
				break
			}
		}
	}
	return &g.lanes[g.current]
}

// until is the time from now to the begin of the millisecond that is ms after now's: above 0 for an ms above 0.
func until(now time.Time, ms int64) time.Duration {
	return time.Duration(ms)*time.Millisecond - time.Duration(now.Nanosecond())%time.Millisecond
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
