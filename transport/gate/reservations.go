package gate

import (
	"sync"
	"time"

	"holdfast/session"
)

// Arrival names a request of a connection: when it comes again, it is the same one. A connection's touches are one.
type Arrival struct {
	Kind Kind
	// Session is what a resume resumes.
	Session session.ID
	// Open is the id of an open.
	Open session.RequestID
}

// Reservations are the places that requests of one connection hold in the queues of a gate, from a refusal until they
// come back or the connection ends: nobody lines up behind those who have gone. A request that the client has given up
// never comes back: its place is given to another when no other is free and its moment is so long ago that it is worth
// nothing. Safe for concurrent use.
type Reservations struct {
	gate   *Gate
	caller Caller
	most   int

	mu   sync.Mutex
	left bool              // guarded by mu
	held map[Arrival]place // guarded by mu
	// searched is when held was last looked through for places to give on. guarded by mu
	searched int64
}

type place struct {
	bucket *bucket
	// due is the moment that was promised.
	due int64
}

// Reservations returns the places of a connection, none yet and at most so many, and one for its touches: what is
// refused beyond that is served as Admit serves it. The caller calls Leave when the connection ends.
func (g *Gate) Reservations(v Caller, most int) *Reservations {
	return &Reservations{gate: g, caller: v, most: most}
}

// Admit takes a request that comes at now out of the budgets it counts in, or refuses it as [Gate.Admit] does, with a
// place. One that comes before its moment keeps it, or is promised a sooner one when the queue has become shorter.
func (p *Reservations) Admit(now time.Time, a Arrival) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := int64(now.Sub(p.gate.base))
	former, waited := p.held[a]
	if waited {
		former.bucket.leave(1)
		delete(p.held, a)
	}
	b, scope := p.gate.take(at, a.Kind, 1, p.caller)
	switch {
	case b == nil:
		return nil
	case p.left || !p.room(at, a.Kind):
		return p.gate.refused(a.Kind, scope, b.refuse(at, 1)-at)
	case b != former.bucket:
		former.due = 0
	}
	if p.held == nil {
		p.held = map[Arrival]place{}
	}
	due := b.wait(at, former.due)
	p.held[a] = place{b, due}
	return p.gate.refused(a.Kind, scope, due-at)
}

// searchInterval is how often a connection without a free place looks for one: a look costs as much as there are
// places.
const searchInterval = int64(time.Second)

// room reports whether a request may hold a place. Touches always may: sessions live by them, and all of a connection
// are one request, whose place is not counted. Called with mu held.
func (p *Reservations) room(at int64, k Kind) bool {
	most := p.most
	if _, touches := p.held[Arrival{Kind: Touches}]; touches {
		most++
	}
	if k == Touches || len(p.held) < most {
		return true
	}
	if at >= p.searched+searchInterval {
		p.searched = at
		for a, h := range p.held {
			if a.Kind != Touches && h.due+int64(session.MaxRetryAfter) < at {
				h.bucket.leave(1)
				delete(p.held, a)
			}
		}
	}
	return len(p.held) < most
}

// Unserved is [Gate.Unserved] for a request that Admit admitted.
func (p *Reservations) Unserved(now time.Time, k Kind, err error) {
	p.gate.Unserved(now, k, 1, p.caller, err)
}

// NotBegun returns what Admit took for a request that the connection refused to begin.
func (p *Reservations) NotBegun(now time.Time, k Kind) { p.gate.giveBack(now, k, 1, p.caller) }

// Leave gives all places up, for good.
func (p *Reservations) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.held {
		h.bucket.leave(1)
	}
	p.left, p.held = true, nil
}
