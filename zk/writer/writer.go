// Package writer sends replies and events to one ZooKeeper client.
//
// A [Writer] gets answers and events from the node in the order of stamps (G1 order per connection), makes
// frames of them, and sends the frames while the session's promise is long enough (Z5 disconnected before expired).
// When the promise is too short, the [Confirmer] asks the cluster for a round and restarts the writer.
package writer

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

const (
	// sendBytes is how much is sent at a time.
	sendBytes = 64 << 10
	// stuckPart is the part of the timeout for which a client may accept no byte, and for which bytes may wait for a
	// confirmed touch (G9 answer bounds, Z5 disconnected before expired).
	stuckPart = 3
	// maxUnordered bounds the queued replies without an order. A client that reads its replies never reaches the bound.
	maxUnordered = 4096
)

// Reasons for which a writer ends its connection.
var (
	// ErrClosed: everything is sent, and the session is closed or served by another connection.
	ErrClosed      = errors.New("the client has closed its session")
	errEventsLost  = errors.New("events of its watches are lost")
	errUnconfirmed = errors.New("no touch of the session was confirmed in time")
)

// Requests are the requests of the client.
type Requests interface {
	// Answered makes the reply of an answer, nil if there is none yet. An error ends the connection.
	Answered(a *session.TreeAnswer) (*jute.Encoder, error)
	// RestoringWatches reports whether the client's watches are being restored: events then are missed changes.
	RestoringWatches() bool
	// InFlight counts the requests that the node has not answered.
	InFlight() int
}

// Source returns the node's next item for the client; false if there is none now.
type Source interface {
	Next(now time.Time) (session.TreeMessage, bool)
}

// Promises returns for how long from now a session cannot expire; negative if nothing is promised.
type Promises interface {
	Promised(id session.ID) time.Duration
}

// Session is what a writer needs of the session.
type Session struct {
	ID    session.ID
	Local bool
	// Timeout is the session's, ClientTimeout the timeout in the client's answer (Z4 timeout).
	Timeout, ClientTimeout time.Duration
	Source                 Source
	Promises               Promises
}

// Counters count what writers send.
type Counters struct {
	// Bytes, Replies and Events count what was sent. Unconfirmed counts the connections that ended because no touch was
	// confirmed in time, Rounds the requested rounds (Z5).
	Bytes, Replies, Events, Unconfirmed, Rounds atomic.Int64
}

// unordered is a reply without a place in the order of requests: a pong, or the reply to a closeSession (N-16).
type unordered struct {
	xid  int32
	code jute.Code
	// last reports whether the connection ends with the reply.
	last bool
}

// Writer sends to one client. Its goroutine runs while there is something to send, and the first queued item starts it.
// Safe for concurrent use.
type Writer struct {
	net       net.Conn
	requests  Requests
	confirmer *Confirmer
	counters  *Counters
	end       func(error)

	mu sync.Mutex
	// greeted reports whether the handshake is answered, with greeting until it is gathered. Before the handshake ends
	// there is no session to send for, but the session may already move or end. guarded by mu
	greeted  bool
	greeting []byte
	session  Session // set with greeted
	// unordered are the replies without an order. guarded by mu
	unordered []unordered
	// running: the goroutine runs or waits for a confirmation. again: it must check for more. guarded by mu
	running, again bool
	// draining reports whether the connection ends when everything is sent, stopped whether sending has stopped.
	// guarded by mu
	draining, stopped bool
	idle              sync.Cond // of mu: running has become false

	// The rest belongs to the goroutine.
	buffer buffer
	// stamp is the newest stamp that was sent to the client.
	stamp tree.Stamp
	// last reports whether the buffer has the reply with which the connection ends.
	last bool
	// missed: events were lost while the client restores its watches. If they were lost before, as the answer says, the
	// lasting watches get no event about the loss (Z7 watches): the client's next connection would lose them too, so
	// that each connection would end again.
	missed bool

	// closed: the client's closeSession has ended the session. It can no longer expire, and no touch would be
	// confirmed, so nothing waits for a touch (Z5).
	closed atomic.Bool
	// left: the session has ended or moved. No touch of this connection will be confirmed, so nothing waits for a
	// touch, and bytes that must not be sent now are dropped.
	left atomic.Bool

	replies, unsent atomic.Int64
}

