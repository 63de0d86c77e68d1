package leader

import (
	"errors"
	"testing"
)

// inTerm is a view whose node is in a term.
type inTerm struct {
	population
	term uint64
}

func (v *inTerm) Term() uint64 { return v.term }

// R3: a newer term of the node ends the tracker's term; an older one does not, but is not the tracker's either.
func TestR3ANewerTermEndsTheTerm(t *testing.T) {
	for _, tt := range []struct {
		name          string
		now           uint64
		current, over bool
	}{{"the same", 7, true, false}, {"older", 6, false, false}, {"newer", 8, false, true}} {
		t.Run(tt.name, func(t *testing.T) {
			led := newTerm(7, &inTerm{term: tt.now})
			if got := led.current(); got != tt.current || led.isOver() != tt.over {
				t.Errorf("current %v, over %v, want %v, %v", got, led.isOver(), tt.current, tt.over)
			}
			if tt.over && !errors.Is(led.reason, ErrTermOver) {
				t.Errorf("ended with %v, want %v", led.reason, ErrTermOver)
			}
		})
	}
}

// The first reason for the end of a term counts.
func TestTermEndsOnce(t *testing.T) {
	led := newTerm(7, &inTerm{term: 7})
	led.end(ErrRestored)
	led.end(ErrTermOver)
	if !errors.Is(led.reason, ErrRestored) {
		t.Errorf("ended with %v, want %v", led.reason, ErrRestored)
	}
}
