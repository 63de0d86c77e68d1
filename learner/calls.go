package learner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"holdfast/session"
)

// maxPending is the number of requests that may wait for a leader's reply. Further requests are refused with a
// LimitError.
const maxPending = 64 << 10

// onReply receives the outcome of a request to the leader, once. An error other than [session.ErrOutcomeUnknown] means
// that the request was not sent, or that the leader refused it. onReply is called without a lock, possibly before the
// call that made the request returns, and must return soon.
type onReply func(session.Reply, error)

// calls are the requests to a leader on one stream. Safe for concurrent use.
type calls struct {
	// wake has space for one signal: there are requests to send. done is closed when the stream has ended.
	wake, done chan struct{}

	mu sync.Mutex
	// over is set when the stream has ended. guarded by mu
	over bool
	// seq is the newest request's number. guarded by mu
	seq uint64
	// waiting are the requests to send, ordered by number. guarded by mu
	waiting []session.Request
	// pending are the requests without a reply. guarded by mu
	pending map[uint64]onReply
}

func newCalls() *calls {
	return &calls{wake: make(chan struct{}, 1), done: make(chan struct{}), pending: make(map[uint64]onReply)}
}

// submit asks the leader, and passes the outcome to done.
func (c *calls) submit(request session.Request, done onReply) {
	if _, err := c.begin(request, done); err != nil {
		done(session.Reply{}, err)
	}
}

// do asks the leader and returns the reply. The errors are those of [onReply], and ctx's error if the request was not
// sent. If ctx ends before the reply arrives, late gets the reply, unless late is nil.
func (c *calls) do(ctx context.Context, request session.Request, late onReply) (session.Reply, error) {
	type outcome struct {
		reply session.Reply
		err   error
	}
	outcomes := make(chan outcome, 1)
	seq, err := c.begin(request, func(reply session.Reply, err error) { outcomes <- outcome{reply, err} })
	if err != nil {
		return session.Reply{}, err
	}
	select {
	case o := <-outcomes:
		return o.reply, o.err
	case <-ctx.Done():
	}
	switch waits, sent := c.forget(seq, late); {
	case !waits: // the outcome is in the channel, or on its way
		o := <-outcomes
		return o.reply, o.err
	case !sent:
		return session.Reply{}, ctx.Err()
	default:
		return session.Reply{}, fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err())
	}
}

// begin queues a request, and returns its number. If begin fails, done is never called.
func (c *calls) begin(request session.Request, done onReply) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return 0, session.ErrNoLeader
	}
	if len(c.pending) >= maxPending {
		return 0, &session.LimitError{
			Name: "requests_to_leader", Limit: fmt.Sprintf("%d in flight", maxPending),
			RetryAfter: session.BusyRetryAfter,
		}
	}
	c.seq++
	request.Seq = c.seq
	c.waiting = append(c.waiting, request)
	c.pending[request.Seq] = done
	notify(c.wake)
	return request.Seq, nil
}

// nextBatch removes and returns the requests to send in one message. Once a request is sent, only a reply shows its
// outcome.
func (c *calls) nextBatch() []session.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), session.MaxPeerBatch)
	batch := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil // the returned part belongs to its message
	} else {
		notify(c.wake)
	}
	return batch
}

// replies passes replies to the waiting requests, in order.
func (c *calls) replies(all []session.Reply) {
	waiting := make([]onReply, len(all))
	c.mu.Lock()
	for i := range all {
		waiting[i] = c.pending[all[i].Seq]
		delete(c.pending, all[i].Seq)
	}
	c.mu.Unlock()
	for i, done := range waiting {
		if done != nil {
			done(all[i], all[i].Err)
		}
	}
}

// forget drops a request without a waiter; if the request was already sent, late gets its outcome. It
// reports whether the request had no outcome yet, and whether it was sent.
func (c *calls) forget(seq uint64, late onReply) (waits, sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waits = c.pending[seq]; !waits {
		return false, false
	}
	delete(c.pending, seq)
	i, unsent := slices.BinarySearchFunc(c.waiting, seq, bySeq)
	if unsent {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else if late != nil {
		c.pending[seq] = late
	}
	return true, !unsent
}

func bySeq(r session.Request, seq uint64) int {
	switch {
	case r.Seq < seq:
		return -1
	case r.Seq > seq:
		return 1
	default:
		return 0
	}
}

// finish ends every waiting request, ordered by number, because the stream has ended.
func (c *calls) finish() {
	c.mu.Lock()
	c.over = true
	unsent := c.seq + 1
	if len(c.waiting) > 0 {
		unsent = c.waiting[0].Seq
	}
	pending := c.pending
	c.waiting, c.pending = nil, nil
	close(c.done)
	c.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(pending)) {
		err := session.ErrNoLeader
		if seq < unsent {
			err = fmt.Errorf("%w: the stream to the leader ended", session.ErrOutcomeUnknown)
		}
		pending[seq](session.Reply{}, err)
	}
}
