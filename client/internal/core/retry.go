package core

import (
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
)

// pause has r repeated on c after a back-off, which grows with what c refused in a row and with the rounds over all
// nodes that came to nothing. Each request for which the node named a moment comes back at its own, so that those of
// one client do not come all at once either; one back-off serves all others that are refused meanwhile.
func (m *moves) pause(c *Conn, r *window.Request, err error) {
	n := max(c.window.Backoff(), m.router.Rounds)
	early := m.now.Before(r.Named)
	r.Named = time.Time{}
	if route.Hint(err) == 0 {
		c.window.PutOff(r, c.window.Pause(m.now, func() time.Duration { return m.cfg.Jitter.Wait(n, err) }))
		return
	}
	if !early {
		r.Refused++
	}
	r.Named = m.now.Add(route.Hint(err))
	c.window.PutOff(r, m.now.Add(m.comesBack(r, max(n, r.Refused), err)))
}

// tooLate reports whether a request that was put off is to be tried elsewhere, where it takes as long as spare. When
// another node has put the client off already, there is little to find elsewhere, and a moment within the promise is
// good enough: a client that goes to and fro has no place.
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
