package leader

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// maxFlights is the number of entries of expired sessions that are proposed at a time.
const maxFlights = 4

// expirer finds the sessions that are due, waits for a good round and their owners' word, and ends them (E1-E4). It
// belongs to the goroutine of Run.
type expirer struct {
	t *Tracker
	// wants is the latest due time of a session on a due list: a round that begins at or after it is needed (E2).
	wants time.Duration
	// next is when the first bucket comes due, if waits.
	next  time.Duration
	waits bool
	// owners are those of the sessions that were left on the due lists, and seen is what was known of them then.
	owners [len(ownerStates{})]bool
	seen   *ownerStates
	// more says that sessions may expire that no entry had room for.
	more bool

	flights sync.WaitGroup
	flying  atomic.Int32
}

// poll sifts what has come due, and proposes to end what may expire now.
func (x *expirer) poll(ctx context.Context) {
	x.t.mu.Lock()
	now := x.t.clock.read(x.t.mono())
	words := x.t.rounds.owners(now)
	x.t.mu.Unlock()
	if x.sift(now, words) == 0 && !x.more && !x.turned(words) {
		return
	}
	x.seen = words
	for {
		limit := 0
		if x.flying.Load() < maxFlights {
			limit = session.MaxCloseBatch
		}
		batch := x.take(now, words, limit)
		if len(batch) == 0 {
			return
		}
		if x.t.cfg.Expires != nil {
			x.t.cfg.Expires(batch)
		}
		x.flying.Add(1)
		x.flights.Go(func() {
			x.t.expire(ctx, batch)
			x.flying.Add(-1)
			x.t.wake()
		})
	}
}

// sift moves what has come due to the due lists, and returns how much that was.
func (x *expirer) sift(now time.Duration, words *ownerStates) int {
	due := 0
	x.waits = false
	for i := range x.t.shards {
		s := &x.t.shards[i]
		s.mu.Lock()
		found := s.queue.Sift(now, words.due)
		next, ok := s.queue.Next()
		s.mu.Unlock()
		due += found
		if ok && (!x.waits || next < x.next) {
			x.next, x.waits = next, true
		}
	}
	return due
}

// turned reports whether anything has changed that the sessions on the due lists wait for.
func (x *expirer) turned(words *ownerStates) bool {
	for owner, waiting := range x.owners {
		if waiting && x.seen[owner] != words[owner] {
			return true
		}
	}
	return false
}

// take pops and marks at most limit sessions that may expire (E3).
func (x *expirer) take(now time.Duration, words *ownerStates, limit int) []session.Closing {
	var batch []session.Closing
	clear(x.owners[:])
	x.wants, x.more = never, false
	judge := func(it *item) (time.Duration, session.Verdict) {
		due := words.due(it)
		switch {
		case due > now:
			return due, session.Keep
		case due > words[it.Value.owner].horizon:
			x.owners[it.Value.owner] = true
			x.wants = max(x.wants, due)
			return due, session.Keep
		case len(batch) == limit:
			x.more = true
			return due, session.Stop
		}
		batch = append(batch, closing(it, now))
		return due, session.Pop
	}
	for i := range x.t.shards {
		s := &x.t.shards[i]
		s.mu.Lock()
		s.queue.Take(now, judge)
		if next, ok := s.queue.Next(); ok && (!x.waits || next < x.next) {
			x.next, x.waits = next, true
		}
		s.mu.Unlock()
	}
	return batch
}

// closing names a session to end as it is at now.
func closing(it *item, now time.Duration) session.Closing {
	c := session.Closing{ID: it.ID(), Attachment: it.Value.attachment, LastTouchAge: -time.Millisecond}
	if it.Deadline() != 0 {
		c.LastTouchAge = now - (it.Deadline() - it.Value.extension())
	}
	return c
}

// expire proposes to end the sessions that were taken. A refusal is logged: it is not this goroutine's caller that
// could do more about it, the marks are back, and the sessions come due again.
func (t *Tracker) expire(ctx context.Context, batch []session.Closing) {
	result, err := t.closeSessions(ctx, session.CauseExpired, batch)
	if err != nil {
		t.logger.Warn("expiry not decided", "sessions", len(batch), "term", t.cfg.Term, "error", err)
		return
	}
	for _, ended := range result.Closed {
		if ended {
			t.stats.expired.Add(1)
		}
	}
}

// closeSessions proposes to end sessions that are marked as closing, and takes marks back as E4 says: of a session that
// the state machine left alone, and of all when the command certainly never takes effect. While the outcome is unknown
// they stay, until the log decides or the term ends.
func (t *Tracker) closeSessions(ctx context.Context, cause session.Cause,
	batch []session.Closing,
) (session.Result, error) {
	t.mu.Lock()
	credited := t.clock.credit(t.mono())
	t.mu.Unlock()
	result, err := t.log.Propose(ctx, session.CloseSessions{
		Term: t.cfg.Term, Cause: cause, Credited: credited, MS: session.MS(t.cfg.Clock()), Sessions: batch,
	})
	if errors.Is(err, session.ErrOutcomeUnknown) {
		t.stats.unknown.Add(uint64(len(batch)))
		return result, err
	}
	if err == nil {
		err = result.Err
	}
	for i, c := range batch {
		if err != nil || i >= len(result.Closed) || !result.Closed[i] {
			t.unmark(c)
		}
	}
	return result, err
}

// unmark takes a mark back; the deadline is what touches made of it meanwhile (E4). The session comes up again after
// the next interval at the earliest, so that a refusal that lasts is not met by a storm of proposals. A mark that was
// set under another attachment is another close's.
func (t *Tracker) unmark(c session.Closing) {
	now := t.now()
	s := t.shard(c.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.queue.Find(c.ID); it != nil && it.Value.attachment == c.Attachment {
		s.queue.Return(it, max(it.Deadline(), now))
	}
	t.stats.returned.Add(1)
}
