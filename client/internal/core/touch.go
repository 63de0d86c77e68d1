package core

import (
	"math/bits"
	"slices"
	"time"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// touch keeps the sessions of c alive when it is time: after a third of the smallest timeout, or sooner when little
// is promised (see touchIn). One message without ids touches them all, and its answer promises the least of what any of
// them could be promised (S3). So sessions whose timeouts differ by a factor of two or more are touched apart, by id.
// Local sessions are touched apart as well, because a node without a leader can promise something to them alone (L4).
func (q *requests) touch(c *Conn) {
	if due := c.touchDue(); !c.up || due.IsZero() || q.now.Before(due) {
		return
	}
	bands := q.bands(c)
	if len(bands) == 0 {
		c.touchAt = time.Time{}
		return
	}
	c.smallest = 0
	for _, band := range bands {
		c.smallest = minPositive(c.smallest, smallestTimeout(band))
	}
	c.touched, c.touchAt, c.renewAt = q.now, q.now.Add(c.smallest/TouchPart), time.Time{}
	for kind, band := range bands {
		smallest := smallestTimeout(band)
		if len(bands) == 1 && !c.stray {
			q.sendTouch(c, &touchBody{smallest: smallest, local: kind.local})
			return
		}
		for chunk := range slices.Chunk(band, session.MaxTouchBatch) {
			q.sendTouch(c, &touchBody{targets: chunk, smallest: smallest, local: kind.local})
		}
	}
}

func (q *requests) sendTouch(c *Conn, b *touchBody) {
	b.on = c
	if r := c.window.Touch(b); r != nil {
		q.send(c, r)
	}
}

// askAlive asks the node of c for a sign of life: it touches one session, by name, and none that matters if the node
// serves none. A node answers that at once, also without a leader, and it costs the same however many sessions there
// are. While as many touches as possible are out already, these are the question.
func (q *requests) askAlive(c *Conn) {
	c.window.AskedAlive(q.now)
	b := &touchBody{targets: make([]*Session, 0, 1), sign: true}
	for _, h := range q.sessions {
		if h.on == c && len(h.closing) == 0 {
			b.targets, b.smallest, b.local = append(b.targets, h), h.timeout, h.token.Local
			break
		}
	}
	q.sendTouch(c, b)
}

// bands returns the sessions to touch on c. Sessions of one kind with timeouts between the same two powers of two are
// in one band.
func (q *requests) bands(c *Conn) map[bandKind][]*Session {
	bands := make(map[bandKind][]*Session, 1)
	for _, h := range q.sessions {
		if h.on == c && len(h.closing) == 0 {
			b := bandKind{bits.Len64(uint64(h.timeout)), h.token.Local}
			bands[b] = append(bands[b], h)
		}
	}
	return bands
}

// touchSoon makes the next touch due after a twelfth of the smallest timeout.
func (q *requests) touchSoon(c *Conn) {
	c.touchAt = route.Earliest(c.touchAt, route.Latest(q.now, c.touched.Add(c.smallest/answerPart)))
}

// bandKind is what the sessions of a band have in common.
type bandKind struct {
	bits  int // of the timeout
	local bool
}

func smallestTimeout(sessions []*Session) time.Duration {
	var d time.Duration
	for _, h := range sessions {
		d = minPositive(d, h.timeout)
	}
	return d
}

// minPositive returns the smaller of two durations; zero means none.
func minPositive(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
