//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
)

// minTimeout is the smallest timeout of a cluster with the default tick: sessions of it show soonest what goes wrong.
const minTimeout = 4 * time.Second

// TestSteady holds sessions on every node for many timeouts: no promise ever runs out, and nothing is written for it.
func TestSteady(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	var all []*account
	for _, n := range c.all() {
		_, opened := l.clientAt(n, 20, minTimeout)
		all = append(all, opened...)
	}
	leader := c.awaitServing(10*time.Second, c.all()...)
	before, err := c.status(leader)
	if err != nil {
		t.Fatal(err)
	}
	if before.Global != uint64(len(all)) {
		t.Errorf("the leader knows %d sessions, want %d", before.Global, len(all))
	}
	const timeouts = 6
	time.Sleep(timeouts * minTimeout)
	l.noneEnded(all)
	l.noneLapsed(all)
	after, err := c.status(leader)
	if err != nil {
		t.Fatal(err)
	}
	if wrote := after.CommitIndex - before.CommitIndex; wrote > timeouts {
		t.Errorf("%d entries were written while nothing happened but %d sessions being alive", wrote, len(all))
	}
	for _, a := range all {
		if got := l.look(a).moves; len(got) != 1 {
			t.Errorf("session %s was served by nodes %v, want one all the time", a.session.ID(), got)
		}
	}
}

// TestExpiry silences a client: its session lives for the promise, ends in time, and the certificate says why.
func TestExpiry(t *testing.T) {
	c := up(t, 3)
	for _, n := range c.all() {
		l := c.newLedger()
		x, opened := l.clientAt(n, 1, minTimeout)
		a := opened[0]
		time.Sleep(minTimeout) // so that a touch of its own keeps it alive, and not the open
		owner := a.session.Owner()
		token := a.session.Token()
		x.Close()
		silent := time.Now()
		found := c.awaitEnd(a.session.ID(), silent.Add(minTimeout+minTimeout/200+250*time.Millisecond+2*time.Second))
		cert := *found.Certificate
		l.kept(a, cert)
		if cert.Cause != session.CauseExpired || cert.Owner != owner || cert.ID != a.session.ID() {
			t.Errorf("certificate %+v, want expired, owner %d", cert, owner)
		}
		if cert.LastTouchAge < minTimeout || cert.LastTouchAge > minTimeout+2*time.Second {
			t.Errorf("the certificate says it was touched %v before, want a little more than %v", cert.LastTouchAge, minTimeout)
		}
		// A machine that stalls is credited (A1).
		if took := cert.EndedAt.Sub(silent); took > minTimeout+2*time.Second+cert.Credited {
			t.Errorf("it expired %v after its client fell silent, want about %v", took, minTimeout)
		}
		// Whoever comes back with the token is told the same.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := watcher(t, c.endpoints(c.all()...)...).Resume(ctx, token)
		cancel()
		expectEnd(t, err, cert)
	}
}

// TestClose ends a session on its client's wish, and the certificate tells it from an expiry.
func TestClose(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	a := l.open(l.client(), 1, minTimeout)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := a.session.Close(ctx); err != nil {
		t.Fatal(err)
	}
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
