package learner

import (
	"slices"
	"testing"
)

// Each of the others is named first to clients with its part of the sessions, however large each client is, and no
// address is left out.
func TestQ1ClientsAreSpreadBySessions(t *testing.T) {
	all := []string{"n1", "n2", "n3", "n4"}
	o := &SendOff{to: func() []string { return slices.Clone(all) }, parts: map[string]int{}}
	first := map[string]int{}
	for i := range 400 {
		order := o.inTurn(1 + i%7)
		first[order[0]] += 1 + i%7
		if slices.Sort(order); !slices.Equal(order, all) {
			t.Fatalf("got %v, want all of %v", order, all)
		}
	}
	for _, address := range all {
		if got := first[address]; got < 390 || got > 410 {
			t.Errorf("%s comes first to clients with %d of %d sessions", address, got, 1597)
		}
	}
}
