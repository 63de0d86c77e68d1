package core

import (
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
)

// pause repeats r on c later. A request for which the node named a moment comes back at that moment, so the requests of
// one client do not come all at once. Requests without such a moment share one back-off, which grows with the refusals
// in a row and the rounds in vain.
func (m *moves) pause(c *Conn, r *window.Request, err error) {
	n := max(c.window.Backoff(), m.router.Rounds)
	early := m.now.Before(r.Named)
	r.Named = time.Time{}
	if route.Hint(err) == 0 {
		c.window.PutOff(r, c.window.Pause(m.now, func() time.Duration { return m.backoff(n) }))
		return
	}
	if !early {
		r.Refused++
	}
	r.Named = m.now.Add(route.Hint(err))
	wait := m.comesBack(r, max(n, r.Refused), err)
	if c.batch > 1 && goesAlong(r.Body) {
		wait = (wait + resumesEvery - 1).Truncate(resumesEvery)
	}
	c.window.PutOff(r, m.now.Add(wait))
}

// tooLate reports whether the client should ask another node instead of waiting for r. It should when the node has put
// r off maxPutOffs times, or names a moment that leaves less than spare of the session's promise, unless the wait is
// shorter than an attempt to connect. When another node has put the client off already, spare counts as zero: a client
// that goes to and fro never reaches the front of a queue.
func (m *moves) tooLate(r *window.Request, spare time.Duration) bool {
	b, resume := r.Body.(*resumeBody)
	switch {
	case !resume || !b.Wanted():
		return false
	case r.Refused >= MaxPutOffs:
		return true
	}
	if !m.router.Soonest(m.now).IsZero() {
		spare = 0
	}
	return r.Named.After(m.now.Add(m.bound(connectPart, m.cfg.ConnectTimeout))) && r.Named.Add(spare).After(b.h.until)
}
