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

// N4: a node of another cluster, such as one that a mistyped endpoint names, takes back nothing of what nodes of the
// client's own cluster have told. Each cluster has an index of its own.
func TestN4AnAnswerOfAnotherClusterTakesBackNothing(t *testing.T) {
	var s seen
	s.note(told{index: 3}) // by a node that told no cluster
	s.note(told{cluster: 1, index: 7, stamp: 70})
	s.note(told{cluster: 2, index: 5, stamp: 50})
	if got := s.now(); got != (told{cluster: 2, index: 5, stamp: 50}) {
		t.Errorf("of the other cluster: %+v", got)
	}
	s.note(told{cluster: 1, index: 6, stamp: 60})
	if got := s.now(); got != (told{cluster: 1, index: 7, stamp: 70}) {
		t.Errorf("back at its own cluster: %+v, want what was told before", got)
	}
	for other := range uint64(2 * maxClusters) {
		s.note(told{cluster: 10 + other, index: other})
	}
	if len(s.told) != maxClusters {
		t.Errorf("%d clusters are remembered, want %d", len(s.told), maxClusters)
	}
}
