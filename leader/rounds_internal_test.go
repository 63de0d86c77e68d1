package leader

import (
	"testing"
	"time"
)

// S4: a learner knows a round by its term and number, so a later tracker of the term continues the numbers.
func TestS4ALaterTrackerOfTheTermCountsOn(t *testing.T) {
	r := newRounds(7, newPace(time.Second), 41)
	if r.good.number() != 0 {
		t.Errorf("round %d is good before the first", r.good.number())
	}
	r.begin(0)
	r.begin(1)
	if got := r.newest.number(); got != 43 {
		t.Errorf("the second round is number %d, want 43", got)
	}
}
