package client

import (
	"testing"
)

// N4: nodes are behind each other, and what a client has seen is what the foremost of them has told.
func TestN4SeenIndexNeverGoesBack(t *testing.T) {
	var s seen
	s.note(7)
	s.note(5)
	if got := s.demand(); got != 7 {
		t.Errorf("%d was seen, want 7", got)
	}
}
