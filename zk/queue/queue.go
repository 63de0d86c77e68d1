// Package queue keeps the requests of one ZooKeeper client in their order, from the reader until the reply.
//
// A request is queued, then in flight at the node, then answered. [Queue.Add] and [Queue.Answered] start queued
// requests whose turn has come. Most requests are in flight together, since the node answers them in their order (G3
// order in a session). [Order] names the exceptions.
package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"holdfast/session"
	"holdfast/transport/ratelimit"
	"holdfast/tree"
	"holdfast/zk/jute"
)

const (
	// maxRequests and maxRequestBytes bound the requests of a connection (G8 request bounds).
	maxRequests     = 4096
	maxRequestBytes = 4 << 20
	// maxWrites and maxWriteBytes bound the writes in flight; the state keeps the results of at most
	// [tree.MaxUnanswered].
	maxWrites     = tree.MaxUnanswered / 2
	maxWriteBytes = tree.MaxUnansweredBytes / 2
	// waitPart is the part of the session's timeout for which a reader waits for capacity (G8 request bounds).
	waitPart = 6
	// requestOverhead is the approximate memory of a queued request, besides its bytes.
	requestOverhead = 256
)

// ErrFull is the error of a queue that stayed full for too long: its client reads no answers, or the node accepts no
// requests.
var ErrFull = errors.New("the client reads no answers, or the node accepts no requests")

// errInTurn is the node's answer to a request that the front end answers in its turn.
var errInTurn = errors.New("answered by the front end")

// Tree is what a queue needs of the session's [session.TreeConnection].
type Tree interface {
	Write(w session.TreeWrite) error
	Refuse(key uint64, id session.ID, number uint64, why error) error
	Full() <-chan struct{}
	Hold(bytes int) (crowded bool)
}

// Queue is the requests of a connection. Safe for concurrent use. Its lock is held while requests are handed to the
// node, which returns at once: the order of these calls is the order of the requests. Nothing is sent to a client
// under the lock.
type Queue struct {
	limiter *ratelimit.Limiter
	end     func(error)
	// tree and token are set by Begin, before the first request.
	tree  Tree
	token session.Token

	mu sync.Mutex
	// queued have not started; inFlight are at the node, by key. guarded by mu
	queued   []*Request
	inFlight map[uint64]*Request
	// bytes counts those of all requests, writes and writeBytes count the writes in flight. guarded by mu
	bytes, writes, writeBytes int
	// key is the newest key, number the newest write's number, acked the number up to which writes are answered.
	// guarded by mu
	key, number, acked uint64
	// barrier is the request behind which nothing starts. guarded by mu
	barrier *Request
	// paged counts the requests in flight that may become the barrier. guarded by mu
	paged int
	// retrying is set while a timer will start requests again: the node's budget of writes is used up. guarded by mu
	retrying bool
	// capacity is closed when requests were answered; nil without a waiter. guarded by mu
	capacity chan struct{}
	stopped  bool // guarded by mu
}

// New returns a queue that starts no requests before [Queue.Begin]. end ends the connection.
func New(limiter *ratelimit.Limiter, end func(error)) *Queue {
	return &Queue{limiter: limiter, end: end}
}

// Begin names the session. applied is the number of the session's newest write that was applied.
func (q *Queue) Begin(served Tree, token session.Token, applied uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tree, q.token = served, token
	q.inFlight = map[uint64]*Request{}
	q.number, q.acked = applied, applied
}

// Stop drops the queued requests, and refuses further requests.
func (q *Queue) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.queued {
		q.charge(r, 0)
	}
	q.stopped, q.queued = true, nil
	q.signalCapacity()
}

// Add puts a request at the end of the queue. An error ends the connection.
func (q *Queue) Add(r *Request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return nil
	}
	q.queued = append(q.queued, r)
	q.bytes += r.Bytes
	err := q.start()
	if len(q.queued) > 0 {
		q.chargeQueued(r)
	}
	return err
}

