package members

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Reconciler brings Raft's configuration to the desired state of the members, for one term that this node leads, and
// adds nodes on new data directories. Its planner decides, one change at a time. Configuration and state alone say
// which step is next, so that the next leader continues where this one ends. It belongs to one goroutine.
type Reconciler struct {
	operator   *Operator
	membership *Membership
	logger     hclog.Logger
	interval   time.Duration
	term       Term
	planner    *planner
	// warnings bounds the warnings about members that keep their vote.
	warnings rate.Sometimes
}

// NewReconciler returns the reconciler of a term. It shares the turn to decide about the members with operators.
func NewReconciler(o *Operator, t Term) *Reconciler {
	r := &Reconciler{
		operator: o, membership: o.cfg.Membership, logger: o.cfg.Logger, interval: o.cfg.Interval, term: t,
		warnings: rate.Sometimes{Interval: warnInterval},
	}
	r.planner = newPlanner(r.interval, o.cfg.DrainTimeout, func(node session.Node, why error) {
		r.warnings.Do(func() { r.logger.Warn("not demoting a member yet", "node", node, "reason", why) })
	})
	return r
}

// Run reconciles once in each heartbeat interval until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	ticker := r.operator.cfg.Pulse.Ticker(r.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if r.operator.takeTurn(ctx) != nil {
			return
		}
		r.reconcile(ctx)
		r.operator.giveTurn()
	}
}

// reconcile takes one step. What operators want of the members comes before the requests of nodes. A step is decided by
// facts from after the answers: requests may last seconds, in which an operator may have changed a member.
func (r *Reconciler) reconcile(ctx context.Context) {
	got := r.ask(ctx, r.planner.memberProbes(r.facts()))
	next := r.planner.memberStep(r.facts(), got)
	if next.action == noAction {
		asked := r.facts()
		got = r.ask(ctx, r.planner.requestProbes(asked))
		f := r.facts()
		f.requests = asked.requests // a request that grew old meanwhile resets no count
		next = r.planner.requestStep(f, got)
	}
	if next.action == noAction || ctx.Err() != nil {
		return
	}
	before, _ := Find(r.membership.Servers(), next.node)
	r.do(ctx, next)
	r.awaitChange(ctx, before, next.node)
}

func (r *Reconciler) facts() *facts {
	now := time.Now()
	return &facts{
		now: now, self: r.membership.self, servers: r.membership.Servers(), known: r.membership.known(),
		requests:  r.operator.cfg.Admission.requestsSince(now.Add(-recentIntervals * r.interval)),
		committed: r.membership.Raft().CommitIndex(), term: r.term, usedUp: r.membership.usedUp,
	}
}

// ask asks nodes, and returns the answers of those that answer.
func (r *Reconciler) ask(ctx context.Context, probes []config.Peer) answers {
	got := answers{}
	for _, p := range probes {
		met, _, err := r.operator.cfg.Exchange.ask(ctx, p)
		if err != nil {
			continue
		}
		var info peerInfo
		understood := json.Unmarshal(met.Answer, &info) == nil
		got[p.Node] = answer{node: met.Node, directory: met.Directory, drained: understood && info.Drained}
	}
	return got
}

// do carries out a step. Raft makes one change at a time, and only once the last is committed. do ignores the
// future of a change, because a leader whose disk hangs would not answer: the next check shows the outcome.
func (r *Reconciler) do(ctx context.Context, s step) {
	on, node, timeout := r.membership.Raft(), s.node, r.interval
	switch s.action {
	case transferLeadership: // the next leader continues
		err := r.operator.cfg.Transfer.ToAny(ctx)
		if err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
			r.logger.Warn("leadership was not transferred by a node that is to lose its vote", "error", err)
		}
	case demote:
		r.logger.Warn("demoting a member", "node", node)
		on.DemoteVoter(s.id, 0, timeout)
	case useUpNumber:
		// The number is used up while the node is still a member: between the two steps no operator can add the node
		// again (I7 ids are never reused).
		claim := session.ClaimIDs{Node: node, MS: session.MaxMS, Count: session.MaxClaim}
		if _, err := r.operator.cfg.Propose(ctx, claim); err != nil && ctx.Err() == nil {
			r.logger.Warn("using up the number of a node that is to be removed", "node", node, "error", err)
		}
	case removeMember:
		r.logger.Warn("removing a member for good", "node", node)
		on.RemoveServer(s.id, 0, timeout)
	case addMember:
		r.logger.Warn("adding a node on a new data directory, without a vote", "node", node, "directory",
			s.request.directory)
		on.AddNonvoter(s.id, s.address, 0, timeout)
	case removeLost:
		_, directory, _ := raftnet.ParseServerID(s.id)
		r.logger.Warn("removing a node whose data directory is gone", "node", node, "directory", directory,
			"requested", s.request.directory)
		on.RemoveServer(s.id, 0, timeout)
	case giveVote:
		r.logger.Warn("promoting a node on a new data directory: it has caught up", "node", node,
			"directory", s.request.directory, "applied", s.request.applied)
		on.AddVoter(s.id, s.address, 0, timeout)
	case noAction:
	}
}

// awaitChange waits until the configuration shows another entry of a member than before, for an interval at most.
func (r *Reconciler) awaitChange(ctx context.Context, before raft.Server, node session.Node) {
	ctx, cancel := context.WithTimeout(ctx, r.interval)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if now, found := Find(r.membership.Servers(), node); !found || now != before {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
