//go:build e2e

package e2e

import (
	"testing"
	"time"
)

// TestElectsAtOnce kills the leader's container. A survivor stands because the others back it, long before Raft's
// timeouts: its counter says so, and there is one new term. Sessions open through every survivor.
func TestElectsAtOnce(t *testing.T) {
	c := up(t, 3)
	for range 3 {
		time.Sleep(time.Second) // a new term binds its voters for a while (F3 one backing at a time)
		victim := c.victim(leads)
		rest := c.but(victim)
		term, stood := 0.0, 0.0
		for _, n := range rest {
			term = max(term, c.metric(n, "holdfast_raft_term"))
			stood += c.metric(n, "holdfast_elections_started_total")
		}
		since := time.Now()
		c.kill(victim)
		next := c.awaitLeader(healWithin, rest...)
		took(t, "leads after docker kill", time.Since(since))
		l := c.newLedger()
		for _, n := range rest {
			l.clientAt(n, 1, minTimeout)
		}
		after := 0.0
		for _, n := range rest {
			after += c.metric(n, "holdfast_elections_started_total")
		}
		if got := c.metric(next, "holdfast_raft_term"); after != stood+1 || got != term+1 {
			t.Errorf("the others stood %v times at once, and the term went from %v to %v; want once, and the next term",
				after-stood, term, got)
		}
		l.audit()
		c.start(victim)
		c.awaitServing(healWithin, c.all()...)
	}
}