// AnswerInTurn makes r a request that the front end answers in its turn, without the node. Its record is dropped: the
// node would not count the record's bytes (G8).
func (q *Queue) AnswerInTurn(r *Request, reply func(zxid int64) *jute.Encoder) {
	r.Body, r.Write = nil, nil
	r.Send = func(key uint64) error { return q.tree.Refuse(key, q.token.ID, 0, errInTurn) }
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *Step, error) {
		if !errors.Is(a.Err, errInTurn) {
			return nil, nil, a.Err
		}
		return reply(int64(a.Stamp)), nil, nil //nolint:gosec // stamps are positive
	}
}

// Answered processes the node's answer to a step. It returns the reply, nil if there is none yet. An error ends the
// connection.
func (q *Queue) Answered(a *session.TreeAnswer) (*jute.Encoder, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.inFlight[a.Key]
	if r == nil {
		return nil, nil //nolint:nilnil // the request was restarted under another key
	}
	delete(q.inFlight, a.Key)
	if r.Write != nil {
		q.writeAnswered(r, a)
	}
	reply, next, err := r.Reply(a)
	if err != nil {
		return nil, err
	}
	if next != nil {
		q.charge(r, next.Gathered)
		err := q.send(r, next.Send)
		q.raiseBarrier(r)
		return nil, err
	}
	if r.Order == Paged {
		q.paged--
	}
	q.bytes -= r.Bytes
	q.charge(r, 0)
	if q.barrier == r {
		q.barrier = nil
	}
	q.signalCapacity()
	return reply, q.start()
}

// writeAnswered counts the answer to a write. A local session's write that a read-only node refuses leaves its number
// to the next write (Z9 read-only): the cluster received no request for it, and nothing else is in flight.
// Called with mu held.
func (q *Queue) writeAnswered(r *Request, a *session.TreeAnswer) {
	q.writes--
	q.writeBytes -= r.Write.Size()
	switch {
	case a.Err == nil:
		q.acked++
	case errors.Is(a.Err, session.ErrReadOnly) && q.token.Local:
		q.number--
	}
}

// RestoringWatches reports whether the client's watches are being restored: the changes that the node delivers now
// were missed by the client, and have no zxid (Z7 watches).
func (q *Queue) RestoringWatches() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.barrier != nil && q.barrier.RestoresWatches
}

// InFlight counts the requests at the node.
func (q *Queue) InFlight() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.inFlight)
}

// Outstanding counts the requests that are not answered.
func (q *Queue) Outstanding() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.inFlight) + len(q.queued)
}

