package learner

import (
	"context"
	"fmt"
	"sync"

	"holdfast/session"
)

// maxPending is how many requests may wait for a leader's reply. Further ones are refused with a LimitError.
const maxPending = 64 << 10

// calls are the requests to a leader on one stream. Safe for concurrent use.
type calls struct {
	// out holds the requests to send. done is closed when the stream has ended.
	out  chan session.Request
	done chan struct{}

	mu sync.Mutex
	// over is set when the stream has ended. guarded by mu
	over bool
	// seq is the newest request's. guarded by mu
	seq uint64
	// pending are the requests that have no reply yet. guarded by mu
	pending map[uint64]chan session.Reply
}

func newCalls() *calls {
	return &calls{
		out: make(chan session.Request, 256), done: make(chan struct{}), pending: make(map[uint64]chan session.Reply),
	}
}

// do asks the leader and returns its reply. An error other than ErrOutcomeUnknown says that nothing was asked, or that
// the leader refused.
func (c *calls) do(ctx context.Context, request session.Request) (session.Reply, error) {
	waiting, seq, err := c.begin()
	if err != nil {
		return session.Reply{}, err
	}
	request.Seq = seq
	select {
	case c.out <- request:
	case <-ctx.Done():
		c.forget(seq)
		return session.Reply{}, ctx.Err()
	case <-c.done:
		return session.Reply{}, session.ErrNoLeader
	}
	select {
	case reply := <-waiting:
		return reply, reply.Err
	case <-ctx.Done():
		c.forget(seq)
		return session.Reply{}, fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err())
	case <-c.done:
		return session.Reply{}, fmt.Errorf("%w: the stream to the leader ended", session.ErrOutcomeUnknown)
	}
}

// begin numbers a request, and returns the channel that gets its reply.
func (c *calls) begin() (chan session.Reply, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, 0, session.ErrNoLeader
	}
	if len(c.pending) >= maxPending {
		return nil, 0, &session.LimitError{
			Name: "requests_to_leader", Limit: fmt.Sprintf("%d in flight", maxPending),
			RetryAfter: session.BusyRetryAfter,
		}
	}
	c.seq++
	waiting := make(chan session.Reply, 1)
	c.pending[c.seq] = waiting
	return waiting, c.seq, nil
}

// reply passes a reply to the request that waits for it.
func (c *calls) reply(reply session.Reply) {
	c.mu.Lock()
	waiting := c.pending[reply.Seq]
	delete(c.pending, reply.Seq)
	c.mu.Unlock()
	if waiting != nil {
		waiting <- reply // has room for its one reply
	}
}

// forget drops a request whose reply nobody waits for any more.
func (c *calls) forget(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, seq)
}

// finish ends every request that waits, because the stream has ended.
func (c *calls) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	close(c.done)
}
