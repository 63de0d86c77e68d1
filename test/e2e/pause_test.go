//go:build e2e

package e2e

import (
	"testing"
	"time"
)

// TestPause freezes one node's process for longer than a session's timeout. Its clients move. After waking up it ends
// and promises nothing.
func TestPause(t *testing.T) {
	t.Parallel()
	for _, role := range []string{follows, leads} {
		t.Run(role, func(t *testing.T) {
			c := up(t, 3)
			l := c.newLedger()
			victim := c.victim(role)
			stubborn := c.stubborn(victim)
			time.Sleep(minTimeout)
			before := c.metric(victim, "holdfast_process_pauses_total")
			all := l.settled(10, minTimeout, c.all()...) // now: on a busy machine clients leave a slow node

			since := time.Now()
			c.pause(victim)
			asleep := time.Now()
			if role == leads {
				c.awaitLeader(healWithin, c.but(victim)...)
				took(t, "leads", time.Since(since))
			}
			l.awaitOwners(healWithin, all, c.but(victim)...)
			l.moved(since, l.ownedBy(all, since, victim), c.but(victim)...)
			time.Sleep(2*minTimeout - time.Since(asleep)) // then the stubborn client's session is over, too
			c.unpause(victim)
			took(t, "paused for", time.Since(since))
			time.Sleep(minTimeout)
			stubborn.promisedNothingAsleep(asleep)
			l.noneEnded(all)
			c.awaitServing(healWithin, c.all()...)
			if after := c.metric(victim, "holdfast_process_pauses_total"); after <= before {
				t.Errorf("node %d counts %v stalls, and %v before it was paused", victim, after, before)
			}
			l.servesOn(victim)
		})
	}
}

// TestPauseAll freezes all nodes for 30 seconds, many times the timeout of a session. No session of a client that comes
// back in time is lost (I8 a sick server kills nobody): the session has a full timeout from then on. The session of a
// client that has gone expires after that.
func TestPauseAll(t *testing.T) {
	const lasts = 30 * time.Second
	const long = 4 * minTimeout // the session of the client that has gone is alive when the last node is paused
	c := up(t, 3)
	l := c.newLedger()
	all := l.settled(10, minTimeout, c.all()...)
	x := l.client()
	gone := l.open(x, 1, long)[0]
	time.Sleep(minTimeout)
	x.Close()
	left := time.Now()

	for _, n := range c.all() {
		c.pause(n)
	}
	paused := time.Now()
	time.Sleep(lasts)
	l.unsafe(all)
	woken := time.Now()
	for _, n := range c.all() {
		c.unpause(n)
	}
	took(t, "paused for", woken.Sub(paused))
	l.awaitOwners(healWithin, all, c.all()...)
	l.moved(woken, all, c.all()...)
	cert := *c.awaitEnd(gone.session.ID(), woken.Add(long+healWithin)).Certificate
	l.kept(gone, cert)
	// The silence before the pause counts. The leader knows its length only up to an interval and a round.
	if after, want := cert.EndedAt.Sub(woken), long-paused.Sub(left)-time.Second; after < want {
		t.Errorf("I8: it expired %v after its cluster woke up, want no sooner than %v: %+v", after, want, cert)
	}
	took(t, "expiry of the dead after", cert.EndedAt.Sub(woken))
	c.awaitServing(healWithin, c.all()...)
	l.noneEnded(all)
	l.servesOn(c.all()...)
}
