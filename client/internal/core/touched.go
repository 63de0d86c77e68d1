package core

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// touched takes the answer to a touch. Its promise is for the sessions that c served when the touch was sent, still
// serves, and did not refuse.
func (a *answers) touched(c *Conn, r *window.Request, b *touchBody, answer *holdfastv1.Touched) {
	refused := make(map[session.ID]error, len(answer.GetFailures()))
	for _, f := range answer.GetFailures() {
		refused[session.ID(f.GetId())] = wire.FromDetail(f.GetError(), "")
	}
	a.toldUpTo(c, tree.Stamp(answer.GetTold()))
	safeFor := wire.PromiseFrom(answer.GetSafeFor())
	switch {
	case safeFor < 0:
		if !b.sign { // after a sign of life the next touch is due when it was
			a.touchSoon(c)
		}
	case !b.local || a.needsNoLeader():
		a.served(c)
	}
	if len(refused) == 0 {
		c.window.Answered(r)
	}
	for h := range a.targets(b) {
		if h.on != c || h.since >= r.Seq {
			continue
		}
		if err := refused[h.id]; err != nil {
			a.touchRefused(c, h, err)
			continue
		}
		h.doubted = false
		if a.promise(h, r, safeFor, b.smallest) {
			a.emit(h, regained, nil)
		}
	}
}

// confirmed takes the second answer to a touch, which promises more for the same sessions. The next touch is then due
// later, if this one was about all sessions of c and is the newest.
func (a *answers) confirmed(c *Conn, r *window.Request, answer *holdfastv1.Touched) {
	b, ok := r.Body.(*touchBody)
	safeFor := wire.PromiseFrom(answer.GetSafeFor())
	if !ok || safeFor < 0 {
		return
	}
	if b.targets == nil && r.Sent.Equal(c.touched) {
		c.renewAt = time.Time{}
	}
	a.served(c)
	for h := range a.targets(b) {
		if h.on == c && h.since < r.Seq && a.promise(h, r, safeFor, b.smallest) {
			a.emit(h, regained, nil)
		}
	}
}

// targets returns the sessions that a touch was about.
func (a *answers) targets(b *touchBody) iter.Seq[*Session] {
	if b.targets != nil {
		return slices.Values(b.targets)
	}
	return maps.Values(a.sessions)
}

func (a *answers) touchRefused(c *Conn, h *Session, err error) {
	switch {
	case errors.Is(err, session.ErrMoved):
		a.moved(h, c, holder(err))
	case errors.Is(err, session.ErrExpired):
		a.expired(h, err)
	case dead(err):
		a.end(h, err)
	default:
		a.touchSoon(c)
	}
}

// touchPutOff makes the next touch due when the node that refused one says, or soon when it does not say. The next
// touch is never later than it was due before, because sessions with shorter timeouts may have come meanwhile.
func (a *answers) touchPutOff(c *Conn, err error) {
	if route.Hint(err) > 0 {
		c.touchAt = route.Earliest(c.touchAt, a.now.Add(a.cfg.Jitter.Wait(1, err)))
		return
	}
	a.touchSoon(c)
}
