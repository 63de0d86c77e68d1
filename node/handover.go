package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

var (
	errAlone        = errors.New("no other node votes")
	errNotTakenOver = errors.New("no other node took over in time")
)

// HandOver hands Raft's leadership to a voter that is up to date, and returns when this node leads no more. Its error is
// [session.ErrNotLeader] on a node that does not lead; ctx's; or why no other node took over, in which case this one leads
// on. Safe for concurrent use.
func (n *Node) HandOver(ctx context.Context) error {
	r := n.consensus.raft
	if r.State() != raft.Leader {
		return &session.NotLeaderError{}
	}
	if waits := n.dog.waits(); waits > n.cfg.HeartbeatInterval {
		return fmt.Errorf("a write or an entry has taken %v, and Raft waits for it", waits)
	}
	if n.votesAlone() {
		return errAlone
	}
	// Nobody waits for the future: Raft never answers it when it ends, or hangs, before it has come to it.
	_ = r.LeadershipTransfer()
	// Raft gives a transfer an election timeout.
	timeout := time.NewTimer(n.cfg.RaftElectionTimeout + commitTimeout)
	defer timeout.Stop()
	ticker := time.NewTicker(commitTimeout)
	defer ticker.Stop()
	for r.State() == raft.Leader {
		select {
		case <-ticker.C:
		case <-timeout.C:
			return errNotTakenOver
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// votesAlone reports whether this node is the only voter.
func (n *Node) votesAlone() bool {
	for _, m := range n.view.Members() {
		if m.Voter && m.Node != n.cfg.Node {
			return false
		}
	}
	return true
}
