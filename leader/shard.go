package leader

import (
	"sync"
	"time"

	"holdfast/session"
)

// held is what the tracker keeps of a session besides its deadline.
type held struct {
	attachment uint64
	timeoutMS  uint32
	owner      session.Node
}

func hold(s *session.Session) held {
	return held{attachment: s.Attachment, timeoutMS: uint32(s.Timeout.Milliseconds()), owner: s.Owner}
}

func (v *held) timeout() time.Duration { return time.Duration(v.timeoutMS) * time.Millisecond }

// extension is by how much a touch moves a deadline ahead of itself: the timeout, and what two clocks may differ by in
// it.
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
	// shardShift keeps the sessions that a node opened within about 16 s in one shard, so that a batch sorted by id
	// changes shards seldom.
	shardShift = 30
)

// shardOf spreads nodes, so that batches of two owners seldom want the same shard at once.
func shardOf(id session.ID) int {
	return int((uint64(id)>>shardShift + uint64(id.Node())*5) % shardCount)
}

// shard is a part of the sessions.
type shard struct {
	mu    sync.Mutex
	queue *queue // guarded by mu
	// ended are the sessions that ended since the term began, so that the filler does not bring them back; nil once the
	// queue is filled. Guarded by mu.
	ended map[session.ID]struct{}
}

// filling reports whether sessions may be missing that exist. Called with mu held.
func (s *shard) filling() bool { return s.ended != nil }

// adopt files a session that is neither here nor ended, due a timeout after the term's start (E1). It returns the item,
// nil if the session has ended. Called with mu held.
func (s *shard) adopt(id session.ID, v held) *item {
	if it := s.queue.Find(id); it != nil {
		return it
	}
	if _, ok := s.ended[id]; ok || !s.filling() {
		return nil
	}
	it, err := s.queue.Add(id, 0, v.timeout(), v)
	if err != nil {
		return nil // a timeout that is not positive: the state machine opens no such session (K-04)
	}
	return it
}

// applied makes a session as an entry says it is. Its deadline is that of a touch at now (S2). A closing session that
// was moved is not closing any more: the close names the former attachment, and the state machine leaves it alone (E4).
// Called with mu held.
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

// remove forgets an ended session. Called with mu held.
func (s *shard) remove(id session.ID) {
	s.queue.Remove(id)
	if s.filling() {
		s.ended[id] = struct{}{}
	}
}
