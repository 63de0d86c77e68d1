package node

import (
	"context"
	"errors"
	"slices"

	"holdfast/leader"
	"holdfast/session"
)

// Transfer hands leadership to a voter, any if node is 0. See [clientport.Memberships].
func (m *members) Transfer(ctx context.Context, node session.Node) error {
	tracker := m.tracker()
	h, r := m.handover, m.meetings.roster
	switch {
	case tracker == nil && node != 0 && r.leaderIs(node):
		return nil // a repeat
	case tracker == nil:
		return r.notLeader()
	case node == 0:
		return transferred(h.handOver(ctx), node)
	case node == r.self:
		return nil
	}
	to, votes := h.others()[node]
	if !votes {
		return refusal(node, session.MemberUnknown, "no voter has this number")
	}
	if wishOf(to) != wishVote {
		return refusal(node, session.MemberLeaving, "it is to lose its vote")
	}
	if !slices.ContainsFunc(tracker.Peers(), func(p leader.Peer) bool { return p.Node == node && p.Heard }) {
		return refusal(node, session.MemberSilent, "it is not heard")
	}
	return transferred(h.handTo(ctx, to), node)
}

// leaderIs reports whether this node takes another one for the leader.
func (r *roster) leaderIs(node session.Node) bool {
	running := r.raft.Load()
	if running == nil {
		return false
	}
	_, id := running.LeaderWithID()
	leads, ok := r.peerBehind(id)
	return ok && leads.Node == node
}

// transferred returns the outcome of a transfer for an operator.
func transferred(err error, node session.Node) error {
	switch {
	case errors.Is(err, errAlone):
		return refusal(node, session.MemberQuorum, "no other node votes")
	case errors.Is(err, errNotTakenOver):
		return refusal(node, session.MemberSilent, "it did not take over in time")
	}
	return err
}
