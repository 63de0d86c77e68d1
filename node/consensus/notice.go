package consensus

import (
	"sync/atomic"

	"github.com/hashicorp/raft"

	"holdfast/fsm/proposer"
	"holdfast/node/members"
	"holdfast/transport/raftnet"
)

// notice notifies followers of commits at once (R7 commit notices), and sends them entries before this node has written
// the entries (R8 entries sent ahead). Its methods are called while its parts are still being set.
type notice struct {
	membership *members.Membership
	notices    *raftnet.Notices
	proposer   atomic.Pointer[proposer.Proposer]
}

// newNotice returns the notices over a transport that Raft does not use yet.
func newNotice(transport *raftnet.Transport, m *members.Membership) *notice {
	return &notice{membership: m, notices: raftnet.NewNotices(transport, m.Leads)}
}

// landed is called for each entry that this node has applied. It tells the followers of an entry of the term that this
// node leads, unless the proposer has commands for another entry: that one goes out at once and carries the commit.
func (n *notice) landed(l *raft.Log) {
	if p := n.proposer.Load(); p != nil && n.membership.Leads(l.Term) && !p.Waiting() {
		n.notices.Landed(l.Term, l.Index)
	}
}

// aheadLogs is the log as Raft writes it. A leader's entries go to the followers while the leader writes them (R8).
type aheadLogs struct {
	raft.LogStore
	notice *notice
}

// StoreLogs sends entries ahead if this node leads their term, and writes them.
func (a aheadLogs) StoreLogs(logs []*raft.Log) error {
	a.notice.ahead(logs)
	return a.LogStore.StoreLogs(logs)
}

// ahead sends entries that Raft is about to write.
func (n *notice) ahead(logs []*raft.Log) {
	if running := n.membership.Raft(); running != nil && len(logs) > 0 {
		n.notices.Ahead(logs, running.CommitIndex())
	}
}
