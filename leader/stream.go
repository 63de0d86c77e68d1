package leader

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// Bounds of one stream.
const (
	// maxRequests is the number of requests of one kind under way, see arrives; more are refused.
	maxRequests = 4096
	// maxReplies is the number of replies that wait to be sent; a learner that lets more wait loses its stream.
	// A learner has at most 64 Ki requests out (learner/calls.go), of which each may be refused at once.
	maxReplies = 2 * 64 << 10
	// maxNotTaken is the number of touches not taken that wait for their confirmation; more cost the learner its
	// stream, and the next stream starts complete (T3).
	maxNotTaken = 1 << 16
)

// stream is one member's stream: its queues and its end. Safe for concurrent use.
type stream struct {
	hello session.Hello
	// beats wakes the writer when a heartbeat may be due.
	beats signal
	// replied wakes the writer when replies wait.
	replied signal
	// arrivals counts the requests under way that make sessions, others all other requests under way.
	arrivals, others atomic.Int32
	// moving counts the sessions of requests under way that move many.
	moving atomic.Int32
	once   sync.Once
	// reason is why the stream ended. It is set before done is closed, and read only after that.
	reason error
	// done is closed when the stream ends.
	done chan struct{}

	// sentAt is when the newest heartbeat was sent, on the monotonic clock. Guarded by the mutex of [heartbeats].
	sentAt time.Duration

	mu sync.Mutex
	// refused are the touches not taken that no heartbeat has named yet, in the order of their answers. Guarded by mu.
	refused []refusal
	// replies wait to be sent. Guarded by mu.
	replies []session.Reply
}

// refusal is a touch that was not taken, and the round of its answer.
type refusal struct {
	round uint64
	id    session.ID
}

func newStream(hello session.Hello) *stream {
	return &stream{
		hello:   hello,
		beats:   newSignal(),
		replied: newSignal(),
		done:    make(chan struct{}),
	}
}

// stop ends the stream. The first reason counts.
func (s *stream) stop(reason error) {
	s.once.Do(func() {
		s.reason = reason
		close(s.done)
	})
}

func (s *stream) stopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// reply queues a reply. It ends the stream if the learner reads too slowly.
func (s *stream) reply(r session.Reply) {
	s.mu.Lock()
	full := len(s.replies) >= maxReplies
	if !full {
		s.replies = append(s.replies, r)
	}
	s.mu.Unlock()
	if full {
		s.stop(fmt.Errorf("send reply: %d replies wait: %w", maxReplies, ErrSlow))
		return
	}
	s.replied.set()
}

// waiting takes replies to send in one message, in their order.
func (s *stream) waiting() []session.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.replies), session.MaxPeerBatch)
	some := s.replies[:n:n]
	if s.replies = s.replies[n:]; len(s.replies) == 0 {
		s.replies = nil // what was taken belongs to its message
	}
	return some
}

// refuse notes the touches of the answer to a round that were not taken (S1).
func (s *stream) refuse(round uint64, ids []session.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused)+len(ids) > maxNotTaken {
		return fmt.Errorf("take touches: more than %d are not taken and not confirmed: %w", maxNotTaken, ErrSlow)
	}
	for _, id := range ids {
		s.refused = append(s.refused, refusal{round, id})
	}
	return nil
}

// confirm returns the touches not taken of the answers up to a round, each only once (S1).
func (s *stream) confirm(round uint64) []session.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []session.ID
	for _, r := range s.refused {
		if r.round > round {
			break
		}
		ids = append(ids, r.id)
	}
	s.refused = s.refused[len(ids):]
	if len(s.refused) == 0 {
		s.refused = nil
	}
	return ids
}
