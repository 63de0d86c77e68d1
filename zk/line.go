package zk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/transport/gate"
	"holdfast/tree"
	"holdfast/zk/jute"
)

const (
	// maxRequests and maxRequestBytes bound what a connection's reader takes ahead (G8).
	maxRequests     = 4096
	maxRequestBytes = 4 << 20
	// maxWrites is how many writes are under way; the state keeps the results of at most [tree.MaxUnanswered].
	maxWrites     = tree.MaxUnanswered / 2
	maxWriteBytes = tree.MaxUnansweredBytes / 2
	// standPart is the part of the timeout for which a reader may stand (G8).
	standPart = 6
)

// order says what a request may be beside.
type order uint8

const (
	// inOrder: the node answers it in the order of the session's requests.
	inOrder order = iota
	// lists: the node answers it in that order too, if it takes one read. If it takes more, nothing behind it begins
	// before it is done. What has begun already begins again then, so only what may do so begins behind it.
	lists
	// lastOf: nothing behind it begins before it is done, because it takes several reads.
	lastOf
	// alone: it begins when nothing is under way, and nothing begins before it is done.
	alone
)

// request is a request of the client until it is answered.
type request struct {
	jute.Request
	// bytes is about what it takes: its frame, and more for one of many parts.
	bytes int
	// counted is what counts of it for the node while the node does not count it itself.
	counted int
	order   order
	// again says that the request changes nothing, not even watches: its answer may be dropped, and asked for again.
	again bool
	// write is set for writes, with the transaction that it is.
	write *tree.Transaction
	// begin hands the request to the node under a key. Its error ends the connection.
	begin func(r *request, key uint64) error
	// answer makes the reply from the node's answer. With more set it has begun another step under a new key.
	answer func(r *request, a *session.TreeAnswer) (reply *jute.Encoder, more bool, err error)
}

// line is the requests of a connection, in their order. Its lock is held while requests are handed to the node, and
// never while anything is sent.
type line struct {
	conn  *conn
	reads waiting // of the reader alone
	// received counts requests.
	received atomic.Int64

	mu sync.Mutex
	// waiting have not begun; under have, by their keys. guarded by mu
	waiting []*request
	under   map[uint64]*request
	// bytes are those of all, writes and writeBytes what is under way of writes. guarded by mu
	bytes, writes, writeBytes int
	// key is the newest key, number that of the newest write, acked the number up to which writes are answered.
	// guarded by mu
	key, number, acked uint64
	// barriers say what may begin. guarded by mu
	barriers
	// later is set while a timer will look at the line again: the node's budget of writes is used up. guarded by mu
	later bool
	// room is closed when requests were answered; nil while nobody waits. guarded by mu
	room    chan struct{}
	stopped bool // guarded by mu
}

// barriers are requests that others wait behind.
type barriers struct {
	// held is the request behind which nothing begins, lists counts those under way that may become that.
	held  *request
	lists int
}

// begin is called once, with the number of the session's newest write that was taken.
func (l *line) begin(applied uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under = map[uint64]*request{}
	l.number, l.acked = applied, applied
}

// stop drops what has not begun.
func (l *line) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.waiting {
		l.count(r, 0)
	}
	l.stopped, l.waiting = true, nil
	l.wake()
}

func (l *line) wake() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// full returns nil while one more request may come, and otherwise a channel that is closed when that may be so.
func (l *line) full() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.hasRoom() {
		return nil
	}
	if l.room == nil {
		l.room = make(chan struct{})
	}
	return l.room
}

// hasRoom reports whether one more request may come. While much waits at the node (G8), it may if none waits here.
// What waits begins as other requests are answered, which wakes the reader. Called with mu held.
func (l *line) hasRoom() bool {
	if len(l.waiting)+len(l.under) >= maxRequests || l.bytes >= maxRequestBytes {
		return false
	}
	return len(l.waiting) == 0 || !l.conn.tree.Hold(0)
}

// count counts so many bytes of a request for the node (G8). Called with mu held.
func (l *line) count(r *request, bytes int) {
	if r.counted != bytes {
		l.conn.tree.Hold(bytes - r.counted)
		r.counted = bytes
	}
}

// countWaiting counts a request that waits. Called with mu held.
func (l *line) countWaiting(r *request) { l.count(r, r.bytes+readOverhead) }

// add puts a request at the end of the line.
func (l *line) add(r *request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return nil
	}
	l.waiting = append(l.waiting, r)
	l.bytes += r.bytes
	err := l.advance()
	if len(l.waiting) > 0 {
		l.countWaiting(r)
	}
	return err
}

