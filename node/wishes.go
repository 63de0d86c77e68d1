package node

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// bringAbout takes the next step towards what is wanted of the members that are to lose their vote or to leave (J2,
// J3). It reports whether it has changed the configuration. Each step is known by the configuration or the state
// alone, so that the next leader goes on where this one ends.
func (m *membership) bringAbout(ctx context.Context) bool {
	servers := m.roster.servers()
	for _, s := range servers {
		node, _, err := nodeOfServer(s.ID)
		w := wishOf(s)
		if err != nil || w == wishVote {
			continue
		}
		if step := m.towards(ctx, s, node, w); step != nil {
			step()
			m.awaitChange(ctx, s)
			return true
		}
	}
	return false
}

// towards returns the next step for a member, nil when there is none to take now.
func (m *membership) towards(ctx context.Context, s raft.Server, node session.Node, w wish) func() {
	r, timeout := m.consensus.raft, m.interval
	switch {
	case s.Suffrage == raft.Voter:
		// A leader that cannot lose its vote yet leads on: the next one may be such a leader too, and hand back.
		if err := m.members.quorum(m.tracker, node, 0); err != nil {
			m.complaints.Do(func() { m.logger.Warn("a member keeps its vote for now", "node", node, "reason", err) })
			return nil
		}
		if node == m.roster.self {
			return func() { m.leave(ctx) }
		}
		return func() {
			m.logger.Warn("a member loses its vote", "node", node)
			delete(m.target, node)
			r.DemoteVoter(s.ID, 0, timeout)
		}
	case w == wishObserve, !m.left(ctx, node):
		return nil
	case !m.roster.gone(node):
		return func() {
			// Its number is used up before it is no member any more: no moment is between in which it could be added (I7).
			claim := session.ClaimIDs{Node: node, MS: session.MaxMS, Count: session.MaxClaim}
			if _, err := m.consensus.proposer.Propose(ctx, claim); err != nil && ctx.Err() == nil {
				m.logger.Warn("using up the number of a node that is to be removed", "node", node, "error", err)
			}
		}
	}
	return func() {
		m.logger.Warn("removing a member for good", "node", node)
		r.RemoveServer(s.ID, 0, timeout)
	}
}

// leave hands leadership over, because this node is to lose its vote. The next leader goes on.
func (m *membership) leave(ctx context.Context) {
	err := m.members.handover.handOver(ctx)
	if err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
		m.logger.Warn("leadership was not handed over by a node that is to lose its vote", "error", err)
	}
}

// awaitChange waits until the configuration shows another state of a member, for an interval at most.
func (m *membership) awaitChange(ctx context.Context, s raft.Server) {
	ctx, cancel := context.WithTimeout(ctx, m.interval)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	node, _, _ := nodeOfServer(s.ID)
	for {
		if now, found := find(m.roster.servers(), node); !found || now != s {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// left reports whether nobody has to be waited for at a node that is to be removed: its clients have gone, or it has
// had its time, or it is dead.
func (m *membership) left(ctx context.Context, node session.Node) bool {
	l := m.leaving[node]
	if l == nil {
		l = &leaving{since: time.Now()}
		m.leaving[node] = l
	}
	if time.Since(l.since) > m.members.handover.cfg.Clients.DrainTimeout+recent*m.interval {
		return true
	}
	met, _, err := m.meet(ctx, m.roster.peerOf(node))
	if err != nil {
		if m.tracker.Follows(node) {
			l.silent = 0
			return false
		}
		l.silent++
		return l.silent >= patience
	}
	l.silent = 0
	var told meeting
	return json.Unmarshal(met.Answer, &told) == nil && told.Drained
}