// New returns the writer of a connection. end ends the connection.
func New(n net.Conn, requests Requests, confirmer *Confirmer, end func(error)) *Writer {
	return &Writer{net: n, requests: requests, confirmer: confirmer, counters: confirmer.counters, end: end}
}

// Begin sends the answer to the handshake, and from then on what the node has for the session. plain reports that the
// connection has no TLS.
func (w *Writer) Begin(s Session, greeting []byte, plain bool) {
	w.mu.Lock()
	w.greeted, w.greeting, w.session = true, greeting, s
	w.buffer.plain = plain
	w.mu.Unlock()
	w.Wake()
}

// Pong answers a ping. An error ends the connection: the pongs of a client that pings and reads nothing would fill the
// memory.
func (w *Writer) Pong(xid int32) error {
	w.mu.Lock()
	full := len(w.unordered) >= maxUnordered
	if !full {
		w.unordered = append(w.unordered, unordered{xid: xid})
	}
	w.mu.Unlock()
	if full {
		return fmt.Errorf("%w: %d pings have no answer yet", jute.ErrProtocol, maxUnordered)
	}
	w.Wake()
	return nil
}

// SessionClosed answers the client's closeSession, and ends the connection.
func (w *Writer) SessionClosed(xid int32) {
	w.closed.Store(true)
	w.mu.Lock()
	w.unordered = append(w.unordered, unordered{xid: xid, last: true})
	w.mu.Unlock()
	w.Wake()
}

// SessionLeft ends the connection because the session has ended or moved.
func (w *Writer) SessionLeft() {
	w.left.Store(true)
	w.Drain()
}

// EndAfterReply ends the connection after the reply that [Requests.Answered] is making. The reply is sent whatever the
// promise is (Z5). Only Answered may call it.
func (w *Writer) EndAfterReply() { w.last = true }

// Drain ends the connection when everything is sent.
func (w *Writer) Drain() {
	w.mu.Lock()
	w.draining = true
	w.mu.Unlock()
	w.Wake()
}

// Stop drops unsent bytes. The caller closes the connection, which ends the goroutine.
func (w *Writer) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	if w.confirmer.remove(w) {
		w.finish()
	}
}

// Wait returns when the goroutine has ended.
func (w *Writer) Wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle.L == nil {
		w.idle.L = &w.mu
	}
	for w.running {
		w.idle.Wait()
	}
}

// Replies counts the replies.
func (w *Writer) Replies() int64 { return w.replies.Load() }

// Unsent counts the bytes that the client has not accepted.
func (w *Writer) Unsent() int64 { return w.unsent.Load() }

// Wake signals that there may be something to send. It returns at once.
func (w *Writer) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case w.running:
		w.again = true
	default:
		w.running = true
		go w.run()
	}
}

// run sends until nothing is left.
func (w *Writer) run() {
	for {
		goes, err := w.step()
		switch {
		case err != nil:
			w.fail(err)
			return
		case !goes:
			return
		}
	}
}

// step sends a part. It returns false when nothing is left, and when the session's promise is too short. Then the
// confirmer restarts the writer; running stays set, so that no other goroutine does.
func (w *Writer) step() (goes bool, err error) {
	if w.buffer.empty() {
		if err := w.gather(); err != nil {
			return false, err
		}
		w.unsent.Store(w.buffer.unsent())
	}
	switch {
	case w.buffer.empty() && w.drained():
		return false, ErrClosed
	case w.buffer.empty():
		return !w.rest(), nil
	case w.last || w.maySend():
		w.buffer.unblock()
		return true, w.send()
	case w.left.Load():
		return false, ErrClosed
	default:
		w.block()
		return false, nil
	}
}

