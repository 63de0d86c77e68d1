package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

const (
	// hearing is for how many intervals a new term may find voters that it has not heard yet, and the other nodes may take
	// one for drained that no longer is, before a change or a drain is refused because of them.
	hearing = 5
)

// members changes the members for operators, on the node that leads (J). Safe for concurrent use.
type members struct {
	interval time.Duration
	logger   hclog.Logger
	meetings *meetings
	handover *handover
	// tracker is that of the term that this node leads, nil while it leads none.
	tracker func() *leader.Tracker
	// turn is held by who decides about the members: what one has looked at must not change before it has changed
	// something. Raft's own compare-and-set is no use, as its index of the configuration is not told (v1.7.3).
	turn chan struct{}
}

// lead takes the turn, and returns the tracker of the term that this node leads then: the term before may have ended
// while another one had the turn. The caller gives the turn back unless there is an error, which is that of leading.
func (m *members) lead(ctx context.Context) (*leader.Tracker, error) {
	if _, err := m.leading(); err != nil {
		return nil, err
	}
	if err := m.take(ctx); err != nil {
		return nil, err
	}
	tracker, err := m.leading()
	if err != nil {
		m.give()
	}
	return tracker, err
}

// take waits for the turn. It is not taken once ctx has ended, as the term of a leader may have.
func (m *members) take(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		if ctx.Err() != nil {
			m.give()
		}
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *members) give() { <-m.turn }

// leading returns the tracker of the term that this node leads. The error is a [session.NotLeaderError].
func (m *members) leading() (*leader.Tracker, error) {
	tracker := m.tracker()
	if tracker == nil {
		return nil, m.meetings.roster.notLeader()
	}
	return tracker, nil
}

// notLeader says which node leads, as far as this one knows.
func (r *roster) notLeader() error {
	e := &session.NotLeaderError{}
	if running := r.raft.Load(); running != nil {
		if _, id := running.LeaderWithID(); id != "" {
			if leads, ok := r.peerBehind(id); ok {
				e.Leader, e.Address = leads.Node, leads.Client
			}
		}
	}
	return e
}

func refusal(node session.Node, cause session.MemberCause, format string, args ...any) error {
	return &session.MemberRefusedError{Node: node, Cause: cause, Why: fmt.Sprintf(format, args...)}
}

// Add takes a node in that runs, and waits, at a place (J2). See [clientport.Memberships].
func (m *members) Add(ctx context.Context, at session.MemberPlace) error {
	p := config.Peer{Node: at.Node, Raft: at.Raft, Peer: at.Peer, Client: at.Client}
	if err := p.Check(); err != nil {
		return err
	}
	if _, err := m.lead(ctx); err != nil {
		return err
	}
	defer m.give()
	r := m.meetings.roster
	if s, found := find(r.servers(), p.Node); found {
		if err := r.addedBefore(s, p); err != nil {
			return err
		}
		if err := m.another(ctx, p); err != nil {
			return err
		}
		return m.committed(ctx)
	}
	if r.was(p.Node) {
		return refusal(p.Node, session.MemberUsedUp, "a node of this number was removed: give the new node a number that no "+
			"node has had")
	}
	for _, other := range r.members() {
		if p.Raft == other.Raft || p.Peer == other.Peer || p.Client == other.Client {
			return refusal(p.Node, session.MemberKnown, "node %d has one of its addresses", other.Node)
		}
	}
	r.visited.Store(uint32(p.Node))
	defer r.visited.Store(0)
	directory, err := m.visit(ctx, p)
	if err != nil {
		return err
	}
	id, address := serverID(p.Node, directory), placed(p, directory, wishObserve)
	m.logger.Warn("an operator adds a node, without a vote", "node", p.Node, "directory", directory)
	return m.change(ctx, func(on *raft.Raft) { on.AddNonvoter(id, address, 0, changeTimeout) },
		func(now []raft.Server) bool {
			s, found := find(now, p.Node)
			return found && s.ID == id
		})
}

// another returns a refusal if the node at a place runs on another data directory than the member of its number, and no
// leader takes it in on that one. A node that does not answer is what it was.
func (m *members) another(ctx context.Context, p config.Peer) error {
	met, _, err := m.meetings.meet(ctx, p)
	if err != nil || met.Node != p.Node || met.Directory == 0 || !m.meetings.roster.keeps(p.Node, met.Directory) {
		return nil //nolint:nilerr // see above
	}
	return refusal(p.Node, session.MemberKnown, "it is a member on another data directory, which the node at %s has "+
		"lost: remove it, and start a new node with a number that no node has had", p.Raft)
}

