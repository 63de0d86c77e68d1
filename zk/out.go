package zk

import (
	"errors"
	"fmt"
	"os"
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
	// stuckPart is the part of the timeout for which a client may take nothing, and for which something may wait for a
	// confirmed touch (G9, Z5).
	stuckPart = 3
)

// small is a reply that keeps no order: a pong or the reply to an auth (N-16).
type small struct {
	xid  int32
	code jute.Code
	// ends says that the connection ends with it.
	ends bool
}

// out is what is to be sent. A goroutine writes while there is something; it is started by whoever brings the first.
type out struct {
	conn *conn

	mu sync.Mutex
	// greeting is the answer to the handshake. Before it is made the connection has no tree, but its session may move or
	// end. guarded by mu
	greeting struct {
		made  bool
		frame []byte
	}
	// small are the replies without an order. guarded by mu
	small []small
	// writing says that the writer runs, or waits for a confirmation; more that it has to look again. guarded by mu
	writing, more bool
	// last says that the connection ends when all is sent, dropped that nothing is sent any more. guarded by mu
	last, dropped bool
	idle          sync.Cond // of mu: writing has become false

	// What follows belongs to the writer. unsent waits for a confirmed touch since blocked.
	// The first at bytes of it were sent; the client took the newest at taken, zero while nothing is being sent.
	unsent  []byte
	at      int
	blocked time.Time
	taken   time.Time
	// plain says that a write that was broken off can go on: with TLS it cannot. Set by the handshake.
	plain bool
	// told is the newest stamp that the client was told.
	told tree.Stamp
	// ends says that the reply of a closeSession is in what is sent.
	ends bool
	// missed says that events were lost while the client brings its watches back. If they were so before, as the answer
	// says, its lasting watches hear nothing of them (Z7): they would be as lost for the client's next connection, so that
	// one that ended now would end again and again.
	missed bool
	// closing says that the client closes its session: the answer to that ends the connection, not the session's end.
	closing atomic.Bool
	// gone says that this close has ended the session: it cannot expire any more, so nothing waits for a touch (Z5). No
	// touch of it would ever be confirmed.
	gone atomic.Bool
	// left says that the session has ended or has moved: no touch of this connection will be confirmed, so nothing waits
	// for one, and what may not be sent now is dropped.
	left    atomic.Bool
	figures outFigures
}

// outFigures are for those who ask.
type outFigures struct {
	// sent counts replies, waits is how many bytes are unsent.
	sent, waits atomic.Int64
}

// begin sends the answer to the handshake, and from then on what the node tells.
func (o *out) begin(frame []byte) {
	o.mu.Lock()
	o.greeting.made, o.greeting.frame = true, frame
	o.mu.Unlock()
	o.poke()
}

// maxSmall is how many replies without an order may wait. A client that reads its answers never has so many.
const maxSmall = 4096

// reply sends a reply that keeps no order. The error ends the connection: a client that pings and reads nothing would
// fill the memory.
func (o *out) reply(s small) error {
	o.mu.Lock()
	full := len(o.small) >= maxSmall
	if !full {
		o.small = append(o.small, s)
	}
	o.mu.Unlock()
	if full {
		return fmt.Errorf("%w: %d pings have no answer yet", errForeign, maxSmall)
	}
	o.poke()
	return nil
}

// poke says that there may be something to send. It returns at once.
func (o *out) poke() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.dropped:
	case o.writing:
		o.more = true
	default:
		o.writing = true
		go o.write()
	}
}

// finish ends the connection when all that waits is sent.
func (o *out) finish() {
	o.mu.Lock()
	o.last = true
	o.mu.Unlock()
	o.poke()
}

// stop drops what waits. The closed connection ends the writer.
func (o *out) stop() {
	o.mu.Lock()
	o.dropped = true
	o.mu.Unlock()
	o.conn.server.confirm.drop(o.conn)
}

// wait returns when no writer runs.
func (o *out) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.idle.L == nil {
		o.idle.L = &o.mu
	}
	for o.writing {
		o.idle.Wait()
	}
}

// rest reports whether the writer is to end: nothing is left to send.
func (o *out) rest() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more && !o.dropped {
		o.more = false
		return false
	}
	o.leave()
	return true
}

// leave says that the writer ends. Called with mu held.
func (o *out) leave() {
	o.writing = false
	if o.idle.L != nil {
		o.idle.Broadcast()
	}
}

// write sends until nothing is left.
func (o *out) write() {
	for {
		goes, err := o.step()
		switch {
		case err != nil:
			o.fail(err)
			return
		case !goes:
			return
		}
	}
}

// step sends what there is. It reports whether the writer goes on: not when nothing is left, nor while the session's
// promise is too short. Then the confirmer starts the writer again, and writing stays set, so that nobody else does.
func (o *out) step() (goes bool, err error) {
	if len(o.unsent) == 0 {
		if err := o.gather(); err != nil {
			return false, err
		}
		o.figures.waits.Store(int64(len(o.unsent)))
	}
	switch {
	case len(o.unsent) == 0 && o.over():
		return false, errClosed
	case len(o.unsent) == 0:
		return !o.rest(), nil
	case !o.ends && !o.conn.mayTell():
		if o.left.Load() {
			return false, errClosed
		}
		if o.blocked.IsZero() {
			o.blocked = time.Now()
		}
		o.conn.server.confirm.add(o.conn, o.blocked)
		return false, nil
	}
	if !o.blocked.IsZero() && !o.taken.IsZero() { // the client is not to blame for the wait
		o.taken = o.taken.Add(time.Since(o.blocked))
	}
	o.blocked = time.Time{}
	return true, o.send()
}

