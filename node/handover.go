package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/node/config"
	"holdfast/node/watchdog"
	"holdfast/session"
)

var (
	errAlone        = errors.New("no other node votes")
	errNotTakenOver = errors.New("no other node took over in time")
)

// handover gives Raft's leadership to another node. Safe for concurrent use.
type handover struct {
	cfg      config.Config
	pulse    session.Pulse
	logger   hclog.Logger
	raft     *raft.Raft
	view     *view
	watchdog *watchdog.Watchdog
}

// handOver is [Node.HandOver].
func (h *handover) handOver(ctx context.Context) error {
	if h.raft.State() != raft.Leader {
		return &session.NotLeaderError{}
	}
	if waits := h.watchdog.Waits(); waits > h.cfg.Sessions.HeartbeatInterval {
		return fmt.Errorf("hand leadership over: Raft waits for a write or an entry, for %v so far", waits)
	}
	if !h.view.othersVote(h.cfg.Node) {
		return errAlone
	}
	// Nobody waits for the future: Raft never answers it when Raft ends, or hangs, before it has come to the transfer.
	_ = h.raft.LeadershipTransfer()
	// Raft gives a transfer an election timeout.
	timeout := time.NewTimer(h.cfg.Raft.ElectionTimeout + pollInterval)
	defer timeout.Stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for h.raft.State() == raft.Leader {
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

// stepAside hands leadership over after the process did not run.
func (h *handover) stepAside(ctx context.Context) {
	h.logger.Warn("handing leadership over, as this process did not run")
	ctx, cancel := context.WithTimeout(ctx, h.watchdog.Limit)
	defer cancel()
	if err := h.handOver(ctx); err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
		h.logger.Warn("leadership was not handed over", "error", err)
	}
}

// fruitless is the least number of intervals that a leader waits for a good round. A leader waits as long for a node
// before it counts as lost (E1).
const fruitless = 3

// whenUnanswered hands leadership over when no round has been good for longer than the stall limit, until ctx ends.
// Raft's port works, or this node would not lead; but the others do not reach the peer port. While such a node leads,
// no touch counts and no node is ready. The next leader hands over too if it fares no better. Time in which this
// process did not run does not count.
func (h *handover) whenUnanswered(ctx context.Context, tracker *leader.Tracker) {
	interval := h.cfg.Sessions.HeartbeatInterval
	limit := max(h.watchdog.Limit, fruitless*interval)
	ticker := h.pulse.Ticker(interval)
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
		h.logger.Warn("handing leadership over, as no round has been good", "for", unanswered, "limit", limit)
		if err := h.handOver(ctx); err != nil && ctx.Err() == nil {
			h.logger.Warn("leadership was not handed over", "error", err)
		}
		unanswered = 0
	}
}
