package ratelimit

import (
	"sync"
	"time"

	"holdfast/session"
)

// Arrival identifies a request of a connection, so that a retry is recognized as the same request. All touches of a
// connection are the same request.
type Arrival struct {
	Kind Kind
	// Session is the session that a resume names.
	Session session.ID
	// Open is the request id of an open.
	Open session.RequestID
}

// Reservations are the slots that requests of one connection hold in the queues of a limiter, from a refusal until the
// request comes back or the connection ends. So no request waits behind requests that have gone. A request that the
// client has given up never comes back: when no other slot is free, its slot is released once its retry time is long
// past. Safe for concurrent use.
type Reservations struct {
	limiter *Limiter
	caller  Caller
	limit   int

	mu    sync.Mutex
	left  bool             // guarded by mu
	slots map[Arrival]slot // guarded by mu
	// searched is the time of the last search for slots to release. guarded by mu
	searched int64
}

type slot struct {
	bucket *bucket
	// due is the retry time.
	due int64
}

// Reservations returns the reservations of a connection: at most limit, plus one for its touches. Requests beyond that
// are refused as Admit refuses them. The caller calls Leave when the connection ends.
func (g *Limiter) Reservations(v Caller, limit int) *Reservations {
	return &Reservations{limiter: g, caller: v, limit: limit}
}

// Admit takes a request that comes at now out of its buckets, or refuses it as [Limiter.Admit] does, but with a
// reservation. A request that comes before its retry time keeps its slot, or gets an earlier one when the queue has
// become shorter.
func (p *Reservations) Admit(now time.Time, a Arrival) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := int64(now.Sub(p.limiter.base))
	former, waited := p.slots[a]
	if waited {
		former.bucket.leaveQueue(1)
		delete(p.slots, a)
	}
	if err := p.limiter.Held(a.Kind); err != nil {
		return err
	}
	b, scope := p.limiter.take(at, a.Kind, 1, p.caller)
	switch {
	case b == nil:
		return nil
	case p.left || !p.available(at, a.Kind):
		return p.limiter.refused(a.Kind, scope, b.refuse(at, 1)-at)
	case b != former.bucket:
		former.due = 0
	}
	if p.slots == nil {
		p.slots = map[Arrival]slot{}
	}
	due := b.wait(at, former.due)
	p.slots[a] = slot{b, due}
	return p.limiter.refused(a.Kind, scope, due-at)
}

// searchInterval is the shortest time between two searches of a connection for a slot to release: the cost of a search
// grows with the number of slots.
const searchInterval = int64(time.Second)

// available reports whether a request may get a slot. Touches always may: sessions depend on them, and all touches of a
// connection are one request, which does not count. Called with mu held.
func (p *Reservations) available(at int64, k Kind) bool {
	limit := p.limit
	if _, touches := p.slots[Arrival{Kind: Touches}]; touches {
		limit++
	}
	if k == Touches || len(p.slots) < limit {
		return true
	}
	if at >= p.searched+searchInterval {
		p.searched = at
		for a, h := range p.slots {
			if a.Kind != Touches && h.due+int64(session.MaxRetryAfter) < at {
				h.bucket.leaveQueue(1)
				delete(p.slots, a)
			}
		}
	}
	return len(p.slots) < limit
}

// Unserved is [Limiter.Unserved] for a request that Admit admitted.
func (p *Reservations) Unserved(now time.Time, k Kind, err error) {
	p.limiter.Unserved(now, k, 1, p.caller, err)
}

// NotBegun returns the tokens of a request that the connection did not begin.
func (p *Reservations) NotBegun(now time.Time, k Kind) { p.limiter.refund(now, k, 1, p.caller) }

// Leave releases all slots, for good.
func (p *Reservations) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.slots {
		h.bucket.leaveQueue(1)
	}
	p.left, p.slots = true, nil
}
