package leader

import (
	"time"

	"holdfast/session"
)

// vote records last, the newest entry of the log, when a member is first seen with a vote. The configuration that gave
// the vote is at or before this entry.
func (m *member) vote(last uint64) {
	switch {
	case !m.voter:
		m.votesFrom = 0
	case m.votesFrom == 0:
		m.votesFrom = max(last, 1)
	}
}

// appliedElsewhere returns the highest index that a voter other than the node of s has reported as applied.
func (r *rounds) appliedElsewhere(s *stream) (index uint64) {
	m := r.current(s)
	for _, other := range r.members {
		if other != m && other.present && other.voter {
			index = max(index, other.report.index)
		}
	}
	return index
}

// votesFrom returns the entry from which the node of s votes; [session.NoVote] while it does not vote (R6 readiness).
// Every other voter must have applied that entry.
//
// A committed configuration is not enough, because the node itself may be part of the quorum that has it. Suppose that
// the leader of three fails then. The third node refuses the new node its vote while it does not know that the new node
// is a voter, and the third node's own log is too short to win.
//
// The rule ignores a lost voter: while it is down, no other node may be stopped.
func (r *rounds) votesFrom(s *stream, now time.Duration) uint64 {
	m := r.current(s)
	if m == nil || !m.voter {
		return session.NoVote
	}
	for _, other := range r.members {
		if other != m && other.present && other.voter && other.report.index < m.votesFrom &&
			!r.lost(other, now) {
			return session.NoVote
		}
	}
	return m.votesFrom
}
