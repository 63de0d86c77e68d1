package learner

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// jeopardyIntervals is how many intervals without a good round put clients in jeopardy (S4).
const jeopardyIntervals = 3

// heartbeats keeps what the heartbeats of leaders have told this node. Safe for concurrent use.
type heartbeats struct {
	// base is the beginning of the node's clock.
	base time.Time
	// newest is the moment at which the node learned of the newest good round, plus 1 ns; 0: it never did. pace is the
	// interval that counts now. Both are atomic because every answer to a client tells the mode that follows from them.
	// newest is written with mu held.
	newest, pace atomic.Int64
	// aside are the members to which no client is sent, as the newest heartbeat told; nil before the first.
	aside atomic.Pointer[session.Aside]
	// noRoom has every node refuse what adds to the log, as the newest heartbeat of the present leader told (O5).
	noRoom atomic.Bool
	// elsewhere is the highest index that another voter has applied, as far as leaders have told.
	elsewhere atomic.Uint64

	mu sync.Mutex
	// attachment is the highest attachment that the present leader has applied; 0 without a leader (M3). guarded by mu
	attachment uint64
	// target is how far this node must have applied to be ready (R6). guarded by mu
	target catchUp
	// term and round name the newest good round, and goodAt is when the node learned of it. guarded by mu
	term, round uint64
	goodAt      time.Time
	// votesFrom is the index from which this node votes, as the leader said last. votes is set once the node has
	// applied that index, and stays set: a leader that has just begun does not know the index yet. guarded by mu
	votesFrom uint64
	votes     bool
	// committed is what leaders have told as committed. guarded by mu
	committed freshness
}

// newHeartbeats starts with the interval of this node's configuration.
func newHeartbeats(own time.Duration, base time.Time) *heartbeats {
	h := &heartbeats{base: base, goodAt: base}
	h.pace.Store(int64(own))
	return h
}

// hear takes in a heartbeat of a leader of term (M3, R6, S4, and G6 of the tree). It reports whether the heartbeat
// tells of a newer good round.
func (h *heartbeats) hear(term uint64, beat *session.Heartbeat) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.attachment = max(h.attachment, beat.Attachment)
	h.votesFrom = beat.VotesFrom
	h.aside.Store(&beat.Aside)
	h.noRoom.Store(beat.NoRoom)
	h.elsewhere.Store(max(h.elsewhere.Load(), beat.AppliedElsewhere))
	h.target.note(reached{h.attachment, beat.Compare}, now, h.interval())
	h.committed.heard(beat.Committed, now.Sub(h.base))
	if beat.Good == 0 || term < h.term || term == h.term && beat.Good <= h.round {
		return false
	}
	h.term, h.round, h.goodAt = term, beat.Good, now
	h.newest.Store(int64(now.Sub(h.base)) + 1)
	return true
}

// forgetLeader drops the facts that hold for one stream only.
func (h *heartbeats) forgetLeader() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attachment, h.target = 0, catchUp{}
	h.noRoom.Store(false)
}

// follow sets the interval that counts to the leader's (R1).
func (h *heartbeats) follow(interval time.Duration) { h.pace.Store(int64(interval)) }

// interval returns the interval of the leader heard last, or this node's own before it has heard one (R1). It takes no
// lock.
func (h *heartbeats) interval() time.Duration { return time.Duration(h.pace.Load()) }

// jeopardyAfter is how long without a good round puts clients in jeopardy (S4).
func (h *heartbeats) jeopardyAfter() time.Duration { return jeopardyIntervals * h.interval() }

// quiet returns how long the node has learned of no good round, counted from the beginning of the clock if it never
// did; ever is false then. It takes no lock.
func (h *heartbeats) quiet(now time.Duration) (quiet time.Duration, ever bool) {
	newest := h.newest.Load()
	return now - time.Duration(max(newest-1, 0)), newest > 0
}

// lastGood returns when the node learned of the newest good round: at the beginning of the clock if it never did.
func (h *heartbeats) lastGood() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.goodAt
}

// vouched returns the highest attachment that the present leader has said it has applied (M3).
func (h *heartbeats) vouched() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attachment
}

// behind returns an error while a node that has applied up to own has not caught up with the leader (R6).
func (h *heartbeats) behind(own reached) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.target.missing(own)
}

// stale reports whether a node that has applied up to an index has not applied what the leader had committed 10 s
// before now (G6 of the tree).
func (h *heartbeats) stale(applied uint64, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.committed.stale(applied, now)
}

// hasVote reports whether this node votes and every other voter knows it, as far as the leader says (R6). applied is
// the newest index that this node has applied.
func (h *heartbeats) hasVote(applied uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.votes = h.votes || h.votesFrom != session.NoVote && applied >= h.votesFrom
	return h.votes
}

// reached is how far a state has come: its highest attachment, and an index. The index is 0 while the leader has told
// none.
type reached struct{ attachment, index uint64 }

// catchUp is how far a node must have applied to have caught up. The target trails the leader by an interval: a node is
// always behind by the commit under way, and heartbeats may follow each other at once.
type catchUp struct {
	// due is what the leader had applied at the stream's first heartbeat, and later at least an interval ago. next is
	// what due becomes an interval after nextAt.
	due, next reached
	nextAt    time.Time
}

// note takes in how far the leader has come at now.
func (c *catchUp) note(leads reached, now time.Time, interval time.Duration) {
	switch {
	case c.nextAt.IsZero():
		c.due, c.next, c.nextAt = leads, leads, now
	case now.Sub(c.nextAt) >= interval:
		c.due, c.next, c.nextAt = c.next, leads, now
	}
}

// missing returns an error while a node that has applied up to own is behind the target.
func (c *catchUp) missing(own reached) error {
	switch {
	case own.attachment < c.due.attachment:
		return fmt.Errorf("catching up: has applied attachment %d of %d", own.attachment, c.due.attachment)
	case own.index < c.due.index:
		return fmt.Errorf("catching up: has applied index %d of %d", own.index, c.due.index)
	}
	return nil
}