// advance hands requests to the node while their turn has come. Called with mu held.
//
// While the node refuses all writes for want of room, a write is answered with -7 in its turn: kazoo and Curator try again
// by their own rules. Without: the client waits without an end for its write and for all that it asks behind it. If the
// connection ended, the client would come back at once, which takes an entry of the log each time.
//
// Those of a local session go one by one (Z9): the node keeps no order of its reads (G3). That holds for as long as the
// connection lasts, also when an upgrade has made the session one of the cluster. Without: replies pass one another, at
// which the Java client ends the connection.
func (l *line) advance() error {
	for len(l.waiting) > 0 && l.held == nil && !l.later {
		r := l.waiting[0]
		if r.write != nil && l.conn.server.cfg.Gate.Held(gate.Writes) != nil {
			l.conn.refuse(r, jute.OperationTimeout)
			r.write = nil
		}
		single := r.order == alone || l.conn.token.Local
		if single && len(l.under) > 0 || !r.again && l.lists > 0 || r.write != nil && !l.mayWrite(r) {
			return nil
		}
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		l.count(r, 0)
		switch r.order {
		case inOrder:
		case lists:
			l.lists++
		case lastOf, alone:
			l.held = r
		}
		if err := l.hand(r, r.begin); err != nil {
			return err
		}
	}
	return nil
}

// mayWrite reports whether one more write may go to the node. Called with mu held.
func (l *line) mayWrite(r *request) bool {
	if l.writes > 0 && (l.writes >= maxWrites || l.writeBytes+r.write.Size() > maxWriteBytes) {
		return false
	}
	err := l.conn.server.cfg.Gate.Admit(time.Now(), gate.Writes, 1, gate.Caller{})
	if err == nil {
		return true
	}
	l.later = true
	time.AfterFunc(retryAfter(err), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.later = false
		if err := l.advance(); err != nil {
			go l.conn.end(err)
		}
	})
	return false
}

// hand begins a step of a request under a new key. Called with mu held.
func (l *line) hand(r *request, begin func(r *request, key uint64) error) error {
	l.key++
	key := l.key
	l.under[key] = r
	if r.write != nil {
		l.writes++
		l.writeBytes += r.write.Size()
	}
	if err := begin(r, key); err != nil {
		return fmt.Errorf("%v: %w", r.Op, err)
	}
	return nil
}

// write numbers a write and hands it to the node (Z2). Called with mu held.
func (l *line) write(r *request, key uint64) error {
	l.number++
	return l.conn.tree.Write(session.TreeWrite{Key: key, Write: tree.NumberedWrite{
		Session: uint64(l.conn.token.ID), Attachment: l.conn.token.Attachment, Number: l.number, Acked: l.acked,
		Transaction: *r.write,
	}})
}

// answered takes the node's answer to a step. It returns the reply, nil if there is none yet.
func (l *line) answered(a *session.TreeAnswer) (*jute.Encoder, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.under[a.Key]
	if r == nil {
		return nil, nil //nolint:nilnil // the answer to nothing
	}
	delete(l.under, a.Key)
	if r.write != nil {
		l.writes--
		l.writeBytes -= r.write.Size()
		if a.Err == nil {
			l.acked++
		}
	}
	reply, more, err := r.answer(r, a)
	if err != nil {
		return nil, err
	}
	if more {
		l.hold(r)
		return nil, nil //nolint:nilnil // there is none yet
	}
	if r.order == lists {
		l.lists--
	}
	l.bytes -= r.bytes
	l.count(r, 0)
	if l.held == r {
		l.held = nil
	}
	l.wake()
	return reply, l.advance()
}

// hold lets nothing begin behind a request that takes one more step. What has begun behind it goes back into the line:
// its answers would be older than the end of the list, and come before it. Called with mu held.
func (l *line) hold(r *request) {
	if l.held == r {
		return
	}
	l.held = r
	var back []*request
	for _, key := range slices.Sorted(maps.Keys(l.under)) {
		if one := l.under[key]; one != r {
			delete(l.under, key)
			l.countWaiting(one)
			back = append(back, one)
			if one.order == lists {
				l.lists--
			}
		}
	}
	l.waiting = append(back, l.waiting...)
}

// take touches the session and puts a request into the line. The error ends the connection.
func (c *conn) take(frame []byte) error {
	if t := c.link.Touch([]session.ID{c.token.ID}); len(t.Failures) > 0 {
		return fmt.Errorf("touching: %w", t.Failures[0].Err)
	}
	c.server.stats.requests.Add(1)
	c.line.received.Add(1)
	r, err := c.requestOf(frame)
	if r == nil || err != nil {
		return err
	}
	if err := c.stand(); err != nil {
		return err
	}
	return c.line.add(r)
}

// stand waits until one more request may come, for a part of the session's timeout at most: a client that is not read
// cannot show that it lives (G8).
func (c *conn) stand() error {
	var late *time.Timer
	for {
		full := c.line.full()
		if full == nil {
			full = c.tree.Full()
		}
		if full == nil {
			return nil
		}
		if late == nil {
			late = time.NewTimer(c.timeout / standPart)
			defer late.Stop()
		}
		select {
		case <-full:
		case <-late.C:
			return errSlow
		case <-c.server.ctx.Done():
			return errStopping
		}
	}
}

// retryAfter returns when a refused write may be tried again.
func retryAfter(err error) time.Duration {
	if after := retryOf(err); after > 0 {
		return after
	}
	return session.BusyRetryAfter
}

// retryOf returns when what a limit has refused may be asked again, 0 if it is not said.
func retryOf(err error) time.Duration {
	if limit := (*session.LimitError)(nil); errors.As(err, &limit) {
		return limit.RetryAfter
	}
	return 0
}
