package learner

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// jeopardyIntervals is the number of intervals without a good round that puts clients in jeopardy (S4 jeopardy).
const jeopardyIntervals = 3

// heartbeats keeps what this node knows from the leaders' heartbeats. Safe for concurrent use.
type heartbeats struct {
	// base is the beginning of the node's clock.
	base time.Time
	// newest is the moment at which the node learned of the newest good round, plus 1 ns; 0 before the first. pace is
	// the interval in force. Both are atomic because every answer to a client carries the mode that follows from them.
	// newest is written with mu held.
	newest, pace atomic.Int64
	// excluded are the members to which no client is sent, from the newest heartbeat; nil before the first.
	excluded atomic.Pointer[session.Excluded]
	// disksFull makes every node refuse requests that add to the log. It is from the newest heartbeat of the present
	// leader (O5 full disks).
	disksFull atomic.Bool
	// elsewhere is the highest index that another voter has applied, as far as leaders have reported.
	elsewhere atomic.Uint64

	mu sync.Mutex
	// attachment is the highest attachment that the present leader has applied; 0 without a leader (M3 served in the
	// leader's term). guarded by mu
	attachment uint64
	// target is how far this node must have applied to be ready (R6 readiness). guarded by mu
	target catchUp
	// term and round name the newest good round, and goodAt is when the node learned of it. guarded by mu
	term, round uint64
	goodAt      time.Time
	// votesFrom is the index from which this node votes, from the newest heartbeat. votes is set once the node has
	// applied that index, and stays set: a new leader does not know the index yet. guarded by mu
	votesFrom uint64
	votes     bool
	// committed has the commit indexes that leaders have reported. guarded by mu
	committed freshness
}

// newHeartbeats starts with the interval of this node's configuration.
func newHeartbeats(own time.Duration, base time.Time) *heartbeats {
	h := &heartbeats{base: base, goodAt: base}
	h.pace.Store(int64(own))
	return h
}

// record records a heartbeat of a leader of term (M3, R6, S4, and G6). It reports whether the heartbeat announces a
// newer good round.
func (h *heartbeats) record(term uint64, beat *session.Heartbeat) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.attachment = max(h.attachment, beat.Attachment)
	h.votesFrom = beat.VotesFrom
	h.excluded.Store(&beat.Excluded)
	h.disksFull.Store(beat.DisksFull)
	h.elsewhere.Store(max(h.elsewhere.Load(), beat.AppliedElsewhere))
	h.target.note(reached{h.attachment, beat.Compare}, now, h.interval())
	h.committed.record(beat.Committed, now.Sub(h.base))
	if beat.Good == 0 || term < h.term || term == h.term && beat.Good <= h.round {
		return false
	}
	h.term, h.round, h.goodAt = term, beat.Good, now
	h.newest.Store(int64(now.Sub(h.base)) + 1)
	return true
}

// forgetLeader drops the facts that are valid for one stream only.
func (h *heartbeats) forgetLeader() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attachment, h.target = 0, catchUp{}
	h.disksFull.Store(false)
}

// follow sets the interval in force to the leader's (R1 rounds).
func (h *heartbeats) follow(interval time.Duration) { h.pace.Store(int64(interval)) }

// interval returns the interval of the newest heartbeat's leader, or this node's own before the first heartbeat (R1).
// It takes no lock.
func (h *heartbeats) interval() time.Duration { return time.Duration(h.pace.Load()) }

// jeopardyAfter is the time without a good round that puts clients in jeopardy (S4).
func (h *heartbeats) jeopardyAfter() time.Duration { return jeopardyIntervals * h.interval() }

// quiet returns the time since the node last learned of a good round, or since the beginning of the clock if it never
// did; ever is false then. It takes no lock.
func (h *heartbeats) quiet(now time.Duration) (quiet time.Duration, ever bool) {
	newest := h.newest.Load()
	return now - time.Duration(max(newest-1, 0)), newest > 0
}

// lastGood returns the time at which the node learned of the newest good round, or the beginning of the clock.
func (h *heartbeats) lastGood() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.goodAt
}

// reportedAttachment returns the highest attachment that the present leader has reported as applied (M3).
func (h *heartbeats) reportedAttachment() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attachment
}

// behind returns an error if a node that has applied up to own has not caught up with the leader (R6).
func (h *heartbeats) behind(own reached) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.target.missing(own)
}

// stale reports whether a node that has applied up to an index is behind the leader's commit index of 10 s before now
// (G6 stale nodes refuse).
func (h *heartbeats) stale(applied uint64, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.committed.stale(applied, now)
}

// hasVote reports whether this node votes and, according to the leader, every other voter knows of the vote (R6).
// applied is the newest index that this node has applied.
func (h *heartbeats) hasVote(applied uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.votes = h.votes || h.votesFrom != session.NoVote && applied >= h.votesFrom
	return h.votes
}

// reached is the progress of a state: its highest attachment, and an index. The index is 0 while the leader has
// reported none.
type reached struct{ attachment, index uint64 }

// catchUp is the progress at which a node has caught up. The target trails the leader by an interval: a node is always
// behind by the present commit, and heartbeats may follow each other at once.
type catchUp struct {
	// due is the leader's progress at the stream's first heartbeat, and later its progress at least an interval ago.
	// next replaces due an interval after nextAt.
	due, next reached
	nextAt    time.Time
}

// note records the leader's progress at now.
func (c *catchUp) note(leads reached, now time.Time, interval time.Duration) {
	switch {
	case c.nextAt.IsZero():
		c.due, c.next, c.nextAt = leads, leads, now
	case now.Sub(c.nextAt) >= interval:
		c.due, c.next, c.nextAt = c.next, leads, now
	}
}

// missing returns an error if own is behind the target.
func (c *catchUp) missing(own reached) error {
	switch {
	case own.attachment < c.due.attachment:
		return fmt.Errorf("catching up: has applied attachment %d of %d", own.attachment, c.due.attachment)
	case own.index < c.due.index:
		return fmt.Errorf("catching up: has applied index %d of %d", own.index, c.due.index)
	}
	return nil
}
