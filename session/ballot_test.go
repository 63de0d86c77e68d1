package session_test

import (
	"fmt"
	"slices"
	"testing"

	"holdfast/session"
)

// A quorum is more than half of the votes, whoever is missing; of nobody nothing is enough.
func TestBallot(t *testing.T) {
	for _, c := range []struct {
		votes, missing, quorum int
		enough                 bool
	}{
		{0, 0, 1, false},
		{1, 0, 1, true},
		{1, 1, 1, false},
		{2, 0, 2, true},
		{2, 1, 2, false},
		{3, 1, 2, true},
		{3, 2, 2, false},
		{4, 1, 3, true},
		{4, 2, 3, false},
		{5, 2, 3, true},
		{5, 3, 3, false},
	} {
		votes := make([]session.Vote, c.votes)
		for i := range votes {
			votes[i].Node = session.Node(i + 1)
			if i < c.missing {
				votes[i].Missing = fmt.Sprintf("is away %d", i)
			}
		}
		b := session.NewBallot(votes)
		if b.Voters != c.votes || b.Quorum != c.quorum || b.Remain != c.votes-c.missing || b.Enough() != c.enough ||
			!slices.Equal(b.Missing, votes[:c.missing]) ||
			(c.missing == 2) != (b.Absent() == "node 1 is away 0, node 2 is away 1") {
			t.Errorf("%+v: %+v, enough: %v", c, b, b.Enough())
		}
	}
}
