package writes

import (
	"fmt"

	"holdfast/session"
)

// Fate is what a client knows about the effect of a write.
type Fate uint8

// The fates.
const (
	// Done: the write used its number, and its result shows whether it had an effect.
	Done Fate = 1 + iota
	// Never: the write had no effect and will have none.
	Never
	// TookEffect: the write used its number. Its result is gone.
	TookEffect
	// Unknown: the effect is unknown, for good unless a [Report] with Late follows.
	Unknown
)

// String returns the fate in lower case.
func (f Fate) String() string {
	names := [...]string{Done: "done", Never: "never", TookEffect: "took effect", Unknown: "unknown"}
	if int(f) < len(names) && names[f] != "" {
		return names[f]
	}
	return fmt.Sprintf("fate %d", uint8(f))
}

// Report is the report to the caller of a write.
type Report struct {
	Write *Write
	Fate  Fate
	// Result is the node's answer, with [Done].
	Result any
	// Err is why a node refused the write for good, with [Never] and [Unknown]; nil otherwise.
	Err error
	// Late: the caller got [Unknown] when it gave up, and this report is the write's final fate (X6 giving up).
	Late bool
}

// FateOf returns the fate of an unanswered write from the certificate of its ended session, for the client process with
// this instance (X9 writes in the certificate). voided: the process has sent a void with the write's number, so write
// or void may have used the number.
func FateOf(left session.Left, instance, number uint64, voided bool) Fate {
	switch {
	case number > left.Applied:
		return Never
	case left.Instance == instance && number > left.Floor && !voided:
		return TookEffect
	default:
		return Unknown
	}
}
