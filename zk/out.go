package zk

import (
	"fmt"
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

	// What follows belongs to the writer.
	sending sending
	// told is the newest stamp that the client was told.
	told tree.Stamp
	// ends says that the reply of a closeSession is in what is sent.
	ends bool
	// missed says that events were lost while the client brings its watches back. If they were so before, as the answer
	// says, its lasting watches hear nothing of them (Z7): they would be as lost for the client's next connection, so that
	// one that ended now would end again and again.
	missed bool

	fate    fate
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
	if o.sending.none() {
		if err := o.gather(); err != nil {
			return false, err
		}
		o.figures.waits.Store(o.sending.waits())
	}
	switch {
	case o.sending.none() && o.over():
		return false, errClosed
	case o.sending.none():
		return !o.rest(), nil
	case o.ends || o.mayTell():
		o.sending.unblock()
		return true, o.send()
	case o.fate.left.Load():
		return false, errClosed
	default:
		o.conn.server.confirm.add(o.conn, o.sending.block())
		return false, nil
	}
}

// over reports whether the connection ends now that all is sent.
func (o *out) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return (o.last || o.ends) && !o.more
}

// fail ends the connection and the writer. No other writer may begin before the connection has ended: it would send
// what stands behind the events that were lost, as if there had been none.
func (o *out) fail(err error) {
	o.mu.Lock()
	o.dropped = true
	o.leave()
	o.mu.Unlock()
	o.conn.end(err)
}

// send sends a part of what there is.
func (o *out) send() error {
	c := o.conn
	patience := c.timeout / stuckPart
	within := patience
	if !o.ends {
		within = o.tells() + time.Millisecond // a deadline that has come would refuse the byte
	}
	n, err := o.sending.write(c.net, within, patience)
	c.server.stats.sent.Add(int64(n))
	o.figures.waits.Store(o.sending.waits())
	if err == nil && o.sending.waits() == 0 {
		o.sending.clear(c.busy())
	}
	return err
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
	o.sending.bytes = append(o.sending.bytes, greeting.frame...)
	for _, s := range pongs {
		zxid := int64(o.told) //nolint:gosec // stamps are positive
		o.count()
		o.sending.bytes = append(o.sending.bytes, jute.Reply(s.xid, zxid, s.code).Frame()...)
		o.ends = o.ends || s.ends
	}
	for len(o.sending.bytes) < sendBytes && !o.ends {
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
			o.sending.bytes = append(o.sending.bytes, reply.Frame()...)
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
		o.sending.bytes = append(o.sending.bytes, jute.Event(zxid, int32(e.Kind), e.Path)...)
	}
	return nil
}

// mayTell reports whether a byte may be sent now: the client, which gives its server up two thirds of P after the last
// byte, then does so before its session can expire (Z5).
func (o *out) mayTell() bool { return o.tells() >= 0 }

// tells returns for how long from now a byte may be sent, negative if none may.
func (o *out) tells() time.Duration {
	c := o.conn
	if c.token.Local || o.fate.gone.Load() {
		return c.timeout
	}
	return c.link.Promised(c.token.ID) - c.period*2/3 - c.timeout/100
}

// finishNow ends the connection with the reply that is being made: it is sent whatever the promise is (Z5).
func (o *out) finishNow() { o.ends = true }

// closed answers a closeSession, and ends the connection.
func (o *out) closed(xid int32) {
	o.fate.gone.Store(true)
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
