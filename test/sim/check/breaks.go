package check

import (
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// breaks are the entries of one prize that were removed by clients other than their owners.
type breaks struct {
	// tokens are the removals by the stamps of the entries, calls the times of their first requests, by the calls whose
	// entries they were.
	tokens map[tree.Stamp]history.Event
	calls  map[string]time.Duration
}

func newBreaks() breaks {
	return breaks{make(map[tree.Stamp]history.Event), make(map[string]time.Duration)}
}

// note records a removal. Of several attempts, the attempt that the client knows succeeded counts.
func (b breaks) note(e history.Event) {
	first, again := b.tokens[e.Claim.Token]
	if again && e.Text != "" {
		e.At, e.Text = first.At, first.Text
	}
	if again {
		e.Sent = min(e.Sent, first.Sent)
	}
	b.tokens[e.Claim.Token], b.calls[e.Claim.Name] = e, e.Sent
}

// before reports whether the entry may have been removed before a moment, surely whether it was.
func (b breaks) before(token tree.Stamp, moment time.Duration) bool {
	e, ok := b.tokens[token]
	return ok && e.Sent <= moment
}

func (b breaks) surely(token tree.Stamp, moment time.Duration) bool {
	e, ok := b.tokens[token]
	return ok && e.Text == "" && e.At <= moment
}

// beforeCall is before for the entry of a call, which may have got no grant.
func (b breaks) beforeCall(name string, moment time.Duration) bool {
	sent, ok := b.calls[name]
	return ok && sent <= moment
}

// over reports whether a session had ended by a moment.
func (s *sessions) over(id session.ID, moment time.Duration) bool {
	l := s.lives[id]
	return l != nil && l.end != nil && l.end.At <= moment
}

// broken checks a holder whose entry another client removes: it stops working soon, unless its process is paused, and
// cannot give up the lost grant. A holder learns of a removal only if its entry was removed.
func (c claims) broken(p *prize) {
	for _, w := range p.works {
		b, ok := p.tokens[w.Claim.Token]
		by := b.At + c.bounds.Commit
		if !ok || b.Text != "" || w.At > b.At || w.till < b.Sent || !c.calm(b.At, by) || c.wasFrozen(w.Who, b.At, by) {
			continue
		}
		c.checked("broken reported")
		if w.till > by {
			c.fail("broken", w.ID, by, "works until %.4fs, and its entry was removed: %s; %s", w.till.Seconds(),
				history.Line(w.Event), history.Line(b))
		}
	}
	for _, e := range p.ceded {
		switch {
		case e.Text == "" && p.surely(e.Claim.Token, e.At):
			c.misled(e, "broken", "released what another client had removed")
		case e.Claim.Broken:
			c.checked("broken ceded")
			if !p.before(e.Claim.Token, e.At) && !c.over(e.ID, e.At) {
				c.misled(e, "broken", "no client had removed its entry")
			}
		}
	}
}

// wasFrozen reports whether a client process was frozen at some time between two moments.
func (c *clients) wasFrozen(who string, from, till time.Duration) bool {
	for _, s := range c.frozen {
		if s.who == who && s.overlaps(from, till) {
			return true
		}
	}
	return false
}
