package leader

import (
	"sync"
	"time"

	"holdfast/session"
)

// held is what the registry keeps of a session besides its deadline.
type held struct {
	attachment uint64
	timeoutMS  uint32
	owner      session.Node
}

func hold(s *session.Session) held {
	return held{attachment: s.Attachment, timeoutMS: uint32(s.Timeout.Milliseconds()), owner: s.Owner}
}

func (v *held) timeout() time.Duration { return time.Duration(v.timeoutMS) * time.Millisecond }

// extension is the time from a touch to the deadline that it sets: the timeout, and the most that two clocks can differ
// in that time (T5 a touch moves the deadline).
func (v *held) extension() time.Duration { return extension(v.timeout()) }

func extension(timeout time.Duration) time.Duration { return timeout + timeout/200 }

type (
	queue = session.ExpiryQueue[held]
	item  = session.Item[held]
)

// shardBits makes 32 shards.
const (
	shardBits  = 5
	shardCount = 1 << shardBits
	// shardShift keeps the sessions that a node opens within about 16 s in one shard, so that a batch in the order of
	// ids rarely changes shards.
	shardShift = 30
)

// shardOf spreads nodes, so that batches of two owners rarely need the same shard at once.
func shardOf(id session.ID) int {
	return int((uint64(id)>>shardShift + uint64(id.Node())*5) % shardCount)
}

// shard is a part of the registry's sessions.
type shard struct {
	mu    sync.Mutex
	queue *queue // guarded by mu
	// ended are the sessions that have ended since the term began, so that fill does not file them again; nil after
	// fill. Guarded by mu.
	ended map[session.ID]struct{}
}

// filling reports whether the queue may lack sessions that exist. Called with mu held.
func (s *shard) filling() bool { return s.ended != nil }

// adopt returns the session's item; nil if the session has ended. If the session is neither filed nor ended, adopt
// files it, due a timeout after the term's start (E1 full timeout after a change of leader). Called with mu held.
func (s *shard) adopt(id session.ID, v held) *item {
	if it := s.queue.Find(id); it != nil {
		return it
	}
	if _, ok := s.ended[id]; ok || !s.filling() {
		return nil
	}
	it, err := s.queue.Add(id, 0, v.timeout(), v)
	if err != nil {
		return nil // the timeout is not positive: the state machine opens no such session (K-04)
	}
	return it
}

// applied files or changes a session after an entry. The deadline is the deadline of a touch at now (S2 opens and moves
// are touches). A closing session that was moved loses its mark: the close names the former attachment, so the state
// machine ignores the close (E4 closing mark). Called with mu held.
func (s *shard) applied(one *session.Session, now time.Duration) {
	v := hold(one)
	it := s.queue.Find(one.ID)
	if it == nil {
		var err error
		if it, err = s.queue.Add(one.ID, now, v.timeout(), v); err != nil {
			return
		}
	}
	if it.Marked() && it.Value.attachment != v.attachment {
		s.queue.Return(it, now+v.timeout())
	}
	it.Value = v
	it.Touch(now + v.extension())
}

// closing returns a session's part of a close command, as of now.
func closing(it *item, now time.Duration) session.Closing {
	c := session.Closing{ID: it.ID(), Attachment: it.Value.attachment, LastTouchAge: -time.Millisecond}
	if it.Deadline() != 0 {
		c.LastTouchAge = now - (it.Deadline() - it.Value.extension())
	}
	return c
}

// remove removes an ended session. Called with mu held.
func (s *shard) remove(id session.ID) {
	s.queue.Remove(id)
	if s.filling() {
		s.ended[id] = struct{}{}
	}
}
