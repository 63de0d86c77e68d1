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
	// maxReplies bounds the replies that wait to be sent, by their weight; a learner that lets more wait loses its
	// stream. An honest learner has at most 64 Ki requests out (learner/calls.go), of which each may be refused at once.
	// The sessions that they move have places, which come back when the reply is sent.
	maxReplies = 64<<10 + maxMoving
	// maxSent bounds the weight of what is sent in one message, because a heartbeat that comes due meanwhile waits.
	maxSent = 4 * session.MaxPeerBatch
	// maxNotTaken is the number of touches not taken that no heartbeat has named yet; more cost the learner its stream,
	// and the next stream starts complete (T3).
	maxNotTaken = 1 << 16
)

// stream is one member's stream: its queues and its end. Safe for concurrent use.
type stream struct {
	hello session.Hello
	// beats wakes the writer when a heartbeat may be due.
	beats signal
	// replied wakes the writer when replies wait.
	replied signal
	// arrivals counts the requests under way that make sessions, others all other requests under way. A request is under
	// way until its reply is sent.
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
	// replies wait to be sent, weight is that of all. Each gives a place back then. Guarded by mu.
	replies []session.Reply
	places  []place
	weight  int
}

// place is what a request under way takes of a count of its stream. The zero value is that of a request that was
// refused a place.
type place struct {
	of *atomic.Int32
	n  int32
}

func (p place) giveBack() {
	if p.of != nil {
		p.of.Add(-p.n)
	}
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

// reply queues a reply to the request that has p. It ends the stream if the learner reads too slowly.
func (s *stream) reply(r session.Reply, p place) {
	s.mu.Lock()
	full := s.weight+weightOf(&r) > maxReplies
	if !full {
		s.replies, s.places = append(s.replies, r), append(s.places, p)
		s.weight += weightOf(&r)
	}
	s.mu.Unlock()
	if full {
		s.stop(fmt.Errorf("send reply: replies about more than %d sessions wait: %w", maxReplies, ErrSlow))
		return
	}
	s.replied.set()
}

// weightOf returns how much a reply counts while it waits: one for each session that it is about.
func weightOf(r *session.Reply) int { return max(1, len(r.Moved)+len(r.Remaining)) }

// waiting takes replies to send in one message, in their order, and gives their places back.
func (s *stream) waiting() []session.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, weight := 0, 0
	for n < min(len(s.replies), session.MaxPeerBatch) && (n == 0 || weight+weightOf(&s.replies[n]) <= maxSent) {
		weight += weightOf(&s.replies[n])
		s.places[n].giveBack()
		n++
	}
	s.weight -= weight
	some := s.replies[:n:n]
	s.replies, s.places = s.replies[n:], s.places[n:]
	if len(s.replies) == 0 {
		s.replies, s.places = nil, nil // what was taken belongs to its message
	}
	return some
}

// refuse notes the touches of the answer to a round that were not taken (S1).
func (s *stream) refuse(round uint64, ids []session.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused)+len(ids) > maxNotTaken {
		return fmt.Errorf("take touches: more than %d are not taken and not named: %w", maxNotTaken, ErrSlow)
	}
	for _, id := range ids {
		s.refused = append(s.refused, refusal{round, id})
	}
	return nil
}

// named returns the touches not taken of the answers up to a round, each only once (S1).
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
