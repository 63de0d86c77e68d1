//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/timeout"
)

// TestLoss kills nodes at once, for longer than a session's timeout: as many as a cluster can lose, and one more. A
// remaining majority serves on. A minority promises nothing and ends nothing, not even a session whose client has gone
// (I8 a sick server kills nobody). That session expires when there is a leader again, at least a timeout after that.
func TestLoss(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		nodes, killed int
		full          bool
	}{
		{nodes: 3, killed: 2}, {nodes: 5, killed: 2, full: true}, {nodes: 5, killed: 3},
	} { // TestKillOne kills the minority of three
		t.Run(fmt.Sprintf("%d of %d", test.killed, test.nodes), func(t *testing.T) {
			if test.full && !full {
				t.Skip("only E2E=full runs this")
			}
			c := up(t, test.nodes)
			l := c.newLedger()
			leader := c.awaitServing(healWithin, c.all()...)
			victims := append([]int{leader}, c.but(leader)[:test.killed-1]...)
			left := c.but(victims...)
			all := l.settled(10, minTimeout, c.all()...)
			x := l.client()
			// A session at a minority must still be alive when the last node dies. Until then there may be a quorum and
			// a leader.
			timeout := minTimeout
			if len(left) <= test.nodes/2 {
				timeout = 4 * minTimeout
			}
			gone := l.open(x, 1, timeout)[0]
			stubborn := c.stubborn(left[0])
			time.Sleep(minTimeout)
			x.Close()

			since := time.Now()
			c.kill(victims...)
			dead := time.Now()
			if len(left) > test.nodes/2 {
				c.awaitLeader(healWithin, left...)
				took(t, "leads", time.Since(since))
				l.awaitOwners(healWithin, all, left...)
				l.moved(since, l.ownedBy(all, since, victims...), left...)
				l.kept(gone, *c.awaitEnd(gone.session.ID(), dead.Add(minTimeout+healWithin)).Certificate)
			} else {
				time.Sleep(2 * minTimeout)
				stubborn.promisedNothing(dead)
				for _, n := range left {
					if s, err := c.status(n); err != nil || s.Ready || s.Role == "leader" {
						t.Errorf(
							"node %d of a minority says %+v, %v; want an answer that it is not ready and does not lead",
							n, s, err,
						)
					}
				}
				l.unsafe(all)
			}
			l.noneEnded(all)

			back := time.Now()
			c.start(victims...)
			c.awaitLeader(healWithin, c.all()...)
			took(t, "leads after the return", time.Since(back))
			l.awaitOwners(healWithin, all, c.all()...)
			took(t, "all served after the return", time.Since(back))
			if len(left) <= test.nodes/2 {
				cert := *c.awaitEnd(gone.session.ID(), back.Add(timeout+healWithin)).Certificate
				l.kept(gone, cert)
				if after := cert.EndedAt.Sub(back); after < timeout {
					t.Errorf("I8: it expired %v after its cluster came back: %+v", after, cert)
				}
			}
			c.awaitServing(healWithin, c.all()...)
			l.servesOn(c.all()...)
		})
	}
}

// TestKillAll ends all nodes with SIGKILL for longer than a session's timeout. No session loses by it (I8): all are
// there when the nodes come back, and so are the certificates of the dead.
func TestKillAll(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	all := l.settled(10, minTimeout, c.all()...)
	dead := l.open(l.client(), 1, minTimeout)[0]
	ctx, cancel := context.WithTimeout(t.Context(), healWithin)
	defer cancel()
	timeout.Check(t, dead.session.Close(ctx))

	c.kill(c.all()...)
	time.Sleep(minTimeout + 2*time.Second)
	l.unsafe(all)
	since := time.Now()
	c.start(c.all()...)
	c.awaitServing(healWithin, c.all()...)
	l.awaitOwners(healWithin, all, c.all()...)
	l.moved(since, all, c.all()...)
	l.noneEnded(all)
	found, err := c.find(dead.session.ID(), c.all()...)
	if err != nil || found.Certificate == nil || found.Certificate.Cause != session.CauseClosed {
		t.Errorf("the closed session: %+v, %v; want its certificate", found, err)
	}
}
