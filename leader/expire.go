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

// maxFlights is the number of commands of expired sessions that are proposed at a time, and maxFlying that of their
// sessions: those of the entry on its way, and as many for the next one. Commands are more than sessions need: a slow
// disk takes so long for an entry that sessions come due again and again meanwhile, a few at a time. With fewer, the
// next entry leaves without those that came due last, and they end an entry later (I2).
const (
	maxFlights = 64
	maxFlying  = 8 * session.MaxCloseBatch
)

// expirer finds the sessions that are due, waits for a good round that their owners have answered, and ends them
// (E1-E4). It belongs to the goroutine of [Tracker.Run].
type expirer struct {
	heartbeats *heartbeats
	registry   *registry
	closer     *closer
	// found, if set, is called with each batch before it is proposed.
	found  func([]session.Closing, []time.Duration)
	term   uint64
	logger hclog.Logger
	// lines bounds the lines about batches.
	lines session.Lines
	stats *counters
	// wake wakes the goroutine of Run when a proposal is decided.
	wake signal
	tree *Tree

	// wants are the latest due time on a due list and the first bucket of the queues.
	wants  wants
	owners ownerMarks
	// seen are the states of the owners in owners.waiting when their sessions stayed.
	seen *ownerStates
	// more says that sessions may expire that no entry had room for.
	more bool
	// first is the shard with which the next batch begins.
	first int
	// late says how long ago the sessions of the newest batch were due.
	late []time.Duration

	// flying counts the commands that are not decided yet, and their sessions.
	flying struct{ commands, sessions atomic.Int32 }
}

// ownerMarks marks owners: waiting those of sessions that stayed on the due lists, held those for whose loss sessions
// were filed later than they come due once the owner is back.
type ownerMarks struct{ waiting, held [len(ownerStates{})]bool }

// poll moves what has come due to the due lists, and proposes to end the sessions that may expire now.
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
		batch, weight := x.take(now, states, limit)
		if len(batch) == 0 {
			return
		}
		if x.found != nil {
			x.found(batch, x.late)
		}
		x.expire(batch, weight)
	}
}

// sift moves what has come due to the due lists, and returns the number of sessions moved.
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

// filed is due for a session that is filed again if it comes due later than now. It notes whether it does for the loss
// of its owner.
func (x *expirer) filed(it *item, now time.Duration, states *ownerStates) (due, earned time.Duration) {
	due, earned = x.due(it, now, states)
	if due > now && states[it.Value.owner].holds(it) {
		x.owners.held[it.Value.owner] = true
	}
	return due, earned
}

// hasten files the sessions of owners again that are no longer lost: for their loss, sessions were filed as late as a
// timeout after it, and they come due as if it had not been (E1).
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

// turned reports whether the state has changed of an owner for whose sessions the due lists wait.
func (x *expirer) turned(states *ownerStates) bool {
	for owner, waiting := range x.owners.waiting {
		if waiting && x.seen[owner] != states[owner] {
			return true
		}
	}
	return false
}

// take pops and marks at most limit sessions that may expire (E3), and no more once their weight fills an entry (U2).
// The shards have their turns: the next batch begins with the shard for which this batch had no room, or with the one
// after it if this batch has sessions of that shard.
//
// The batch is in the order of the ids, so that the state finds neighbours together. Its sessions end in one entry, so
// none of them ends before another.
func (x *expirer) take(now time.Duration, states *ownerStates, limit int) (batch []session.Closing, weight int) {
	clear(x.owners.waiting[:])
	x.wants.round, x.more, x.late = never, false, x.late[:0]
	judge := func(it *item) (time.Duration, session.Verdict) {
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
		s.queue.Take(now, judge)
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
// the tracker, because only its outcome says whether the marks are taken back (E4). expire logs a refusal, because no
// caller can do more: the marks are taken back, and the sessions come due again.
func (x *expirer) expire(batch []session.Closing, weight int) {
	x.flying.commands.Add(1)
	x.flying.sessions.Add(int32(len(batch))) //nolint:gosec // at most MaxCloseBatch
	x.closer.submit(ending{cause: session.CauseExpired}, batch, weight, func(result session.Result, err error) {
		if err != nil {
			x.logger.Warn("expiry not decided", "sessions", len(batch), "term", x.term, "error", err)
		} else {
			x.stats.expired.Add(ends(result.Closed))
			x.logExpired(batch, result.Closed)
		}
		x.flying.sessions.Add(-int32(len(batch))) //nolint:gosec // at most MaxCloseBatch
		x.flying.commands.Add(-1)
		x.wake.set()
	})
}

// logExpired says how many sessions of a batch have expired. The nodes that served them say whose they were; for those
// of a lost node nobody else does.
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
	if leftOut, ok := x.lines.Take(time.Now()); ok {
		x.logger.Info("sessions expired", "sessions", ends(closed), "of_lost_nodes", ofLost, "first", first, "term", x.term,
			"left_out_before", leftOut)
	}
}

// ends returns how many sessions of a command ended.
func ends(closed []bool) uint64 {
	n := uint64(0)
	for _, ended := range closed {
		if ended {
			n++
		}
	}
	return n
}
