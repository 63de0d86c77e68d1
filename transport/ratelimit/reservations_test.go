package ratelimit

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/transport/internal/porttest"
)

// A request releases its slot when it comes back, and a connection releases all its slots when it ends.
func TestSlotsAreReleased(t *testing.T) {
	g := New(Config{Resumes: 10, Opens: 1000})
	drain(g, g.base, Resumes, Caller{})
	resume := func(id session.ID) Arrival { return Arrival{Kind: Resumes, Session: id} }
	wait := func(p *Reservations, at time.Duration, a Arrival) time.Duration {
		t.Helper()
		return porttest.RefusedBy(t, p.Admit(g.base.Add(at), a)).RetryAfter
	}
	const tick = 100 * time.Millisecond
	gone, stays := g.Reservations(Caller{}, 10), g.Reservations(Caller{}, 10)
	for i := range session.ID(10) {
		if got, want := wait(gone, 0, resume(i+1)), time.Duration(i+1)*tick; got != want {
			t.Fatalf("slot %d is after %v, want %v", i, got, want)
		}
	}
	if got := wait(gone, 0, resume(4)); got != 4*tick {
		t.Errorf("a request that came too soon is told to wait %v, want its own retry time", got)
	}
	if got := wait(stays, 0, resume(99)); got != 11*tick {
		t.Errorf("behind ten: %v", got)
	}
	gone.Leave()
	gone.Leave()
	if got := wait(stays, 0, resume(98)); got != 2*tick {
		t.Errorf("behind one, after ten have gone: %v", got)
	}
	if got := wait(stays, 0, resume(99)); got > 2*tick {
		t.Errorf("behind one, after ten have gone, the retry time stays %v", got)
	}
	if err := stays.Admit(g.base.Add(tick), resume(98)); err != nil {
		t.Fatal(err)
	}
	if got := wait(stays, tick, resume(97)); got != 2*tick {
		t.Errorf("behind one, after another was admitted: %v", got)
	}
	// The reader of an ended connection may be late: it gets no slot any more.
	for range 10 {
		wait(gone, tick, resume(1))
	}
	if got := wait(stays, tick, resume(96)); got != 3*tick {
		t.Errorf("behind two and a connection that has ended: %v", got)
	}
}

// The slots of a connection are bounded, and requests that are refused beyond the bound lengthen no queue.
func TestSlotsAreBounded(t *testing.T) {
	g := New(Config{Resumes: 10})
	drain(g, g.base, Resumes, Caller{})
	p := g.Reservations(Caller{}, 3)
	for i := range session.ID(1000) {
		porttest.RefusedBy(t, p.Admit(g.base, Arrival{Kind: Resumes, Session: i + 1}))
	}
	limit := porttest.RefusedBy(t, g.Reservations(Caller{}, 3).Admit(g.base, Arrival{Kind: Resumes, Session: 2000}))
	if len(p.slots) != 3 || limit.RetryAfter != 400*time.Millisecond {
		t.Errorf("%d slots are held, the next is after %v", len(p.slots), limit.RetryAfter)
	}
}

// Slots of requests that the client has given up, on a connection that lives on, are released for its later requests.
func TestSlotsOfAbandonedRequestsAreReused(t *testing.T) {
	const most, tick = 50, 10 * time.Millisecond
	g := New(Config{Opens: 100, Resumes: 100, Touches: 100})
	p := g.Reservations(Caller{}, most)
	open := func(i int) Arrival { return Arrival{Kind: Opens, Open: session.RequestID{byte(i)}} }
	refused := func(now time.Time, a Arrival) {
		t.Helper()
		drain(g, now, a.Kind, Caller{})
		porttest.RefusedBy(t, p.Admit(now, a))
	}
	holds := func(opens, resumes, touches int64) {
		t.Helper()
		for k, want := range map[Kind]int64{Opens: opens, Resumes: resumes, Touches: touches} {
			if got := g.node[k].waiting.Load() / int64(tick); got != want {
				t.Errorf("%d slots of %s, want %d", got, k, want)
			}
		}
	}
	for i := range 2 * most {
		refused(g.base, open(i))
	}
	holds(most, 0, 0)
	late := g.base.Add(session.MaxRetryAfter) // not too late for any request
	refused(late, Arrival{Kind: Resumes, Session: 1})
	holds(most, 0, 0)
	refused(late, Arrival{Kind: Touches})
	refused(late, Arrival{Kind: Touches})
	refused(late, open(0)) // shows that this open was not given up
	holds(most, 0, 1)
	later := late.Add(most*tick + time.Duration(searchInterval))
	refused(later, Arrival{Kind: Resumes, Session: 1})
	holds(1, 1, 1)
	if len(p.slots) != 3 {
		t.Errorf("%d slots are held, want 3", len(p.slots))
	}
}

// The search for slots to release does not run for every request.
func TestAFullConnectionIsSearchedOnceASecond(t *testing.T) {
	g := New(Config{Resumes: 100})
	drain(g, g.base, Resumes, Caller{})
	p := g.Reservations(Caller{}, 1)
	porttest.RefusedBy(t, p.Admit(g.base, Arrival{Kind: Resumes, Session: 1}))
	begin := g.base.Add(session.MaxRetryAfter)
	for ms := range 1100 {
		now := begin.Add(time.Duration(ms) * time.Millisecond)
		drain(g, now, Resumes, Caller{})
		porttest.RefusedBy(t, p.Admit(now, Arrival{Kind: Resumes, Session: 2}))
		if _, kept := p.slots[Arrival{Kind: Resumes, Session: 1}]; kept != (ms < 1000) {
			t.Fatalf("after %d ms, the slot of a request that does not come back is held: %t", ms, kept)
		}
	}
}
