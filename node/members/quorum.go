package members

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// quorumIntervals is for how many heartbeat intervals a request waits for a quorum before it is refused. A term that
// has just begun has not received answers of all voters yet, and a node may count as drained for a while after its
// drain has ended.
const quorumIntervals = 5

// awaitQuorum is checkQuorum, for a term that may be too young to have answers of all voters.
func (o *Operator) awaitQuorum(ctx context.Context, t Term, without, with session.Node) error {
	ticker := time.NewTicker(o.cfg.Interval)
	defer ticker.Stop()
	for range quorumIntervals {
		if o.checkQuorum(t, without, with) == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return o.checkQuorum(t, without, with)
}

// checkQuorum refuses a configuration without one voter, or with one more, in which the responsive voters are no
// quorum (J4 quorum is kept). Members that are to lose their vote count as if they had lost it.
func (o *Operator) checkQuorum(t Term, without, with session.Node) error {
	return checkQuorum(t.Peers(), append(losesVote(o.cfg.Membership.Servers(), with), without), with)
}

// losesVote returns the members that are to lose their vote or have none, but for one node.
func losesVote(servers []raft.Server, but session.Node) (nodes []session.Node) {
	for _, s := range servers {
		if node, _, err := raftnet.ParseServerID(s.ID); err == nil && DesiredOf(s) != DesiredVoter && node != but {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// checkQuorum is [Operator.checkQuorum] of what a term knows. The nodes in without do not count as voters, the node
// with does.
func checkQuorum(known []leader.Peer, without []session.Node, with session.Node) error {
	var votes []session.Vote
	of := with
	for _, p := range known {
		if slices.Contains(without, p.Node) {
			of = max(of, p.Node)
			continue
		}
		if !p.Voter && p.Node != with {
			continue
		}
		v := session.Vote{Node: p.Node}
		switch {
		case !p.Responsive:
			v.Missing = "is not responding"
		case p.Draining:
			v.Missing = "is being drained"
		}
		votes = append(votes, v)
	}
	b := session.NewBallot(votes)
	if b.Enough() {
		return nil
	}
	why := fmt.Sprintf("of %d voters then, %d would be a quorum, and %d remain", b.Voters, b.Quorum, b.Remain)
	if absent := b.Absent(); absent != "" {
		why += ": " + absent
	}
	return refusal(of, session.MemberQuorum, "%s", why)
}
