package leader

import (
	"time"

	"holdfast/session"
)

// vote notes since which entry a member has its vote. It keeps the first moment at which the vote was seen: every later
// entry is behind the configuration that gave it.
func (m *member) vote(last uint64) {
	switch {
	case !m.voter:
		m.votesFrom = 0
	case m.votesFrom == 0:
		m.votesFrom = max(last, 1)
	}
}

// votesFrom returns the entry as of which the node of s votes, [session.NoVote] while it does not (R6).
//
// A configuration that is committed is not enough: a quorum has it, of which the node itself is one. Were the leader of
// a cluster of three to fail then, the node and the third would be left, and the third would refuse the node its vote
// as long as it does not know that it is a voter, while its own log is too short to win. So every other voter must have
// applied the entry. One that is lost is not waited for: while it is down no other node may be taken away. Nor is one
// of a release that does not tell what it has applied: a cluster that is upgraded node by node would have no node ready
// before the last.
func (r *rounds) votesFrom(s *stream, now time.Duration) uint64 {
	m := r.current(s)
	if m == nil || !m.voter {
		return session.NoVote
	}
	for _, other := range r.members {
		if other != m && other.present && other.voter && other.tells() && other.told.index < m.votesFrom &&
			!r.lost(other, now) {
			return session.NoVote
		}
	}
	return m.votesFrom
}

// tells reports whether a member tells what it has applied, or may yet say hello and tell: releases without a
// [session.LogVersion] do not.
func (m *member) tells() bool { return m.hello.Node == 0 || m.hello.LogVersion > 0 }
