package history

import "fmt"

// Act is the outcome of an operator's request about a session.
type Act struct {
	// Why is the reason that the operator gave. No two requests of a run have the same.
	Why     string
	Outcome Outcome
	// Err is the operator's error if the act was not done.
	Err string
}

// Outcome is the outcome of an Act.
type Outcome uint8

// The outcomes.
const (
	// Done: it was done.
	Done Outcome = 1 + iota
	// WasGone: the session had ended before.
	WasGone
	// Doubtful: the outcome is unknown. The act may have been done, or may still be.
	Doubtful
)

// String returns the act as the middle of a line.
func (a *Act) String() string {
	names := [...]string{"?", "done", "had ended", "in doubt"}
	if int(a.Outcome) >= len(names) {
		return "?"
	}
	text := fmt.Sprintf(" %q: %s", a.Why, names[a.Outcome])
	if a.Err != "" {
		text += " (" + a.Err + ")"
	}
	return text
}
