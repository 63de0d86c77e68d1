package leader

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/tree"
)

// maxFlights bounds the commands of expired sessions in flight, and maxFlying their sessions: a full entry on its way,
// and another full one next. Commands need a larger bound than sessions: while a slow disk writes one entry, sessions
// come due again and again, a few at a time. With a smaller bound the next entry would leave without the last of them,
// and they would end an entry later (I2 never late).
const (
	maxFlights = 64
	maxFlying  = 8 * session.MaxCloseBatch
)

// expirer finds due sessions, waits for a good round that their owners have answered, and ends them (E1-E4). It belongs
// to the goroutine of [Tracker.Run].
type expirer struct {
	heartbeats *heartbeats
	registry   *registry
	closer     *closer
	// found, if set, is called with each batch before it is proposed.
	found  func([]session.Closing, []time.Duration)
	term   uint64
	logger hclog.Logger
	// logLimit limits the log lines about batches.
	logLimit session.LogLimiter
	stats    *counters
	// wake wakes the goroutine of Run when a proposal is decided.
	wake signal
	tree *Tree

	// wants has the latest due time on a due list and the first bucket of the queues.
	wants  wants
	owners ownerMarks
	// seen are the states of the owners in owners.waiting at the time when their sessions stayed.
	seen *ownerStates
	// more says that sessions may expire that did not fit into an entry.
	more bool
	// first is the first shard of the next batch.
	first int
	// late has the time since each session of the newest batch was due.
	late []time.Duration

	// flying counts the undecided commands and their sessions.
	flying struct{ commands, sessions atomic.Int32 }
}

// ownerMarks marks owners. waiting: sessions of the owner stayed on the due lists. held: sessions of the lost owner are
// filed at a later time than they come due once the owner is back.
type ownerMarks struct{ waiting, held [len(ownerStates{})]bool }

// poll moves sessions that have come due to the due lists, and proposes to end the sessions that may expire now.
func (x *expirer) poll() {
	now, states := x.heartbeats.owners()
	x.hasten(now, states)
	if x.sift(now, states) == 0 && !x.more && !x.turned(states) {
		return
	}
	x.seen = states
	for {
		limit := 0
		if x.flying.commands.Load() < maxFlights {
			limit = min(maxFlying-int(x.flying.sessions.Load()), session.MaxCloseBatch)
		}
		batch, weight := x.popDue(now, states, limit)
		if len(batch) == 0 {
			return
		}
		if x.found != nil {
			x.found(batch, x.late)
		}
		x.expire(batch, weight)
	}
}

// sift moves sessions that have come due to the due lists, and returns their number.
func (x *expirer) sift(now time.Duration, states *ownerStates) int {
	due := 0
	later := func(it *item) time.Duration {
		at, _ := x.filed(it, now, states)
		return at
	}
	x.wants.filed = false
	for i := range x.registry.shards {
		s := &x.registry.shards[i]
		s.mu.Lock()
		due += s.queue.Sift(now, later)
		if bucket, ok := s.queue.Next(); ok {
			x.wants.until(bucket)
		}
		s.mu.Unlock()
	}
	return due
}

// filed is due for a session that is filed again if it comes due later than now. It records whether the loss of the
// owner is the reason.
func (x *expirer) filed(it *item, now time.Duration, states *ownerStates) (due, earned time.Duration) {
	due, earned = x.due(it, now, states)
	if due > now && states[it.Value.owner].holds(it) {
		x.owners.held[it.Value.owner] = true
	}
	return due, earned
}

// hasten files the sessions of returned owners again. While an owner is lost, its sessions are filed up to a timeout
// after the loss. When the owner is back, they come due as if it had never been lost (E1 full timeout after a change of
// leader).
func (x *expirer) hasten(now time.Duration, states *ownerStates) {
	var back [len(ownerStates{})]bool
	for owner, held := range x.owners.held {
		back[owner] = held && !states[owner].lost
		x.owners.held[owner] = held && states[owner].lost
	}
	if !slices.Contains(back[:], true) {
		return
	}
	for i := range x.registry.shards {
		s := &x.registry.shards[i]
		s.mu.Lock()
		s.queue.Hasten(func(it *item) (time.Duration, bool) {
			if !back[it.Value.owner] {
				return 0, false
			}
			at, _ := x.due(it, now, states)
			return at, true
		})
		s.mu.Unlock()
	}
}

