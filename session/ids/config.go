package ids

import (
	"fmt"
	"time"

	"holdfast/session"
)

// SnowflakeConfig configures a [Snowflake].
type SnowflakeConfig struct {
	// Epoch is the moment from which the ids count, in whole milliseconds. Zero means [TwitterEpoch].
	Epoch time.Time
	// Machine is the number of this generator. During the life of the Snowflake, no other generator may have the same:
	// see [DeriveMachine].
	Machine Machine
	// Policy decides what to do when the clock was set back. Zero is [Refuse].
	Policy Policy
	// Spares are the other worker numbers of the machine's datacenter for [SwitchWorker], in the order in which they
	// are tried: 1 to MaxMachine of them, each once. The other policies have none.
	Spares []uint64
	// RollbackBits is the number of bits of the sequence that the policy [RollbackBits] uses: 1 to MaxRollbackBits. The
	// other policies use 0.
	RollbackBits int
	// NotBefore is a moment at or after every id of earlier processes with the same numbers, such as a moment that an
	// earlier process stored in advance. All ids are later. Zero means that nothing is known.
	NotBefore time.Time
	// Now is the wall clock; nil means time.Now. It is called with a lock held, so it must return soon and must not use
	// the Snowflake.
	Now func() time.Time
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
		limit := fmt.Sprintf("must be empty unless the policy is %v", SwitchWorker)
		return &session.FieldError{Field: "spares", Limit: limit}
	case c.Policy == SwitchWorker && !c.sparesAreDistinct():
		limit := fmt.Sprintf("1 to %d workers, %s, each once and not the machine's own", MaxMachine, machineLimit())
		return &session.FieldError{Field: "spares", Limit: limit}
	case (c.Policy == RollbackBits) != (c.RollbackBits > 0):
		limit := fmt.Sprintf("1 to %d when the policy is %v, otherwise 0", MaxRollbackBits, RollbackBits)
		return &session.FieldError{Field: "rollback_bits", Limit: limit}
	}
	return nil
}

// sparesAreDistinct reports whether there are spares, all in range and different from each other and from the machine's
// worker.
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

// sequencers returns one sequencer for each worker, or for each rollback number.
func (c SnowflakeConfig) sequencers() []sequencer {
	machine := func(worker uint64) uint64 {
		return c.Machine.Datacenter<<snowflakeDatacenterShift | worker<<snowflakeWorkerShift
	}
	own := machine(c.Machine.Worker)
	all := []sequencer{{bits: own}}
	for _, worker := range c.Spares {
		all = append(all, sequencer{bits: machine(worker)})
	}
	for rollback := uint64(1); rollback < 1<<c.RollbackBits; rollback++ {
		all = append(all, sequencer{bits: own | rollback<<(snowflakeSequenceBits-c.RollbackBits)})
	}
	return all
}
