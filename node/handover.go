package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/session"
)

var (
	errAlone        = errors.New("no other node votes")
	errNotTakenOver = errors.New("no other node took over in time")
)

// HandOver hands Raft's leadership to a voter that is up to date, and returns when this node leads no more. Its error
// is [session.ErrNotLeader] on a node that does not lead; ctx's; or why no other node took over, in which case this one
// leads on. Safe for concurrent use.
func (n *Node) HandOver(ctx context.Context) error {
	r := n.consensus.raft
	if r.State() != raft.Leader {
		return &session.NotLeaderError{}
	}
	if waits := n.watchdog.Waits(); waits > n.cfg.Sessions.HeartbeatInterval {
		return fmt.Errorf("a write or an entry has taken %v, and Raft waits for it", waits)
	}
	if n.votesAlone() {
		return errAlone
	}
	// Nobody waits for the future: Raft never answers it when it ends, or hangs, before it has come to it.
	_ = r.LeadershipTransfer()
	// Raft gives a transfer an election timeout.
	timeout := time.NewTimer(n.cfg.Raft.ElectionTimeout + pollInterval)
	defer timeout.Stop()
	ticker := time.NewTicker(pollInterval)
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

// fruitless is how many intervals at least a leader waits for a good round: as many as it waits for a node (E1).
const fruitless = 3

// yieldUnanswered hands leadership over when no round has been good for longer than the stall limit, until ctx ends.
// Raft's port is open, or this node would not lead, but the others do not reach it at the peer port: as long as it
// leads, no touch counts and nobody is ready. A next leader that fares no better hands over too. Time in which this
// process did not run is not counted.
func (n *Node) yieldUnanswered(ctx context.Context, tracker *leader.Tracker) {
	interval := n.cfg.Sessions.HeartbeatInterval
	limit := max(n.watchdog.Limit, fruitless*interval)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	good, unanswered := tracker.Good(), time.Duration(0)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		unanswered += interval
		if now := tracker.Good(); now != good {
			good, unanswered = now, 0
		}
		if unanswered <= limit {
			continue
		}
		n.logger.Warn("handing leadership over, as no round has been good", "for", unanswered, "limit", limit)
		if err := n.HandOver(ctx); err != nil && ctx.Err() == nil {
			n.logger.Warn("leadership was not handed over", "error", err)
		}
		unanswered = 0
	}
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