// WaitForCapacity waits until one more request may come, at most for a part of the session's timeout: a client whose
// requests are not read cannot touch its session (G8).
func (q *Queue) WaitForCapacity(ctx context.Context, timeout time.Duration) error {
	var late *time.Timer
	for {
		freed := q.full()
		if freed == nil {
			freed = q.tree.Full()
		}
		if freed == nil {
			return nil
		}
		if late == nil {
			late = time.NewTimer(timeout / waitPart)
			defer late.Stop()
		}
		select {
		case <-freed:
		case <-late.C:
			return ErrFull
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// full returns nil while one more request may come, otherwise a channel that is closed when there may be capacity.
func (q *Queue) full() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.hasCapacity() {
		return nil
	}
	if q.capacity == nil {
		q.capacity = make(chan struct{})
	}
	return q.capacity
}

// hasCapacity reports whether one more request may come. When half of the node's request memory is used, a connection
// with a queued request has no capacity (G8). Each answer to a request in flight checks again. Called with mu held.
func (q *Queue) hasCapacity() bool {
	if len(q.queued)+len(q.inFlight) >= maxRequests || q.bytes >= maxRequestBytes {
		return false
	}
	return len(q.queued) == 0 || !q.tree.Hold(0)
}

// signalCapacity wakes the reader. Called with mu held.
func (q *Queue) signalCapacity() {
	if q.capacity != nil {
		close(q.capacity)
		q.capacity = nil
	}
}

// charge sets how many bytes of a request the node counts (G8). Called with mu held.
func (q *Queue) charge(r *Request, bytes int) {
	if r.charged != bytes {
		q.tree.Hold(bytes - r.charged)
		r.charged = bytes
	}
}

// chargeQueued counts a queued request. Called with mu held.
func (q *Queue) chargeQueued(r *Request) { q.charge(r, r.Bytes+requestOverhead) }

// start sends requests to the node while their turn has come. Called with mu held.
//
// While the node has no capacity for writes, start answers a write with -7 in its turn: kazoo and Curator retry by
// their own rules. Without the answer, the client would wait for its write and for all later requests without an end.
// Ending the connection would be no better: the client would reconnect at once, which costs an entry of the log each
// time.
//
// Requests of a local session run one by one (Z9 read-only): the node keeps no order of a local session's reads (G3
// order in a session). That holds until the connection ends, also after an upgrade has made the session global.
// Otherwise replies could overtake each other, and the Java client then ends the connection.
func (q *Queue) start() error {
	for len(q.queued) > 0 && q.barrier == nil && !q.retrying {
		r := q.queued[0]
		if r.Write != nil && q.limiter.Held(ratelimit.Writes) != nil {
			q.AnswerInTurn(r, func(zxid int64) *jute.Encoder { return jute.Reply(r.Xid, zxid, jute.OperationTimeout) })
		}
		single := r.Order == Exclusive || q.token.Local
		if single && len(q.inFlight) > 0 || !r.Repeatable && q.paged > 0 || r.Write != nil && !q.mayWrite(r) {
			return nil
		}
		q.queued[0] = nil
		q.queued = q.queued[1:]
		q.charge(r, 0)
		switch r.Order {
		case InOrder:
		case Paged:
			q.paged++
		case Barrier, Exclusive:
			q.barrier = r
		}
		if err := q.send(r, r.Send); err != nil {
			return err
		}
	}
	return nil
}

// mayWrite reports whether one more write may go to the node. Called with mu held.
func (q *Queue) mayWrite(r *Request) bool {
	if q.writes > 0 && (q.writes >= maxWrites || q.writeBytes+r.Write.Size() > maxWriteBytes) {
		return false
	}
	err := q.limiter.Admit(time.Now(), ratelimit.Writes, 1, ratelimit.Caller{})
	if err == nil {
		return true
	}
	q.retrying = true
	time.AfterFunc(retryAfter(err), q.retry)
	return false
}

// retry starts requests again after the budget of writes was used up.
func (q *Queue) retry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retrying = false
	if err := q.start(); err != nil {
		go q.end(err)
	}
}

// send hands a step of a request to the node under a new key. Called with mu held.
func (q *Queue) send(r *Request, step Send) error {
	q.key++
	key := q.key
	q.inFlight[key] = r
	var err error
	if r.Write != nil {
		q.writes++
		q.writeBytes += r.Write.Size()
		q.number++
		err = q.tree.Write(session.TreeWrite{Key: key, Write: tree.NumberedWrite{
			Session: uint64(q.token.ID), Attachment: q.token.Attachment, Number: q.number, Acked: q.acked,
			Transaction: *r.Write,
		}})
	} else {
		err = step(key)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", r.Op, err)
	}
	return nil
}

// raiseBarrier blocks all requests behind a request that needs one more step. Later requests in flight go back into the
// queue: their answers would be older than the end of the list, and come before it. Called with mu held.
func (q *Queue) raiseBarrier(r *Request) {
	if q.barrier == r {
		return
	}
	q.barrier = r
	var back []*Request
	for _, key := range slices.Sorted(maps.Keys(q.inFlight)) {
		if later := q.inFlight[key]; later != r {
			delete(q.inFlight, key)
			q.chargeQueued(later)
			back = append(back, later)
			if later.Order == Paged {
				q.paged--
			}
		}
	}
	q.queued = append(back, q.queued...)
}

// retryAfter returns when a refused write may be tried again.
func retryAfter(err error) time.Duration {
	if limit := (*session.LimitError)(nil); errors.As(err, &limit) && limit.RetryAfter > 0 {
		return limit.RetryAfter
	}
	return session.BusyRetryAfter
}