// block hands the writer to the confirmer. If Stop has come before, it has found no blocked writer: the goroutine ends
// here.
func (w *Writer) block() {
	w.confirmer.add(w, w.buffer.block())
	w.mu.Lock()
	stopped := w.stopped
	w.mu.Unlock()
	if stopped && w.confirmer.remove(w) {
		w.finish()
	}
}

// rest reports whether the goroutine ends, because nothing is left to send.
func (w *Writer) rest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again && !w.stopped {
		w.again = false
		return false
	}
	w.finishLocked()
	return true
}

// finish records the end of the goroutine.
func (w *Writer) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finishLocked()
}

func (w *Writer) finishLocked() {
	w.running = false
	if w.idle.L != nil {
		w.idle.Broadcast()
	}
}

// drained reports whether the connection ends now that everything is sent.
func (w *Writer) drained() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return (w.draining || w.last) && !w.again
}

// fail ends the connection and the goroutine. No other goroutine may start before the connection has ended: it would
// send the items after the lost events, as if no event had been lost.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	w.stopped = true
	w.finishLocked()
	w.mu.Unlock()
	w.end(err)
}

// send sends a part of the buffer.
func (w *Writer) send() error {
	timeout := w.session.Timeout / stuckPart
	within := timeout
	if !w.last {
		within = w.sendable() + time.Millisecond // a deadline of now would refuse the byte
	}
	n, err := w.buffer.write(w.net, within, timeout)
	w.counters.Bytes.Add(int64(n))
	w.unsent.Store(w.buffer.unsent())
	if err == nil && w.buffer.unsent() == 0 {
		w.buffer.clear(w.requests.InFlight() > 0)
	}
	return err
}

// gather fills the buffer for one write: first the replies without an order, then the node's items.
func (w *Writer) gather() error {
	w.mu.Lock()
	greeted, greeting, pongs := w.greeted, w.greeting, w.unordered
	w.greeting, w.unordered = nil, nil
	w.mu.Unlock()
	if !greeted {
		return nil
	}
	w.buffer.append(greeting)
	for _, s := range pongs {
		w.appendReply(jute.Reply(s.xid, int64(w.stamp), s.code)) //nolint:gosec // stamps are positive
		w.last = w.last || s.last
	}
	for len(w.buffer.bytes) < sendBytes && !w.last {
		message, ok := w.session.Source.Next(time.Now())
		if !ok {
			return nil
		}
		if err := w.append(&message); err != nil {
			return err
		}
		w.stamp = max(w.stamp, message.Delivered)
	}
	return nil
}

// append appends an answer or events of the node.
func (w *Writer) append(t *session.TreeMessage) error {
	switch {
	case t.Lost:
		if w.missed = w.requests.RestoringWatches(); !w.missed {
			return errEventsLost // the client's watches get the changes when the client comes back (V6 LOST)
		}
		return nil
	case t.Answer != nil:
		if w.missed && !t.Answer.Lost {
			return errEventsLost
		}
		w.missed = false
		reply, err := w.requests.Answered(t.Answer)
		if reply != nil {
			w.appendReply(reply)
		}
		return err
	}
	restoring := w.requests.RestoringWatches()
	for _, e := range t.Events {
		zxid := int64(e.Stamp) //nolint:gosec // stamps are positive
		if restoring {
			zxid = -1
		}
		w.counters.Events.Add(1)
		w.buffer.append(jute.Event(zxid, int32(e.Kind), e.Path))
	}
	return nil
}

func (w *Writer) appendReply(reply *jute.Encoder) {
	w.replies.Add(1)
	w.counters.Replies.Add(1)
	w.buffer.append(reply.Frame())
}

// maySend reports whether a byte may be sent now: the client leaves its server two thirds of ClientTimeout after the
// last byte, so it gives up before its session can expire (Z5).
func (w *Writer) maySend() bool { return w.sendable() >= 0 }

// sendable returns for how long from now a byte may be sent, negative if none may.
func (w *Writer) sendable() time.Duration {
	s := &w.session
	if s.Local || w.closed.Load() {
		return s.Timeout
	}
	return s.Promises.Promised(s.ID) - s.ClientTimeout*2/3 - s.Timeout/100
}
