package leader

import (
	"sync/atomic"
	"time"

	"holdfast/session"
)

// maxHold is the largest number of sessions that fill files before it releases a shard's lock for others.
const maxHold = 1024

// registry has every session that the tracker knows, in shards. It notes a session's timeout before it files the
// session, so that rounds are frequent enough by then (R1 rounds). Safe for concurrent use. Each shard has its own
// mutex. No goroutine holds two of these mutexes at once, nor one of them together with the mutex of [heartbeats].
type registry struct {
	heartbeats *heartbeats
	shards     [shardCount]shard
	// longest is the longest timeout of any session that the tracker has known.
	longest atomic.Int64
}

// newRegistry returns a registry that lacks sessions until fill has ended. width is the width of the buckets of its
// queues.
func newRegistry(width time.Duration, h *heartbeats) *registry {
	r := &registry{heartbeats: h}
	for i := range r.shards {
		q, err := session.NewExpiryQueue[held](width)
		if err != nil {
			panic(err) // setDefaults has raised the width to the smallest one
		}
		r.shards[i].queue, r.shards[i].ended = q, make(map[session.ID]struct{})
	}
	return r
}

func (r *registry) shard(id session.ID) *shard { return &r.shards[shardOf(id)] }

// note notes the timeout of a session before it is filed. It locks only if rounds become more frequent.
func (r *registry) note(timeout time.Duration) {
	for {
		longest := r.longest.Load()
		if int64(timeout) <= longest || r.longest.CompareAndSwap(longest, int64(timeout)) {
			break
		}
	}
	if !r.heartbeats.pace.suits(timeout) {
		r.heartbeats.quicken(timeout)
	}
}

// longestTimeout returns the longest noted timeout.
func (r *registry) longestTimeout() time.Duration { return time.Duration(r.longest.Load()) }

// apply applies an entry's change at now.
func (r *registry) apply(c *session.Change, now time.Duration) {
	if c.Kind != session.Ended {
		r.note(c.Session.Timeout)
	}
	s := r.shard(c.Session.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Kind == session.Ended {
		s.remove(c.Session.ID)
	} else {
		s.applied(&c.Session, now)
	}
}

// fill files the sessions of the frozen copy until goesOn returns false. A request for a session meanwhile files this
// session before its turn. fill calls filed with the size of each batch, and returns whether every session is filed.
func (r *registry) fill(frozen Sessions, goesOn func() bool, filed func(n int)) bool {
	batch := make([]session.Session, 0, maxHold)
	var in *shard
	flush := func() {
		if len(batch) == 0 {
			return
		}
		in.mu.Lock()
		for i := range batch {
			in.adopt(batch[i].ID, hold(&batch[i]))
		}
		in.mu.Unlock()
		filed(len(batch))
		batch = batch[:0]
	}
	frozen.Ascend(0, func(one session.Session) bool {
		if s := r.shard(one.ID); s != in || len(batch) == maxHold {
			flush()
			in = s
		}
		r.note(one.Timeout)
		batch = append(batch, one)
		return goesOn()
	})
	flush()
	if !goesOn() {
		return false
	}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.ended = nil
		s.mu.Unlock()
	}
	return true
}

// closing reports whether a session is marked as closing.
func (r *registry) closing(id session.ID) bool {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.queue.Find(id)
	return it != nil && it.Marked()
}

// mark marks a session as closing if the token's attachment is the session's. one is the session in the state.
func (r *registry) mark(token *session.Token, one *session.Session) (session.Closing, error) {
	r.note(one.Timeout)
	now := r.heartbeats.now()
	s := r.shard(token.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.adopt(token.ID, hold(one))
	switch {
	case it == nil:
		return session.Closing{}, &session.ExpiredError{ID: token.ID}
	case token.Attachment < it.Value.attachment:
		return session.Closing{}, session.ErrMoved
	case token.Attachment > it.Value.attachment:
		return session.Closing{}, session.ErrLagging
	case it.Marked():
		return session.Closing{}, session.ErrClosing
	}
	s.queue.Mark(it)
	return closing(it, now), nil
}

// hasten makes the expirer check a session again at now, regardless of its due time in the queue.
func (r *registry) hasten(id session.ID, now time.Duration) {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.queue.Find(id); it != nil && !it.Marked() {
		s.queue.Mark(it)
		s.queue.Return(it, now)
	}
}

// unmark removes a closing mark, and keeps the deadline, which touches may have moved meanwhile (E4 closing mark). The
// session comes due again after the next interval at the earliest, so that a lasting refusal causes no storm of
// proposals. A mark under another attachment belongs to another close, and stays.
func (r *registry) unmark(c session.Closing) {
	now := r.heartbeats.now()
	s := r.shard(c.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.queue.Find(c.ID); it != nil && it.Value.attachment == c.Attachment {
		s.queue.Return(it, max(it.Deadline(), now))
	}
}

// describe sets the counts of sessions.
func (r *registry) describe(to *Stats) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		to.Sessions += s.queue.Len()
		to.Due += s.queue.Due()
		to.Closing += s.queue.Marked()
		s.mu.Unlock()
	}
}
