package session

import (
	"fmt"
	"strings"
)

// Vote is a voter, as somebody knows it who judges a change of the members.
type Vote struct {
	Node Node
	// Missing says why the voter would count for no quorum, such as "is not heard"; empty when it would.
	Missing string
}

// Ballot is what voters come to.
type Ballot struct {
	// Voters is how many there are, Quorum how many must agree, and Remain how many would count for one.
	Voters, Quorum, Remain int
	// Missing are the votes that would not.
	Missing []Vote
}

// NewBallot counts votes.
func NewBallot(votes []Vote) Ballot {
	b := Ballot{Voters: len(votes), Quorum: len(votes)/2 + 1}
	for _, v := range votes {
		if v.Missing == "" {
			b.Remain++
		} else {
			b.Missing = append(b.Missing, v)
		}
	}
	return b
}

// Absent says which votes are missing and why, one after the other; empty for none.
func (b Ballot) Absent() string {
	all := make([]string, len(b.Missing))
	for i, v := range b.Missing {
		all[i] = fmt.Sprintf("node %d %s", v.Node, v.Missing)
	}
	return strings.Join(all, ", ")
}

// Enough reports whether a quorum remains.
func (b Ballot) Enough() bool { return b.Remain >= b.Quorum }
