package session

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// Touch keeps the sessions of c alive when a touch is due: after a third of the smallest timeout, or sooner if little
// is promised (see touchIn). One message without ids touches all sessions, and its answer is the shortest of the
// sessions' promises (S3 length of a promise). So sessions whose timeouts differ by a factor of two or more are touched
// separately, by id. Local sessions are touched separately as well, because a node without a leader can make promises
// only to local sessions (L4 local promises).
func (s *Manager) Touch(c *conn.Conn) {
	now, t := s.conns.Now(), &c.Touches
	if due := t.Due(); !c.Up() || due.IsZero() || now.Before(due) {
		return
	}
	bands := s.bands(c)
	if len(bands) == 0 {
		t.At = time.Time{}
		return
	}
	t.Smallest = 0
	for _, band := range bands {
		t.Smallest = minPositive(t.Smallest, smallestTimeout(band))
	}
	t.Sent, t.At, t.RenewAt = now, now.Add(t.Smallest/TouchPart), time.Time{}
	for kind, band := range bands {
		smallest := smallestTimeout(band)
		if len(bands) == 1 && !t.Named {
			s.conns.SendTouch(c, &touchBody{s: s, on: c, smallest: smallest, local: kind.local})
			return
		}
		for chunk := range slices.Chunk(band, session.MaxTouchBatch) {
			s.conns.SendTouch(c, &touchBody{s: s, on: c, targets: chunk, smallest: smallest, local: kind.local})
		}
	}
}

// SignOfLife returns a touch that any node answers at once, also without a leader. It touches one session by name, or
// an id that no session has, so the cost is independent of the number of sessions.
func (s *Manager) SignOfLife(c *conn.Conn) conn.Body {
	b := &touchBody{s: s, on: c, targets: make([]*Session, 0, 1), sign: true}
	for _, h := range s.sessions {
		if h.touchable(c) {
			b.targets, b.smallest, b.local = append(b.targets, h), h.timeout, h.token.Local
			break
		}
	}
	return b
}

// bandKind is what the sessions of a band have in common.
type bandKind struct {
	bits  int // of the timeout
	local bool
}

// bands returns the sessions to touch on c. Sessions of one kind with timeouts between the same two powers of two share
// a band.
func (s *Manager) bands(c *conn.Conn) map[bandKind][]*Session {
	bands := make(map[bandKind][]*Session, 1)
	for _, h := range s.sessions {
		if h.touchable(c) {
			b := bandKind{bits.Len64(uint64(h.timeout)), h.token.Local}
			bands[b] = append(bands[b], h)
		}
	}
	return bands
}

// touchSoon makes the next touch due after a twelfth of the smallest timeout.
func (s *Manager) touchSoon(c *conn.Conn) {
	t := &c.Touches
	t.At = route.Earliest(t.At, route.Latest(s.conns.Now(), t.Sent.Add(t.Smallest/answerPart)))
}

// receiveTouched distinguishes the answer to a touch from the confirmation that follows.
func (s *Manager) receiveTouched(c *conn.Conn, m *holdfastv1.Touched) {
	if r, ok := c.Window.RemoveAnswered(m.GetSeq()); ok {
		s.confirmed(c, r, m)
		return
	}
	if r, b, ok := conn.Answered[*touchBody](c, m.GetSeq()); ok {
		s.touched(c, r, b, m)
	}
}

// touched handles the answer to a touch. Its promise is for the sessions that c served when the touch was sent, still
// serves, and did not refuse.
func (s *Manager) touched(c *conn.Conn, r *window.Request, b *touchBody, answer *holdfastv1.Touched) {
	refused := make(map[session.ID]error, len(answer.GetFailures()))
	for _, f := range answer.GetFailures() {
		refused[session.ID(f.GetId())] = wire.FromDetail(f.GetError(), "")
	}
	s.tree.DeliveredUpTo(c, tree.Stamp(answer.GetDelivered()))
	safeFor := wire.PromiseFrom(answer.GetSafeFor())
	switch {
	case safeFor < 0:
		if !b.sign { // after a sign of life the next touch is due as before
			s.touchSoon(c)
		}
	case !b.local || s.onlyLocalWanted():
		s.conns.Served(c)
	}
	if len(refused) == 0 {
		c.Window.Answered(r)
	}
	for h := range s.targets(b) {
		if !h.ServedBy(c, r.Seq) {
			continue
		}
		if err := refused[h.id]; err != nil {
			s.touchRefused(c, h, err)
			continue
		}
		h.attachment.doubted = false
		if s.recordPromise(h, r, safeFor, b.smallest) {
			s.emit(h, regained, nil)
		}
	}
}

// confirmed handles the second answer to a touch, which promises more for the same sessions. The next touch is then due
// later, if this touch was the newest and was about all sessions of c.
func (s *Manager) confirmed(c *conn.Conn, r *window.Request, answer *holdfastv1.Touched) {
	b, ok := r.Body.(*touchBody)
	safeFor := wire.PromiseFrom(answer.GetSafeFor())
	if !ok || safeFor < 0 {
		return
	}
	if b.targets == nil && r.Sent.Equal(c.Touches.Sent) {
		c.Touches.RenewAt = time.Time{}
	}
	s.conns.Served(c)
	for h := range s.targets(b) {
		if h.ServedBy(c, r.Seq) && s.recordPromise(h, r, safeFor, b.smallest) {
			s.emit(h, regained, nil)
		}
	}
}

// targets returns the sessions that a touch was about.
func (s *Manager) targets(b *touchBody) iter.Seq[*Session] {
	if b.targets != nil {
		return slices.Values(b.targets)
	}
	return maps.Values(s.sessions)
}

func (s *Manager) touchRefused(c *conn.Conn, h *Session, err error) {
	switch {
	case s.LostAt(c, h, err):
	case final(err):
		s.end(h, err)
	default:
		s.touchSoon(c)
	}
}

// touchDeferred makes the next touch due when the refusing node asks for it, or soon if the node names no moment. The
// next touch is never later than it was due before, because sessions with shorter timeouts may have come meanwhile.
func (s *Manager) touchDeferred(c *conn.Conn, err error) {
	if route.Hint(err) > 0 {
		t := &c.Touches
		t.At = route.Earliest(t.At, s.conns.Now().Add(s.cfg.Jitter.Wait(1, err)))
		return
	}
	s.touchSoon(c)
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
