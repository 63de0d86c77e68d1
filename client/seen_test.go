package client

import (
	"testing"
)

// N4: some nodes are behind others. The seen index is the highest that any of them reported.
func TestN4SeenIndexNeverGoesBack(t *testing.T) {
	var s seen
	s.note(nodeReport{index: 7})
	s.note(nodeReport{index: 5})
	if got := s.demand(); got != 7 {
		t.Errorf("%d was seen, want 7", got)
	}
}

// N4: a node of another cluster, such as one that a mistyped endpoint names, does not change the index of the client's
// own cluster. Each cluster has its own index.
func TestN4AnAnswerOfAnotherClusterResetsNothing(t *testing.T) {
	var s seen
	s.note(nodeReport{index: 3}) // by a node that reported no cluster
	s.note(nodeReport{cluster: 1, index: 7, stamp: 70})
	s.note(nodeReport{cluster: 2, index: 5, stamp: 50})
	if got := s.now(); got != (nodeReport{cluster: 2, index: 5, stamp: 50}) {
		t.Errorf("of the other cluster: %+v", got)
	}
	s.note(nodeReport{cluster: 1, index: 6, stamp: 60})
	if got := s.now(); got != (nodeReport{cluster: 1, index: 7, stamp: 70}) {
		t.Errorf("back at its own cluster: %+v, want what was told before", got)
	}
	for other := range uint64(2 * maxClusters) {
		s.note(nodeReport{cluster: 10 + other, index: other})
	}
	if len(s.reports) != maxClusters {
		t.Errorf("%d clusters are remembered, want %d", len(s.reports), maxClusters)
	}
}
