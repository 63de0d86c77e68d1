package ids

import (
	"fmt"
	"time"

	"holdfast/session"
)

// MaxWait bounds how long [Wait] waits for a clock that was set back, and how long every policy waits for a stopped
// clock.
const MaxWait = 15 * time.Millisecond

// Policy is the behaviour of a [Snowflake] when its clock was set back. Every policy keeps the ids of one Snowflake
// unique. No policy remembers anything after the process has ended: a process repeats ids if its clock starts behind
// the newest id of an earlier process with the same machine number, unless [SnowflakeConfig].NotBefore covers that id.
// For the same reason no policy makes ids of a time before the start.
type Policy uint8

// Policies.
const (
	// Refuse fails until the clock has caught up. Ids rise.
	Refuse Policy = iota
	// Wait waits until the clock has caught up when it is less than MaxWait behind, and fails otherwise. Ids rise. This
	// is enough for the small steps of NTP.
	Wait
	// SwitchWorker continues with a spare worker number that has made no id in this millisecond or a later one, and
	// fails when there is none. No other generator may use the spares. Ids do not rise over a switch: their time goes
	// back with the clock.
	SwitchWorker
	// RollbackBits keeps a rollback number in the high bits of the sequence. When the clock is set back, the number is
	// incremented, and wraps. Numbers that have made an id in this millisecond or a later one are skipped; if there is
	// no other, Next fails. With b bits the clock may go over one millisecond 2^b times, and a millisecond has 2^(12-b)
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

// String returns the policy's name in lower case.
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
