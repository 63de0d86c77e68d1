package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// handover gives Raft's leadership to another node. Safe for concurrent use. It does not change.
type handover struct {
	cfg      config.Config
	pulse    session.Pulse
	logger   hclog.Logger
	raft     *raft.Raft
	watchdog *watchdog.Watchdog
	// peers returns what the tracker of this node's term knows of the members; nothing without a tracker.
	peers func() []leader.Peer
}

// handOver is [Node.HandOver]. It asks one voter after the other.
func (h *handover) handOver(ctx context.Context) error {
	servers, err := h.takers()
	if err != nil {
		return err
	}
	for len(servers) > 0 { // each is asked once: what is known of the others may be better by then
		next := successors(h.cfg.Node, slices.Collect(maps.Keys(servers)), h.peers())[0]
		if err := h.handTo(ctx, servers[next]); !errors.Is(err, errNotTakenOver) {
			return err
		}
		h.logger.Warn("a voter did not take leadership over", "node", next)
		delete(servers, next)
	}
	return errNotTakenOver
}

// handOverTo is handOver to one voter alone.
func (h *handover) handOverTo(ctx context.Context, node session.Node) error {
	servers, err := h.takers()
	if err != nil {
		return err
	}
	to, votes := servers[node]
	if !votes {
		return errAlone
	}
	return h.handTo(ctx, to)
}

// takers returns the voters that can be asked to lead. The error says why this node cannot hand over now.
func (h *handover) takers() (map[session.Node]raft.Server, error) {
	if h.raft.State() != raft.Leader {
		return nil, &session.NotLeaderError{}
	}
	if waits := h.watchdog.Waits(); waits > h.cfg.Sessions.HeartbeatInterval {
		return nil, fmt.Errorf("hand leadership over: Raft waits for a write or an entry, for %v so far", waits)
	}
	servers := h.others()
	if len(servers) == 0 {
		return nil, errAlone
	}
	return servers, nil
}

// others returns Raft's servers that vote, without this node.
func (h *handover) others() map[session.Node]raft.Server {
	future := h.raft.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	all := make(map[session.Node]raft.Server)
	for _, s := range future.Configuration().Servers {
		if n, _, err := nodeOfServer(s.ID); err == nil && s.Suffrage == raft.Voter && n != h.cfg.Node {
			all[n] = s
		}
	}
	return all
}

// successors returns which of some voters may be asked to lead, in their order; at least one. Raft commits nothing
// while it waits for one of them, for an election timeout. So those that were not heard are asked only if none was
// heard: they may not reach the peer port of this node, self. Of those that were heard, the one that has applied most
// comes first, nodes with full disks come after those, and nodes that are being drained last. Raft by itself asks the voter that it has sent most to, the
// same one each time, which may be dead.
func successors(self session.Node, voters []session.Node, known []leader.Peer) []session.Node {
	heard := slices.DeleteFunc(slices.Clone(known), func(p leader.Peer) bool {
		return !p.Heard || !slices.Contains(voters, p.Node)
	})
	if len(heard) > 0 {
		slices.SortFunc(heard, func(a, b leader.Peer) int {
			return cmp.Or(last(a.Draining)-last(b.Draining), last(a.Full)-last(b.Full), cmp.Compare(b.Applied, a.Applied),
				cmp.Compare(a.Node, b.Node))
		})
		nodes := make([]session.Node, len(heard))
		for i, p := range heard {
			nodes[i] = p.Node
		}
		return nodes
	}
	return slices.SortedFunc(slices.Values(voters), func(a, b session.Node) int {
		return cmp.Compare(a-self, b-self) // from this node's number upwards, and round
	})
}

// last sorts what is true behind what is not.
//
//nolint:revive // flag-parameter: it is what is sorted
func last(is bool) int {
	if is {
		return 1
	}
	return 0
}

// handTo has Raft hand over to a server, and returns when this node does not lead any more. The error is that of ctx,
// or errNotTakenOver.
func (h *handover) handTo(ctx context.Context, to raft.Server) error {
	// Nobody waits for the future: Raft never answers it when Raft ends, or hangs, before it has come to the transfer.
	_ = h.raft.LeadershipTransferToServer(to.ID, to.Address)
	// Raft gives a transfer an election timeout.
	timeout := time.NewTimer(h.cfg.Raft.HeartbeatTimeout + pollInterval)
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
