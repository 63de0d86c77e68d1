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
	// maxRequests is the largest number of requests of one kind in flight, see arrives; more are refused.
	maxRequests = 4096
	// maxReplies bounds the unsent replies, by their weight; a learner with more loses its stream. An honest learner
	// has at most 64 Ki requests in flight (learner/calls.go), and each may be refused at once. The sessions that they
	// move have slots, which are freed when the reply is sent.
	maxReplies = 64<<10 + maxMoving
	// maxSent bounds the weight of one message, because a heartbeat that comes due during the send waits.
	maxSent = 4 * session.MaxPeerBatch
	// maxRejectedTouches bounds the rejected touches that wait for a heartbeat. Above the bound the leader ends the
	// learner's stream, and the next stream starts complete (T3 ordered streams).
	maxRejectedTouches = 1 << 16
)

// stream is one member's stream: its queues and its end. Safe for concurrent use.
type stream struct {
	hello session.Hello
	// beats wakes the writer when a heartbeat may be due.
	beats signal
	// replied wakes the writer when replies wait.
	replied signal
	// arrivals counts the requests in flight that make sessions, others all other requests in flight. A request is in
	// flight until its reply is sent.
	arrivals, others atomic.Int32
	// moving counts the sessions of resumes of many sessions in flight.
	moving atomic.Int32
	once   sync.Once
	// reason is why the stream ended. It is set before done is closed, and read only afterwards.
	reason error
	// done is closed when the stream ends.
	done chan struct{}

	// sentAt is the time when the newest heartbeat was sent, on the monotonic clock. Guarded by the mutex of
	// [heartbeats].
	sentAt time.Duration

	mu sync.Mutex
	// refused are the rejected touches that wait for a heartbeat, in the order of their answers. Guarded by mu.
	refused []refusal
	// replies are unsent, weight is their weight. Sending a reply frees its slot. Guarded by mu.
	replies []session.Reply
	slots   []slot
	weight  int
}

// slot is a slot of a request in flight in a counter of its stream. The zero value means a request without a slot.
type slot struct {
	of *atomic.Int32
	n  int32
}

func (p slot) release() {
	if p.of != nil {
		p.of.Add(-p.n)
	}
}

// refusal is a rejected touch, and the round of its answer.
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

// reply queues the reply to the request with the slot p. It ends the stream if the learner reads too slowly.
func (s *stream) reply(r session.Reply, p slot) {
	s.mu.Lock()
	full := s.weight+weightOf(&r) > maxReplies
	if !full {
		s.replies, s.slots = append(s.replies, r), append(s.slots, p)
		s.weight += weightOf(&r)
	}
	s.mu.Unlock()
	if full {
		s.stop(fmt.Errorf("send reply: replies about more than %d sessions wait: %w", maxReplies, ErrSlow))
		return
	}
	s.replied.set()
}

// weightOf returns the weight of an unsent reply: 1 for each session in it.
func weightOf(r *session.Reply) int { return max(1, len(r.Moved)+len(r.Remaining)) }

// waiting removes and returns replies for one message, in order, and frees their slots.
func (s *stream) waiting() []session.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, weight := 0, 0
	for n < min(len(s.replies), session.MaxPeerBatch) && (n == 0 || weight+weightOf(&s.replies[n]) <= maxSent) {
		weight += weightOf(&s.replies[n])
		s.slots[n].release()
		n++
	}
	s.weight -= weight
	some := s.replies[:n:n]
	s.replies, s.slots = s.replies[n:], s.slots[n:]
	if len(s.replies) == 0 {
		s.replies, s.slots = nil, nil // the message owns the returned slice
	}
	return some
}

// refuse queues the rejected touches of the answer to a round for a heartbeat (S1 confirmed touches).
func (s *stream) refuse(round uint64, ids []session.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused)+len(ids) > maxRejectedTouches {
		return fmt.Errorf("queue rejected touches: more than %d wait for a heartbeat: %w", maxRejectedTouches, ErrSlow)
	}
	for _, id := range ids {
		s.refused = append(s.refused, refusal{round, id})
	}
	return nil
}

// named removes and returns the rejected touches of the answers up to a round (S1).
func (s *stream) named(round uint64) []session.ID {
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
