//go:build e2e

package e2e

import (
	"errors"
	"slices"
	"testing"
	"time"

	"holdfast/session"
)

// healWithin bounds each wait for nodes and clients after a fault, on a busy machine: for an election, for Raft's
// back-off after a heal, and for clients that move. The figures show the real times.
const healWithin = 30 * time.Second

func expectEnd(t *testing.T, err error, cert session.Certificate) {
	t.Helper()
	var expired *session.ExpiredError
	if !errors.As(err, &expired) || expired.Certificate == nil {
		t.Errorf("got %v, want the end of the session with its certificate", err)
	} else if !expired.Certificate.Equal(cert) {
		t.Errorf("got certificate %+v, want %+v", *expired.Certificate, cert)
	}
}

// settled opens count sessions through each of nodes, and waits until they are safe there.
func (l *ledger) settled(count int, timeout time.Duration, nodes ...int) []*account {
	l.c.t.Helper()
	var all []*account
	for _, n := range nodes {
		_, opened := l.clientAt(n, count, timeout)
		all = append(all, opened...)
	}
	l.awaitOwners(healWithin, all, nodes...)
	return all
}

// servesOn checks that former sessions are still held, and that nodes serve new ones.
func (l *ledger) servesOn(nodes ...int) {
	l.c.t.Helper()
	for _, n := range nodes {
		l.clientAt(n, 1, minTimeout)
	}
	all := slices.DeleteFunc(l.all(), func(a *account) bool { return a.gone })
	l.noneEnded(all)
	l.awaitOwners(healWithin, all, l.c.all()...)
}

// follower returns a node that does not lead.
func (c *cluster) follower(leader int) int { return c.but(leader)[0] }

// Roles of the node that a fault hits.
const (
	leads   = "leader"
	follows = "learner"
)

// victim returns a node in a role: the leader, or a follower.
func (c *cluster) victim(role string) int {
	c.t.Helper()
	leader := c.awaitServing(healWithin, c.all()...)
	if role == leads {
		return leader
	}
	return c.follower(leader)
}

// TestKillOne ends the process of one node with SIGKILL, once a follower's and once the leader's. The node comes back
// from its disk.
func TestKillOne(t *testing.T) {
	t.Parallel()
	for _, role := range []string{follows, leads} {
		t.Run(role, func(t *testing.T) {
			c := up(t, 3)
			l := c.newLedger()
			victim := c.victim(role)
			all := l.settled(10, minTimeout, c.all()...)
			since := time.Now()
			c.kill(victim)
			if role == leads {
				c.awaitLeader(healWithin, c.but(victim)...)
				took(t, "leads", time.Since(since))
			}
			l.awaitOwners(healWithin, all, c.but(victim)...)
			time.Sleep(minTimeout)
			l.noneEnded(all)
			c.start(victim)
			c.awaitServing(healWithin, c.all()...)
			l.servesOn(victim)
		})
	}
}

// TestOrderedStop stops the leader as an operator does. The leader first hands leadership over. Its clients move, and
// none of them is without a promise for a moment.
func TestOrderedStop(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	leader := c.awaitServing(healWithin, c.all()...)
	all := l.settled(10, 2*minTimeout, c.all()...)
	time.Sleep(minTimeout)
	c.stop(leader, "-t", "15")
	stopped := time.Now()
	if got := c.state(leader); got != "exited" {
		t.Errorf("node %d is %s, want exited", leader, got)
	}
	if now := c.awaitLeader(healWithin, c.but(leader)...); now == leader {
		t.Errorf("node %d leads, and has stopped", now)
	}
	took(t, "leads", time.Since(stopped))
	l.awaitOwners(healWithin, all, c.but(leader)...)
	time.Sleep(minTimeout)
	l.noneEnded(all)
	l.noneLapsed(all)
	c.start(leader)
	c.awaitServing(healWithin, c.all()...)
	l.servesOn(leader)
}
