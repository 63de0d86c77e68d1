package client

import (
	"testing"
)

// N4: some nodes are behind others. The seen index is the highest that any of them told.
func TestN4SeenIndexNeverGoesBack(t *testing.T) {
	var s seen
	s.note(told{index: 7})
	s.note(told{index: 5})
	if got := s.demand(); got != 7 {
		t.Errorf("%d was seen, want 7", got)
	}
}
