package health

import (
	"slices"
	"testing"

	"holdfast/leader"
	"holdfast/session"
)

func TestOrderOfTheVotersThatAreAskedToLead(t *testing.T) {
	heard := func(n session.Node, applied uint64) leader.Peer {
		return leader.Peer{Node: n, Voter: true, Responsive: true, Applied: applied}
	}
	silent := func(n session.Node, applied uint64) leader.Peer {
		return leader.Peer{Node: n, Voter: true, Applied: applied}
	}
	type (
		peers = []leader.Peer
		nodes = []session.Node
	)
	voters := nodes{1, 2, 4, 5}
	for name, c := range map[string]struct {
		known peers
		want  nodes
	}{
		"the one that has applied most": {peers{heard(1, 7), heard(2, 9), heard(4, 8), heard(5, 9)}, nodes{2, 5, 4, 1}},
		"never a silent one":            {peers{silent(1, 99), heard(2, 9), silent(4, 99), heard(5, 9)}, nodes{2, 5}},
		"unless all are silent":         {peers{silent(1, 9), silent(2, 1)}, nodes{4, 5, 1, 2}},
		"without a tracker":             {nil, nodes{4, 5, 1, 2}},
		"not without a vote":            {peers{heard(3, 9), heard(6, 9), heard(2, 1)}, nodes{2}},
	} {
		if got := byPreference(3, voters, c.known); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
