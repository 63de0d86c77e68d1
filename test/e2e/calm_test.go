//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

// minTimeout is the smallest timeout that a cluster grants by default: its sessions show trouble first.
const minTimeout = 4 * time.Second

// TestSteady holds sessions on every node for many timeouts. No promise ever runs out, and the cluster writes nothing
// for it.
func TestSteady(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	var all []*account
	for _, n := range c.all() {
		_, opened := l.clientAt(n, 20, 2*minTimeout)
		all = append(all, opened...)
	}
	leader := c.awaitServing(healWithin, c.all()...)
	before, err := c.status(leader)
	timeout.Check(t, err)
	if before.Global != uint64(len(all)) {
		t.Errorf("the leader knows %d sessions, want %d", before.Global, len(all))
	}
	const timeouts = 3
	least := 2 * minTimeout // of the SDK's promises, just before the answer to the next touch
	for end := time.Now().Add(timeouts * 2 * minTimeout); time.Now().Before(end); time.Sleep(sweepEvery) {
		for _, a := range all {
			least = min(least, time.Until(a.session.SafeUntil()))
		}
	}
	took(t, "least left of a promise of 8 s", least)
	l.noneEnded(all)
	l.noneLapsed(all)
	l.stayed(all) // a move writes an entry
	after, err := c.status(leader)
	timeout.Check(t, err)
	// The leader forgets old requests now and then (O2 idempotent opens), including those of former tests in the cluster.
	// Each session was touched nine times.
	if wrote := after.CommitIndex - before.CommitIndex; wrote > uint64(len(all))/6 {
		t.Errorf("%d entries were written for %d sessions that only stayed alive", wrote, len(all))
	}
	count(t, "entries written", "", int(after.CommitIndex-before.CommitIndex))
}

// TestExpiry silences a client of each node. Its session lives until the end of the promise and then ends, and the
// certificate says why. How soon it ends is a figure (the tests in bubbles judge it).
func TestExpiry(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	var clients []*client.Client
	var opened []*account
	for _, n := range c.all() {
		x, one := l.clientAt(n, 1, minTimeout)
		clients, opened = append(clients, x), append(opened, one...)
	}
	time.Sleep(minTimeout) // so that the touches keep them alive, not the opens
	silent := make([]time.Time, len(opened))
	tokens := make([]session.Token, len(opened))
	for i, a := range opened {
		tokens[i] = a.session.Token()
		clients[i].Close()
		silent[i] = time.Now()
	}
	for i, a := range opened {
		found := c.awaitEnd(a.session.ID(), silent[i].Add(minTimeout+healWithin))
		cert := *found.Certificate
		l.kept(a, cert)
		if cert.Cause != session.CauseExpired || cert.Owner != a.session.Owner() || cert.ID != a.session.ID() {
			t.Errorf("certificate %+v, want expired, owner %d", cert, a.session.Owner())
		}
		if cert.LastTouchAge < minTimeout {
			t.Errorf("the certificate says it was touched %v before, want at least %v", cert.LastTouchAge,
				minTimeout)
		}
		took(t, fmt.Sprintf("expiry on node %d after", a.session.Owner()), cert.EndedAt.Sub(silent[i]))
		// A client that comes back with the token is told the same.
		ctx, cancel := context.WithTimeout(t.Context(), healWithin)
		_, err := c.watcher(c.all()...).Resume(ctx, tokens[i])
		cancel()
		expectEnd(t, err, cert)
	}
}

// TestClose closes a session. The certificate distinguishes the close from an expiry.
func TestClose(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	a := l.open(l.client(), 1, minTimeout)[0]
	ctx, cancel := context.WithTimeout(t.Context(), healWithin)
	defer cancel()
	timeout.Check(t, a.session.Close(ctx))
	found, err := c.find(a.session.ID(), c.all()...)
	if err != nil || found.Certificate == nil || found.Certificate.Cause != session.CauseClosed {
		t.Errorf("after the close: %+v, %v; want a certificate that says closed", found, err)
	}
}

// awaitEnd waits until the cluster shows a session's certificate.
func (c *cluster) awaitEnd(id session.ID, by time.Time) client.Found {
	c.t.Helper()
	var found client.Found
	c.await(time.Until(by), "session "+id.String()+" has ended", func() (bool, string) {
		var err error
		if found, err = c.find(id, c.all()...); err != nil {
			return false, err.Error()
		}
		return found.Certificate != nil, found.Session.ID.String() + " lives, remaining " + found.Remaining.String()
	})
	return found
}
