package node

import (
	"slices"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/node/health"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// view gives the roles the applied state, and Raft's term and members. Safe for concurrent use.
type view struct {
	*fsm.State
	raft    *raft.Raft
	freezes *health.Freezes
	// disks returns an error while what adds to the log is refused for want of room on disks (O5 full disks).
	disks func() error
	// turnover counts what became of sessions.
	turnover *turnover
}

// CheckCapacity returns a [session.LimitError] if there is no room for what a command would add, on disks (O5) or in
// the state (O4 state limits).
func (v *view) CheckCapacity(c session.Command) error {
	if err := v.disks(); err != nil {
		return err
	}
	return v.State.CheckCapacity(c)
}

// Term returns the newest term that this node has seen.
func (v *view) Term() uint64 { return v.raft.CurrentTerm() }

// CommitIndex returns the index that a linearizable read waits for (R4 leadership needs a good round). A term's tracker
// starts only after a command of the term (R5 start of a tracker). So on a leader this is the index of a command or a
// configuration, which the state reaches by itself, and never of a no-op, which no state machine sees. The leader's
// applied index would not do, because a learner may already show more.
func (v *view) CommitIndex() uint64 { return v.raft.CommitIndex() }

// LastIndex returns the index of the newest entry in this node's log.
func (v *view) LastIndex() uint64 { return v.raft.LastIndex() }

// Ascend goes through a copy of the state, frozen at the call.
func (v *view) Ascend(after session.ID, yield func(session.Session) bool) {
	v.Frozen().Ascend(after, yield)
}

// Members returns the members of the newest configuration, committed or not (R3 good rounds). It returns none when the
// configuration is unknown.
func (v *view) Members() []session.Member {
	future := v.raft.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	servers := future.Configuration().Servers
	members := make([]session.Member, 0, len(servers))
	for _, s := range servers {
		n, d, err := raftnet.ParseServerID(s.ID)
		if err != nil {
			return nil // not a configuration of Holdfast's; leaving a voter out would shrink the quorum
		}
		members = append(members, session.Member{Node: n, Directory: uint64(d), Voter: s.Suffrage == raft.Voter})
	}
	return members
}

// has reports whether a node is a member.
func (v *view) has(node session.Node) bool {
	return slices.ContainsFunc(v.Members(), func(m session.Member) bool { return m.Node == node })
}