// over reports whether the connection ends now that all is sent.
func (o *out) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return (o.last || o.ends) && !o.more
}

// fail ends the connection and the writer.
func (o *out) fail(err error) {
	o.mu.Lock()
	o.leave()
	o.mu.Unlock()
	o.conn.end(err)
}

// send sends a part of what is unsent. What the client does not take while a byte may be sent waits for a confirmation,
// as later bytes do (Z5). Without: a write that waits for a slow client hands over bytes a third of the timeout later
// than it may. A client that takes nothing for that long is given up; one that is slow is not (G9).
func (o *out) send() error {
	c, now := o.conn, time.Now()
	if o.taken.IsZero() {
		o.taken = now
	}
	late := o.taken.Add(c.timeout / stuckPart)
	until := late
	if left := now.Add(c.tells() + time.Millisecond); o.plain && !o.ends && left.Before(late) {
		until = left
	}
	if err := c.net.SetWriteDeadline(until); err != nil {
		return err
	}
	n, err := c.net.Write(o.unsent[o.at:min(o.at+sendBytes, len(o.unsent))])
	c.server.stats.sent.Add(int64(n))
	if o.at += n; n > 0 {
		o.taken = time.Now()
	}
	o.figures.waits.Store(int64(len(o.unsent) - o.at))
	if errors.Is(err, os.ErrDeadlineExceeded) && until.Before(late) {
		return nil // the next step looks whether it goes on
	}
	if err == nil && o.at == len(o.unsent) {
		o.sent()
	}
	return err
}

// sent notes that nothing is unsent.
func (o *out) sent() {
	o.at, o.taken = 0, time.Time{}
	if o.unsent = o.unsent[:0]; cap(o.unsent) > sendBytes || !o.conn.busy() {
		o.unsent = nil // an idle connection keeps no buffer (Z10)
	}
}

// busy reports whether requests are under way.
func (c *conn) busy() bool {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	return len(c.line.under) > 0
}

// gather takes what fits into one write: first what keeps no order, then what the node tells.
func (o *out) gather() error {
	o.mu.Lock()
	greeting, pongs := o.greeting, o.small
	o.greeting.frame, o.small = nil, nil
	o.mu.Unlock()
	if !greeting.made {
		return nil
	}
	o.unsent = append(o.unsent, greeting.frame...)
	for _, s := range pongs {
		zxid := int64(o.told) //nolint:gosec // stamps are positive
		o.count()
		o.unsent = append(o.unsent, jute.Reply(s.xid, zxid, s.code).Frame()...)
		o.ends = o.ends || s.ends
	}
	for len(o.unsent) < sendBytes && !o.ends {
		told, ok := o.conn.tree.Next(time.Now())
		if !ok {
			return nil
		}
		if err := o.tell(&told); err != nil {
			return err
		}
		o.told = max(o.told, told.Told)
	}
	return nil
}

// tell appends what the node tells.
func (o *out) tell(t *session.TreeTold) error {
	switch {
	case t.Lost:
		if o.missed = o.conn.line.returning(); !o.missed {
			return errLost // the client's watches are told anew when it comes back (V6)
		}
		return nil
	case t.Answer != nil:
		if o.missed && !t.Answer.Lost {
			return errLost
		}
		o.missed = false
		reply, err := o.conn.line.answered(t.Answer)
		if reply != nil {
			o.count()
			o.unsent = append(o.unsent, reply.Frame()...)
		}
		return err
	}
	past := o.conn.line.returning()
	for _, e := range t.Events {
		zxid := int64(e.Stamp) //nolint:gosec // stamps are positive
		if past {
			zxid = -1
		}
		o.conn.server.stats.events.Add(1)
		o.unsent = append(o.unsent, jute.Event(zxid, int32(e.Kind), e.Path)...)
	}
	return nil
}

// mayTell reports whether a byte may be sent now: the client, which gives its server up two thirds of P after the last
// byte, then does so before its session can expire (Z5).
func (c *conn) mayTell() bool { return c.tells() >= 0 }

// tells returns for how long from now a byte may be sent, negative if none may.
func (c *conn) tells() time.Duration {
	if c.token.Local || c.out.gone.Load() {
		return c.timeout
	}
	return c.link.Promised(c.token.ID) - c.period*2/3 - c.timeout/100
}

// finishNow ends the connection with the reply that is being made: it is sent whatever the promise is (Z5).
func (o *out) finishNow() { o.ends = true }

// closed answers a closeSession, and ends the connection.
func (o *out) closed(xid int32) {
	o.gone.Store(true)
	o.mu.Lock()
	o.small = append(o.small, small{xid: xid, ends: true})
	o.mu.Unlock()
	o.poke()
}

// count counts a reply.
func (o *out) count() {
	o.figures.sent.Add(1)
	o.conn.server.stats.replies.Add(1)
}
