package client

import (
	"errors"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"time"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// touch keeps the sessions of c alive when it is time: after a quarter of the smallest timeout, or sooner when little
// is promised, see touchIn. One message without ids touches them all. Its answer promises the least of what any of them
// could be promised (S3), so sessions whose timeouts differ by a factor of two and more are touched apart, by id; and
// so are local sessions, for which a node without a leader can promise what it cannot for the others (L4).
func (l *loop) touch(c *conn) {
	if !c.up || c.touchAt.IsZero() || l.now.Before(c.touchAt) {
		return
	}
	bands := l.bands(c)
	if len(bands) == 0 {
		c.touchAt = time.Time{}
		return
	}
	c.smallest = 0
	for _, band := range bands {
		c.smallest = minPositive(c.smallest, smallestTimeout(band))
	}
	c.touched, c.touchAt = l.now, l.now.Add(c.smallest/touchPart)
	for kind, band := range bands {
		smallest := smallestTimeout(band)
		if len(bands) == 1 && !c.stray {
			l.sendTouch(c, &touchBody{smallest: smallest, local: kind.local})
			return
		}
		for chunk := range slices.Chunk(band, session.MaxTouchBatch) {
			l.sendTouch(c, &touchBody{targets: chunk, smallest: smallest, local: kind.local})
		}
	}
}

func (l *loop) sendTouch(c *conn, b *touchBody) {
	if c.touches < touchWindow {
		c.touches++
		l.send(c, &request{body: b})
	}
}

// bandKind is what sessions have in common that are touched together.
type bandKind struct {
	bits  int // of the timeout
	local bool
}

// bands returns the sessions to touch on c, those of a kind with timeouts between the same two powers of two together.
func (l *loop) bands(c *conn) map[bandKind][]*held {
	bands := make(map[bandKind][]*held, 1)
	for _, h := range l.sessions {
		if h.on == c && len(h.closing) == 0 {
			b := bandKind{bits.Len64(uint64(h.timeout)), h.token.Local}
			bands[b] = append(bands[b], h)
		}
	}
	return bands
}

func smallestTimeout(sessions []*held) time.Duration {
	var d time.Duration
	for _, h := range sessions {
		d = minPositive(d, h.timeout)
	}
	return d
}

// minPositive returns the smaller of two durations of which zero is none.
func minPositive(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// touched takes the answer to a touch: its promise is for the sessions that c served when the touch was sent, still
// serves, and did not refuse.
func (l *loop) touched(c *conn, r *request, b *touchBody, answer *holdfastv1.Touched) {
	refused := make(map[session.ID]error, len(answer.GetFailures()))
	for _, f := range answer.GetFailures() {
		refused[session.ID(f.GetId())] = wire.FromDetail(f.GetError(), "")
	}
	safeFor := wire.PromiseFrom(answer.GetSafeFor())
	switch {
	case safeFor < 0:
		l.touchSoon(c)
	case !b.local || l.needsNoLeader():
		l.served(c)
	}
	for h := range l.targets(b) {
		if h.on != c || h.since >= r.seq {
			continue
		}
		if err := refused[h.s.id]; err != nil {
			l.touchRefused(c, h, err)
			continue
		}
		h.doubted = false
		if l.promise(h, r, safeFor, b.smallest) {
			l.emit(h, regained, nil)
		}
	}
}

// targets returns the sessions that a touch was about, or was sent before.
func (l *loop) targets(b *touchBody) iter.Seq[*held] {
	if b.targets != nil {
		return slices.Values(b.targets)
	}
	return maps.Values(l.sessions)
}

// touchSoon has c touched again after a twelfth of the smallest timeout.
func (l *loop) touchSoon(c *conn) {
	c.touchAt = route.Earliest(c.touchAt, route.Latest(l.now, c.touched.Add(c.smallest/answerPart)))
}

// touchPutOff has c touched again when the node that refused to hear of it says, or soon when it does not say; in any
// case when it would be touched anyhow: sessions that came meanwhile may have shorter timeouts. A promise that is not
// renewed meanwhile has the client look for another node, as with any silence.
func (l *loop) touchPutOff(c *conn, err error) {
	if route.Hint(err) > 0 {
		c.touchAt = route.Earliest(c.touchAt, l.now.Add(l.jitter.Wait(1, err)))
		return
	}
	l.touchSoon(c)
}

func (l *loop) touchRefused(c *conn, h *held, err error) {
	switch {
	case errors.Is(err, session.ErrMoved):
		l.moved(h, c, holder(err))
	case errors.Is(err, session.ErrExpired):
		l.expired(h, err)
	case dead(err):
		l.end(h, err)
	default:
		l.touchSoon(c)
	}
}
