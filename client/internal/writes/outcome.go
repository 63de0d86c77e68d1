package writes

import (
	"fmt"

	"holdfast/session"
)

// Fate is what a client knows about the effect of a write.
type Fate uint8

// The fates.
const (
	// Done: the result is there. The write took its number, and its result says whether it had an effect.
	Done Fate = 1 + iota
	// Never: the write had no effect and will have none.
	Never
	// TookEffect: the write took its number. Its result is gone.
	TookEffect
	// Unknown: nothing is known about the effect, and nothing ever will be unless a [Told] with Late follows.
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

// Told is what the caller of a write hears.
type Told struct {
	Write *Write
	Fate  Fate
	// Result is the node's answer, with [Done].
	Result any
	// Err is why a node refused the write for good, with [Never] and [Unknown]; nil otherwise.
	Err error
	// Late says that the caller was told [Unknown] when it gave up, and this is what became of the write after all (X6).
	Late bool
}

// FateOf returns what the certificate of an ended session says about an unanswered write of the client process with an
// instance (X9). voided says that the process has sent a void with the write's number: either may have taken it.
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
