package health

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
	"holdfast/node/watchdog"
	"holdfast/session"
)

const (
	// pollInterval is the time between two reads of a value that Raft does not report by itself.
	pollInterval = 10 * time.Millisecond
	// minFruitless is the smallest number of intervals for which a leader waits for a good round. A leader waits
	// equally long for a node before the node counts as lost (E1 full timeout after a change of leader).
	minFruitless = 3
)

// TransferConfig has a node's functions and settings for a [Transfer].
type TransferConfig struct {
	Node     session.Node
	Logger   hclog.Logger
	Pulse    session.Pulse
	Raft     *raft.Raft
	Watchdog *watchdog.Watchdog
	// Interval is the heartbeat interval. ElectionTimeout is Raft's time limit for a transfer.
	Interval, ElectionTimeout time.Duration
	// Voters returns the other voters of Raft's newest configuration.
	Voters func() map[session.Node]raft.Server
	// Peers returns the members as the tracker of this node's term knows them; nothing without a tracker.
	Peers func() []leader.Peer
}

// Transfer transfers Raft's leadership to another node. It is immutable, and safe for concurrent use.
type Transfer struct{ cfg TransferConfig }

// NewTransfer returns a Transfer.
func NewTransfer(cfg TransferConfig) *Transfer { return &Transfer{cfg} }

// ToAny transfers leadership to the best voter, and returns when this node no longer leads. It tries one voter after
// the other. On a node that does not lead, the error is [session.ErrNotLeader]. Otherwise the error is ctx's, or says
// why no other node took over, and this node still leads.
func (t *Transfer) ToAny(ctx context.Context) error {
	servers, err := t.candidates()
	if err != nil {
		return err
	}
	for len(servers) > 0 { // the order is computed again, because Peers may have changed
		next := byPreference(t.cfg.Node, slices.Collect(maps.Keys(servers)), t.cfg.Peers())[0]
		if err := t.ToServer(ctx, servers[next]); !errors.Is(err, session.ErrTransferTimeout) {
			return err
		}
		t.cfg.Logger.Warn("a voter did not take over leadership in time", "node", next)
		delete(servers, next)
	}
	return session.ErrTransferTimeout
}

// To transfers leadership to one voter only. See [Transfer.ToAny].
func (t *Transfer) To(ctx context.Context, node session.Node) error {
	servers, err := t.candidates()
	if err != nil {
		return err
	}
	to, votes := servers[node]
	if !votes {
		return session.ErrNoOtherVoter
	}
	return t.ToServer(ctx, to)
}

// Voters returns the other voters of Raft's newest configuration.
func (t *Transfer) Voters() map[session.Node]raft.Server { return t.cfg.Voters() }

// candidates returns the voters that may lead, or an error that says why this node cannot transfer now.
func (t *Transfer) candidates() (map[session.Node]raft.Server, error) {
	if t.cfg.Raft.State() != raft.Leader {
		return nil, &session.NotLeaderError{}
	}
	if waits := t.cfg.Watchdog.Waits(); waits > t.cfg.Interval {
		return nil, fmt.Errorf("transfer leadership: Raft waits for a write or an entry, for %v so far", waits)
	}
	servers := t.cfg.Voters()
	if len(servers) == 0 {
		return nil, session.ErrNoOtherVoter
	}
	return servers, nil
}

// byPreference returns the voters to try, best first; at least one.
//
// Raft commits nothing for up to an election timeout while it waits for a voter to take over. So voters that do not
// answer the leader are tried only when no voter answers: they may just be unable to reach the peer port of this node,
// self. Among the answering voters, drained nodes come last, nodes with full disks before them, and otherwise the voter
// that has applied most comes first. Without a named voter, Raft tries the voter to which it has sent most: the same
// one each time, which may be dead.
func byPreference(self session.Node, voters []session.Node, known []leader.Peer) []session.Node {
	responsive := slices.DeleteFunc(slices.Clone(known), func(p leader.Peer) bool {
		return !p.Responsive || !slices.Contains(voters, p.Node)
	})
	if len(responsive) > 0 {
		slices.SortFunc(responsive, func(a, b leader.Peer) int {
			return cmp.Or(falseFirst(a.Draining, b.Draining), falseFirst(a.Full, b.Full), cmp.Compare(b.Applied, a.Applied),
				cmp.Compare(a.Node, b.Node))
		})
		nodes := make([]session.Node, len(responsive))
		for i, p := range responsive {
			nodes[i] = p.Node
		}
		return nodes
	}
	return slices.SortedFunc(slices.Values(voters), func(a, b session.Node) int {
		return cmp.Compare(a-self, b-self) // from this node's number upwards, and around
	})
}

// falseFirst orders false before true.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// ToServer makes Raft transfer leadership to a server, and returns when this node no longer leads. The error is ctx's,
// or [session.ErrTransferTimeout].
func (t *Transfer) ToServer(ctx context.Context, to raft.Server) error {
	// ToServer does not wait for the future: Raft never answers it when Raft ends, or hangs, before the transfer
	// begins.
	_ = t.cfg.Raft.LeadershipTransferToServer(to.ID, to.Address)
	timeout := time.NewTimer(t.cfg.ElectionTimeout + pollInterval)
	defer timeout.Stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for t.cfg.Raft.State() == raft.Leader {
		select {
		case <-ticker.C:
		case <-timeout.C:
			return session.ErrTransferTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// AfterPause transfers leadership after a pause of the process.
func (t *Transfer) AfterPause(ctx context.Context) {
	t.cfg.Logger.Warn("transferring leadership, as this process did not run")
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Watchdog.Limit)
	defer cancel()
	if err := t.ToAny(ctx); err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
		t.cfg.Logger.Warn("leadership was not transferred", "error", err)
	}
}

// WatchRounds transfers leadership when no round has been good for longer than the stall limit, until ctx ends. good
// returns the newest good round of the term.
//
// In that situation Raft's port works, or this node would not lead, but the other nodes do not reach the peer port:
// while such a node leads, no touch counts and no node is ready. The next leader transfers leadership too if it has the
// same problem. Time in which this process did not run does not count.
func (t *Transfer) WatchRounds(ctx context.Context, good func() uint64) {
	limit := max(t.cfg.Watchdog.Limit, minFruitless*t.cfg.Interval)
	ticker := t.cfg.Pulse.Ticker(t.cfg.Interval)
	defer ticker.Stop()
	last, fruitless := good(), time.Duration(0)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		fruitless += t.cfg.Interval
		if now := good(); now != last {
			last, fruitless = now, 0
		}
		if fruitless <= limit {
			continue
		}
		t.cfg.Logger.Warn("transferring leadership, as no round has been good", "for", fruitless, "limit", limit)
		if err := t.ToAny(ctx); err != nil && ctx.Err() == nil {
			t.cfg.Logger.Warn("leadership was not transferred", "error", err)
		}
		fruitless = 0
	}
}
