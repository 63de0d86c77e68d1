package core

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/session"
)

// grant takes the session that an open, a resume or an upgrade brought.
func (l *ledger) grant(h *Session, g session.Grant) {
	h.owner = g.Session.Owner
	l.effects.Granted = append(l.effects.Granted, Granted{h, g})
}

// lapse drops the promise of h, if there is one.
func (l *ledger) lapse(h *Session) {
	if h.until.IsZero() {
		return
	}
	h.until = time.Time{}
	l.effects.Lapsed = append(l.effects.Lapsed, h)
	l.emit(h, lapsed, ErrLapsed)
}

// promise takes the promise that the answer to r gives h; smallest is the smallest timeout of the sessions that the
// answer is about. It reports whether there was no promise before.
func (l *ledger) promise(h *Session, r *window.Request, safeFor, smallest time.Duration) (regained bool) {
	until := r.Sent.Add(safeFor)
	if safeFor < 0 || !until.After(l.now) || r.Suspensions != l.suspensions || len(h.closing) > 0 {
		return false
	}
	regained = h.until.IsZero()
	until = route.Latest(h.until, until) // a promise once given stands
	l.effects.Promised = append(l.effects.Promised, Promised{h, h.Handle, until, regained})
	h.until = until
	if !r.Sent.Before(h.promised) {
		h.promised = r.Sent
		h.renewBy = renewBy(r.Sent, safeFor, smallest, h.until)
		if h.on != nil {
			next := r.Sent.Add(touchIn(safeFor, smallest))
			h.on.renewAt = route.Earliest(h.on.renewAt, route.Latest(next, h.on.touched.Add(smallest/answerPart)))
		}
	}
	l.dueAt = route.Earliest(route.Earliest(l.dueAt, h.until), h.renewBy)
	return regained
}

// missed tells of a lapse that only the session's timer saw, because the promise that ended it was on its way. A reader
// that saw the context end waits for Regained.
func (l *ledger) missed(h *Session) {
	if !l.holds(h) || h.until.IsZero() {
		return
	}
	until := h.until
	h.until = time.Time{}
	l.emit(h, lapsed, ErrLapsed)
	h.until = until
	l.emit(h, regained, nil)
}

// tellGlobal tells an event to every global session that c serves. Local sessions depend on no leader.
func (l *ledger) tellGlobal(c *Conn, err error, what func(*Session) trigger) {
	for _, h := range l.sessions {
		if h.on == c && !h.token.Local {
			l.emit(h, what(h), err)
		}
	}
}

// toReadOnly tells a session that its connection is to a read-only node. Nothing changes for a local session that this
// node serves.
func (l *ledger) toReadOnly(h *Session, c *Conn) {
	if h.state != StateConnectedReadOnly && (h.on != c || !h.token.Local) {
		l.emit(h, onlyReads, fmt.Errorf("%s: %w", c.Address, session.ErrReadOnly))
	}
}

// unserve notes that c serves no session any more.
func (l *ledger) unserve(c *Conn, err error) {
	for _, h := range l.sessions {
		// A session that was not resumed here yet, after the former connection was dropped, is adrift: no node serves
		// it.
		adrift := h.on == nil && h.state != StateConnecting && !l.readOnly(l.cur)
		if err != nil && (h.on == c || adrift) {
			l.emit(h, disconnected, err)
		}
		if h.on == c {
			h.on = nil
		}
	}
}

// comesBack returns how long r waits after its n-th refusal with err: until the moment that the node named, with jitter
// on top. A resume whose promise lasts waits for half of the rest at most, because the queue may have become shorter.
// Once the promise has lapsed it waits for the whole time: the node that named it is overloaded.
func (l *ledger) comesBack(r *window.Request, n int, err error) time.Duration {
	b, resume := r.Body.(*resumeBody)
	if !resume || b.h.joining != nil {
		return l.cfg.Jitter.Wait(n, err)
	}
	soon := l.cfg.Jitter.BackoffBelow(n, cmp.Or(b.h.timeout/connectPart, math.MaxInt64))
	wait := route.Hint(err) + soon
	if rest := b.h.until.Sub(l.now); rest > 0 {
		wait = min(wait, max(rest/2, soon))
	}
	return wait
}
