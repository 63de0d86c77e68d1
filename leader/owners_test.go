package leader

import (
	"testing"
	"time"

	"holdfast/session"
)

// E1: the silence of a session begins at its touch, a timeout and T/200 before its deadline. A stall that ended right
// after the touch counts; a stall that ended at that moment does not.
func TestE1SilenceBeginsAtTheTouch(t *testing.T) {
	const at, timeout, credit = 10 * time.Second, 4 * time.Second, time.Second
	for after, want := range map[time.Duration]time.Duration{0: credit, 1: 2 * credit} {
		stalls := (*session.Stalls)(nil).With(at+after, credit, time.Second).With(at+3*time.Second, credit, time.Second)
		w, deadline := ownerState{stalls: stalls}, at+extension(timeout)
		if got := w.due(deadline, timeout); got != deadline+want {
			t.Errorf("with a stall that ended %v after the touch it is due %v after its deadline, want %v", after,
				got-deadline, want)
		}
	}
}