// turned reports whether the state of an owner with sessions on the due lists has changed.
func (x *expirer) turned(states *ownerStates) bool {
	for owner, waiting := range x.owners.waiting {
		if waiting && x.seen[owner] != states[owner] {
			return true
		}
	}
	return false
}

// popDue pops and marks at most limit sessions that may expire (E3 ordered closes), and stops once their weight fills
// an entry (U2 weight). Shards take turns: the next batch begins with the shard that did not fit, or with the shard
// after it if this batch has sessions of that shard.
//
// The batch is in the order of the ids, because the state then finds neighbours together. All its sessions end in one
// entry, so their order does not matter.
func (x *expirer) popDue(now time.Duration, states *ownerStates, limit int) (batch []session.Closing, weight int) {
	clear(x.owners.waiting[:])
	x.wants.round, x.more, x.late = never, false, x.late[:0]
	decide := func(it *item) (time.Duration, session.Verdict) {
		due, earned := x.filed(it, now, states)
		switch {
		case due > now:
			return due, session.Keep
		case due > states[it.Value.owner].horizon:
			x.owners.waiting[it.Value.owner] = true
			x.wants.round = max(x.wants.round, due)
			return due, session.Keep
		case len(batch) == limit:
			x.more = true
			return due, session.Stop
		}
		more := x.closer.weightOf(it.ID())
		if len(batch) > 0 && weight+more > tree.MaxWeight {
			x.more = true
			return due, session.Stop
		}
		weight += more
		one := closing(it, now)
		states[it.Value.owner].story(&one, it, earned, now)
		one.Late = max(now-due, 0)
		batch, x.late = append(batch, one), append(x.late, now-due)
		return due, session.Pop
	}
	first := x.first
	for i := range shardCount {
		s := &x.registry.shards[(first+i)%shardCount]
		s.mu.Lock()
		full, had := x.more, len(batch)
		s.queue.Take(now, decide)
		if x.more && !full && limit > 0 {
			x.first = (first + i) % shardCount
			if len(batch) > had {
				x.first = (x.first + 1) % shardCount
			}
		}
		if bucket, ok := s.queue.Next(); ok {
			x.wants.until(bucket)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(batch, func(a, b session.Closing) int { return cmp.Compare(a.ID, b.ID) })
	return batch, weight
}

// expire proposes to end the sessions of a batch. It does not wait for the outcome, and batches reach the log in the
// order of the calls: so the sessions of a shard end in the order in which they came due (E3). The proposal outlives
// the tracker, because only its outcome decides whether the marks are removed (E4 closing mark). expire only logs a
// refusal: the marks are removed, and the sessions come due again.
func (x *expirer) expire(batch []session.Closing, weight int) {
	x.flying.commands.Add(1)
	x.flying.sessions.Add(int32(len(batch))) //nolint:gosec // at most MaxCloseBatch
	x.closer.submit(ending{cause: session.CauseExpired}, batch, weight, func(result session.Result, err error) {
		if err != nil {
			x.logger.Warn("sessions not expired: they come due again", "sessions", len(batch), "term", x.term, "error", err)
		} else {
			x.stats.expired.Add(ends(result.Closed))
			x.logExpired(batch, result.Closed)
		}
		x.flying.sessions.Add(-int32(len(batch))) //nolint:gosec // at most MaxCloseBatch
		x.flying.commands.Add(-1)
		x.wake.set()
	})
}

// logExpired logs the number of expired sessions of a batch. Each node logs the sessions that it served; only this line
// reports the sessions of a lost node.
func (x *expirer) logExpired(batch []session.Closing, closed []bool) {
	ofLost, first := 0, session.ID(0)
	for i, one := range batch {
		if i < len(closed) && closed[i] {
			first = cmp.Or(first, one.ID)
			if one.Silent > 0 {
				ofLost++
			}
		}
	}
	if first == 0 {
		return
	}
	if leftOut, ok := x.logLimit.Allow(time.Now()); ok {
		x.logger.Info("sessions expired", "sessions", ends(closed), "of_lost_nodes", ofLost, "first", first, "term", x.term,
			"left_out_before", leftOut)
	}
}

// ends returns the number of sessions that a command ended.
func ends(closed []bool) uint64 {
	n := uint64(0)
	for _, ended := range closed {
		if ended {
			n++
		}
	}
	return n
}
