package session

import (
	"fmt"
	"strings"
)

// Vote is a voter in the count before a change of the members.
type Vote struct {
	Node Node
	// Missing says why the voter would count for no quorum, such as "is not responding"; empty when it would.
	Missing string
}

// Ballot is the count of the votes.
type Ballot struct {
	// Voters is the number of voters, Quorum the number that must agree, and Remain the number that would count for a
	// quorum.
	Voters, Quorum, Remain int
	// Missing are the other votes.
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

// Absent lists the missing votes with their reasons; empty for none.
func (b Ballot) Absent() string {
	all := make([]string, len(b.Missing))
	for i, v := range b.Missing {
		all[i] = fmt.Sprintf("node %d %s", v.Node, v.Missing)
	}
	return strings.Join(all, ", ")
}

// Enough reports whether a quorum remains.
func (b Ballot) Enough() bool { return b.Remain >= b.Quorum }