// visit meets the node at a place, and returns its directory.
func (m *members) visit(ctx context.Context, p config.Peer) (raftnet.Directory, error) {
	met, _, err := m.meetings.meet(ctx, p)
	if err != nil {
		return 0, refusal(p.Node, session.MemberSilent, "it is not met at %s: %v; start it on an empty data directory, with "+
			"itself and all members in its peers", p.Raft, err)
	}
	if met.Node != p.Node || met.Directory == 0 {
		return 0, refusal(p.Node, session.MemberForeign, "at %s is node %d", p.Raft, met.Node)
	}
	var told meeting
	if err := json.Unmarshal(met.Answer, &told); err != nil {
		return 0, refusal(p.Node, session.MemberForeign, "it answers nothing that this node understands")
	}
	if told.Admitted && !m.meetings.admission.isFoundedBy(told.Names) {
		return 0, refusal(p.Node, session.MemberForeign, "its data directory has taken part in another cluster: start it on "+
			"an empty one")
	}
	return met.Directory, nil
}

// Promote gives an observer its vote, once it has caught up (J2). See [clientport.Memberships].
func (m *members) Promote(ctx context.Context, node session.Node) error {
	return m.wish(ctx, node, wishVote, func(tracker *leader.Tracker, s raft.Server) (bool, error) {
		if s.Suffrage == raft.Voter && wishOf(s) == wishVote {
			return false, nil
		}
		if s.Suffrage == raft.Voter {
			return true, nil
		}
		return wishOf(s) != wishVote, m.awaitQuorum(ctx, tracker, 0, node)
	})
}

// Demote takes the vote of a member (J2). See [clientport.Memberships].
func (m *members) Demote(ctx context.Context, node session.Node) error {
	return m.wish(ctx, node, wishObserve, func(tracker *leader.Tracker, s raft.Server) (bool, error) {
		if wishOf(s) == wishObserve {
			return false, nil
		}
		if s.Suffrage != raft.Voter {
			return true, nil
		}
		return true, m.awaitQuorum(ctx, tracker, node, 0)
	})
}

// Remove begins to remove a member for good (J3). See [clientport.Memberships].
func (m *members) Remove(ctx context.Context, node session.Node) error {
	err := m.wish(ctx, node, wishLeave, func(tracker *leader.Tracker, s raft.Server) (bool, error) {
		if s.Suffrage != raft.Voter {
			return true, nil
		}
		return true, m.awaitQuorum(ctx, tracker, node, 0)
	})
	if why, ok := errors.AsType[*session.MemberRefusedError](err); ok &&
		(why.Cause == session.MemberLeaving || why.Cause == session.MemberUsedUp) {
		return m.committed(ctx) // it is under way, or done
	}
	return err
}

// wish marks a member with what is wanted of it. check says whether anything is to be changed, or why not.
func (m *members) wish(ctx context.Context, node session.Node, w wish,
	check func(*leader.Tracker, raft.Server) (bool, error),
) error {
	tracker, err := m.lead(ctx)
	if err != nil {
		return err
	}
	defer m.give()
	r := m.meetings.roster
	s, found := find(r.servers(), node)
	switch {
	case !found && r.was(node):
		return refusal(node, session.MemberUsedUp, "it was removed for good")
	case !found:
		return refusal(node, session.MemberUnknown, "no member has this number")
	case wishOf(s) == wishLeave:
		return refusal(node, session.MemberLeaving, "it is being removed")
	}
	changes, err := check(tracker, s)
	switch {
	case err != nil:
		return err
	case !changes:
		return m.committed(ctx)
	}
	m.logger.Warn("an operator changes a member", "node", node, "wants", w.String(), "voter", s.Suffrage == raft.Voter)
	address := wished(s.Address, w)
	return m.change(ctx, func(on *raft.Raft) {
		if s.Suffrage == raft.Voter {
			on.AddVoter(s.ID, address, 0, changeTimeout)
		} else {
			on.AddNonvoter(s.ID, address, 0, changeTimeout)
		}
	}, func(now []raft.Server) bool {
		s, found := find(now, node)
		return found && wishOf(s) == w
	})
}

// String returns the wish in words, for logs.
func (w wish) String() string {
	return [...]string{wishVote: "a voter", wishObserve: "an observer", wishLeave: "to be removed"}[w]
}

// awaitQuorum is quorum, for a term that may be too young to have heard anybody.
func (m *members) awaitQuorum(ctx context.Context, tracker *leader.Tracker, without, with session.Node) error {
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	for range hearing {
		if m.quorum(tracker, without, with) == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return m.quorum(tracker, without, with)
}

// quorum refuses a configuration without one voter, or with one more, in which those that are heard are no quorum
// (J4).
func (m *members) quorum(tracker *leader.Tracker, without, with session.Node) error {
	var leave []session.Node
	for _, s := range m.meetings.roster.servers() {
		if node, _, err := nodeOfServer(s.ID); err == nil && wishOf(s) != wishVote && node != with {
			leave = append(leave, node)
		}
	}
	return remains(tracker.Peers(), append(leave, without), with)
}

// remains is [members.quorum] of what a term knows: without are voters that do not count.
func remains(known []leader.Peer, without []session.Node, with session.Node) error {
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
		case !p.Heard:
			v.Missing = "is not heard"
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

// isFoundedBy reports whether directories are the founders of this cluster.
func (a *admission) isFoundedBy(names directories) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Equal(names, a.founders)
}
