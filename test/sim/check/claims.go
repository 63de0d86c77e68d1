package check

import (
	"maps"
	"slices"
	"time"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// The recipes that clients compete with, as [history.Claim] names them.
const (
	Lock      = "lock"
	ReadLock  = "read lock"
	Semaphore = "semaphore"
	Election  = "election"
	// Queue is the recipe of workers that wait for an item, Item the claim of an item.
	Queue = "queue"
	Item  = "item"
	// Once is the recipe of the job of a key.
	Once = "once"
)

// Permits is the number of permits of each semaphore.
const Permits = 2

// claims checks the grants of recipes from their callers' view: a holder works while a context of its grant lives; and
// the resource and the cluster report which token is the present holder's.
type claims struct{ judge }

// prize is everything known about the grants of one path.
type prize struct {
	path string
	// granted are the grants, in the order of time.
	granted []history.Event
	// sent is when each call was made, released when the cluster answered that a grant was given up. Both by the name
	// of the call.
	sent, released map[string]time.Duration
	// works are the contexts that lived, in the order of their starts.
	works []work
	// resource is what the resource accepted and refused, vouched the cluster's answers about tokens.
	resource, vouched []history.Event
	// forgone are the calls that ended without a grant.
	forgone []history.Event
	// lined is the newest listing of each line.
	lined map[string]history.Event
	// callers are all clients that ever asked.
	callers map[string]bool
	breaks
	// ceded are the grants that their holders gave up, and found lost.
	ceded []history.Event
}

// work is the life of one context of a grant.
type work struct {
	history.Event
	till time.Duration
}

func (c claims) check() {
	prizes := c.prizes()
	for _, path := range slices.Sorted(maps.Keys(prizes)) {
		p := prizes[path]
		c.alone(p)
		c.permits(p)
		c.tokens(p)
		c.fenced(p)
		for _, e := range p.vouched {
			c.vouched(p, e)
		}
		c.forgone(p)
		c.turns(p)
		c.left(p)
		c.broken(p)
	}
}

// prizes files the events by path.
func (c claims) prizes() map[string]*prize {
	prizes, ends := make(map[string]*prize), make(map[string]time.Duration)
	for _, e := range c.contested {
		if e.Kind == history.Rests {
			ends[e.Claim.Name] = e.At
		}
	}
	for _, e := range c.contested {
		p := prizes[e.Claim.Path]
		if p == nil {
			p = &prize{
				path: e.Claim.Path, sent: make(map[string]time.Duration), released: make(map[string]time.Duration),
				lined: make(map[string]history.Event), callers: make(map[string]bool), breaks: newBreaks(),
			}
			prizes[e.Claim.Path] = p
		}
		till, ended := ends[e.Claim.Name]
		if !ended {
			till = forever
		}
		p.note(e, till)
	}
	return prizes
}

// note records an event. till is the end of the context that the event starts.
func (p *prize) note(e history.Event, till time.Duration) {
	switch e.Kind { //nolint:exhaustive // the other kinds are not about claims, or only for the reader
	case history.Awaits:
		p.sent[e.Claim.Name] = e.At
		p.callers[e.Who] = true
	case history.Granted:
		p.granted = append(p.granted, e)
	case history.Works:
		p.works = append(p.works, work{e, till})
	case history.Broke:
		p.breaks.note(e)
	case history.Released:
		p.ceded = append(p.ceded, e)
		if e.Text == "" {
			p.released[e.Claim.Name] = e.At
		}
	case history.Stored, history.Fenced:
		p.resource = append(p.resource, e)
	case history.FenceChecked:
		p.vouched = append(p.vouched, e)
	case history.QueueRead:
		p.lined[e.Claim.Path] = e
	case history.GaveUp:
		p.forgone = append(p.forgone, e)
	}
}

// excludes reports whether two grants of one path must not be held at the same time.
func excludes(a, b history.Event) bool {
	if a.Claim.Token == b.Claim.Token && a.Who == b.Who { // one grant
		return false
	}
	shared := func(e history.Event) bool {
		return e.Claim.Recipe == ReadLock || e.Claim.Recipe == Semaphore || e.Claim.Recipe == Queue
	}
	return !shared(a) || !shared(b)
}

// alone checks that two holders that exclude each other never work at the same time, unless the former holder's entry
// was removed by another client: it works until it notices.
func (c claims) alone(p *prize) {
	for i, a := range p.works {
		c.checked("I15 alone")
		for _, b := range p.works[i+1:] {
			if b.At >= a.till {
				break
			}
			switch {
			case p.before(min(a.Claim.Token, b.Claim.Token), b.At):
				c.checked("broken beside")
			case excludes(a.Event, b.Event):
				c.fail("I15", b.ID, b.At, "works, and so does another holder until %.4fs: %s; beside %s", a.till.Seconds(),
					history.Line(b.Event), history.Line(a.Event))
			case b.Claim.Recipe == ReadLock && a.Claim.Token != b.Claim.Token:
				c.checked("I15 readers")
			}
		}
	}
}

// permits checks that at most the semaphore's number of holders works, without those whose permits other clients
// removed.
func (c claims) permits(p *prize) {
	var out []work
	for _, w := range p.works {
		if w.Claim.Recipe != Semaphore {
			continue
		}
		out = slices.DeleteFunc(out, func(o work) bool {
			return o.till <= w.At || o.Claim.Token == w.Claim.Token || p.before(o.Claim.Token, w.At)
		})
		if !p.before(w.Claim.Token, w.At) {
			out = append(out, w)
		}
		if len(out) == Permits {
			c.checked("I15 permits")
		}
		if len(out) > Permits {
			c.fail("I15", w.ID, w.At, "%d holders work with %d permits: %s; the first %s", len(out), Permits,
				history.Line(w.Event), history.Line(out[0].Event))
		}
	}
}

// tokens checks I15: a grant has a higher token than each earlier grant that it excludes, and than each grant that was
// given before its request. If its entry was removed, the client may learn of its grant after the next grant.
func (c claims) tokens(p *prize) {
	for i, e := range p.granted {
		for _, before := range p.granted[:i] {
			sent, ok := p.sent[e.Claim.Name]
			later := ok && before.At < sent
			if !later && (before.At == e.At || !excludes(before, e) || p.before(e.Claim.Token, e.At)) {
				continue
			}
			c.checked("I15 tokens")
			if e.Claim.Token <= before.Claim.Token {
				c.fail("I15", e.ID, e.At, "has no higher token than a holder before it: %s; behind %s", history.Line(e),
					history.Line(before))
			}
		}
	}
}

// fenced checks the resource: it accepts no write with a token below a seen token, and refuses only such writes; it
// refuses no holder whose context lives, unless its entry was removed.
func (c claims) fenced(p *prize) {
	var newest tree.Stamp
	for _, e := range p.resource {
		token := e.Claim.Token
		if e.Kind == history.Stored {
			c.checked("I15 stored")
			if token < newest {
				c.fail("I15", e.ID, e.At, "the resource took a write, and had seen token %v: %s", newest, history.Line(e))
			}
			newest = max(newest, token)
			continue
		}
		c.checked("I15 late")
		seen := func(o history.Event) bool {
			return o.Kind == history.Stored && o.Claim.Token == e.Claim.Newest && o.At <= e.At
		}
		if e.Claim.Newest <= token || !slices.ContainsFunc(p.resource, seen) {
			c.fail("I15", e.ID, e.At, "the resource refused a write without a newer one: %s", history.Line(e))
		}
		if !p.before(token, e.At) && slices.ContainsFunc(p.works, func(w work) bool {
			return w.Claim.Token == token && w.At <= e.At && e.At < w.till
		}) {
			c.fail("I15", e.ID, e.At, "the resource refused a holder whose context lives: %s", history.Line(e))
		}
	}
}

// vouched checks the cluster's answers about a token: the token is valid while a context of its grant lives; it is
// invalid after the cluster has confirmed that the grant was given up or removed, or another client got a grant that it
// excludes.
func (c claims) vouched(p *prize, e history.Event) {
	token := e.Claim.Token
	works := !p.before(token, e.At) && slices.ContainsFunc(p.works, func(w work) bool {
		return w.Claim.Token == token && w.At <= e.Sent && e.At < w.till
	})
	released, gone := p.released[e.Claim.Name]
	gone = gone && released < e.Sent || p.surely(token, e.Sent) ||
		slices.ContainsFunc(p.granted, func(g history.Event) bool {
			return g.Claim.Token > token && g.At < e.Sent && excludes(g, e)
		})
	switch {
	case works:
		c.checked("I15 holds")
		if !e.Claim.Holds {
			c.fail("I15", e.ID, e.At, "the cluster disowns a holder whose context lives: %s", history.Line(e))
		}
	case gone:
		c.checked("I15 held")
		if e.Claim.Holds {
			c.fail("I15", e.ID, e.At, "the cluster vouches for a former holder: %s", history.Line(e))
		}
	}
}

// forgone checks that a call ends without a grant only for a reason: its caller's, the removal of its entry by another
// client, or the end of its session, which the client may not know yet.
func (c claims) forgone(p *prize) {
	for _, e := range p.forgone {
		c.checked("forgone")
		if e.Unknown && !c.over(e.ID, e.At) && (!e.Claim.Broken || !p.beforeCall(e.Claim.Name, e.At)) {
			c.fail("liveness", e.ID, e.At, "given nothing, without a reason: %s", history.Line(e))
		}
	}
}

// turns checks that each client that ever asked gets its turn after the last fault.
func (c claims) turns(p *prize) {
	by := c.healed + c.bounds.Turn
	if c.healed == 0 || c.bounds.Turn == 0 {
		return
	}
	for _, who := range slices.Sorted(maps.Keys(p.callers)) {
		had := slices.ContainsFunc(p.granted, func(g history.Event) bool {
			return g.Who == who && g.At >= c.healed && g.At <= by
		})
		if !had && by > c.finished {
			continue
		}
		c.checked("turn")
		if !had {
			c.fail("liveness", 0, by, "%s requested %s, and was not granted it within %v after the last fault", who, p.path,
				c.bounds.Turn)
		}
	}
}

// left checks that lines are empty when all clients have stopped.
func (c claims) left(p *prize) {
	for _, e := range p.lined {
		c.checked("line")
		if len(e.Claim.Left) > 0 {
			c.fail("liveness", 0, e.At, "an entry without a waiter is in a queue: %s", history.Line(e))
		}
	}
}
