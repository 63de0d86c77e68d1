//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"holdfast/session"
)

const (
	// moveWithin is how long clients of a node that is cut off may take to be served by another one.
	moveWithin = minTimeout
	// healWithin is how long nodes may take to find together again after a fault: Raft's back-off after a heal, and an election.
	healWithin = 30 * time.Second
)

func expectEnd(t *testing.T, err error, cert session.Certificate) {
	t.Helper()
	var expired *session.ExpiredError
	if !errors.As(err, &expired) || expired.Certificate == nil {
		t.Errorf("got %v, want that the session has ended, with its certificate", err)
	} else if *expired.Certificate != cert {
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
	l.awaitOwners(10*time.Second, all, nodes...)
	return all
}

// servesOn shows that what was open before is held still, and that nodes serve new sessions.
func (l *ledger) servesOn(nodes ...int) {
	l.c.t.Helper()
	for _, n := range nodes {
		l.clientAt(n, 1, minTimeout)
	}
	l.mu.Lock()
	all := append([]*account(nil), l.accounts...)
	l.mu.Unlock()
	l.noneEnded(all)
	l.awaitOwners(2*minTimeout, all, l.c.all()...)
}

// pick returns a node that does not lead.
func (c *cluster) follower(leader int) int { return c.but(leader)[0] }

// TestLearnerCutOff drops all packets between a node that does not lead and its peers. Its clients still reach it, and
// move.
func TestLearnerCutOff(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	leader := c.awaitServing(10*time.Second, c.all()...)
	victim := c.follower(leader)
	moving, staying := l.settled(10, minTimeout, victim), l.settled(10, minTimeout, c.but(victim)...)

	cut := c.cut([]int{victim}, c.but(victim))
	l.awaitOwners(moveWithin, moving, c.but(victim)...)
	time.Sleep(2 * minTimeout)
	l.noneLapsed(append(moving, staying...))
	if s, err := c.status(victim); err != nil || s.Ready {
		t.Errorf("the node that is cut off says %+v, %v; want an answer that it is not ready", s, err)
	}
	cut.heal()

	c.awaitServing(healWithin, c.all()...)
	l.servesOn(victim)
}

// TestLearnerDisconnected takes a node's interface to its peers away, and gives it back.
func TestLearnerDisconnected(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	leader := c.awaitServing(10*time.Second, c.all()...)
	victim := c.follower(leader)
	moving := l.settled(10, minTimeout, victim)

	c.disconnect(victim)
	l.awaitOwners(moveWithin, moving, c.but(victim)...)
	time.Sleep(minTimeout)
	l.noneLapsed(moving)
	c.connect(victim)

	c.awaitServing(healWithin, c.all()...)
	l.servesOn(victim)
}

// TestLeaderCutOff drops all packets between the leader and its peers, while clients still reach it: another node leads, the old leader's
// clients move and none expires, and the old leader serves and promises nothing.
func TestLeaderCutOff(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			c := up(t, nodes)
			l := c.newLedger()
			old := c.awaitServing(10*time.Second, c.all()...)
			all := l.settled(10, minTimeout, c.all()...)
			stubborn := c.stubborn(old)
			time.Sleep(minTimeout)

			cut := c.cut([]int{old}, c.but(old))
			since := time.Now()
			now := c.awaitLeader(moveWithin, c.but(old)...)
			l.awaitOwners(moveWithin, all, c.but(old)...)
			time.Sleep(2 * minTimeout)
			stubborn.promisedNothing(since)
			l.noneEnded(all)
			if s, err := c.status(old); err != nil || s.Ready || s.Role == "leader" {
				t.Errorf("the old leader says %+v, %v; want an answer that it is not ready and does not lead", s, err)
			}
			cut.heal()

			t.Logf("node %d led, then node %d", old, now)
			if got := c.awaitServing(healWithin, c.all()...); got == 0 || now == old {
				t.Errorf("node %d leads, then %d; want another one", old, now)
			}
			l.servesOn(old)
		})
	}
}

// TestMinorityCutOff drops all packets between two nodes, one of them the leader, and the other three.
func TestMinorityCutOff(t *testing.T) {
	c := up(t, 5)
	l := c.newLedger()
	old := c.awaitServing(10*time.Second, c.all()...)
	minority := []int{old, c.follower(old)}
	majority := c.but(minority...)
	all := l.settled(5, minTimeout, c.all()...)

	cut := c.cut(minority, majority)
	c.awaitLeader(moveWithin, majority...)
	l.awaitOwners(moveWithin, all, majority...)
	time.Sleep(2 * minTimeout)
	l.noneEnded(all)
	for _, n := range minority {
		if s, err := c.status(n); err != nil || s.Ready {
			t.Errorf("node %d of the minority says %+v, %v; want an answer that it is not ready", n, s, err)
		}
	}
	cut.heal()

	c.awaitServing(healWithin, c.all()...)
	l.servesOn(minority...)
}

// TestKillOne ends the process of one node with SIGKILL, once one that does not lead and once the leader. It comes back from its disk.
func TestKillOne(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	leader := c.awaitServing(10*time.Second, c.all()...)
	for _, victim := range []int{c.follower(leader), leader} {
		all := l.settled(10, minTimeout, c.all()...)
		c.kill(victim)
		l.awaitOwners(moveWithin, all, c.but(victim)...)
		if victim == leader {
			if now := c.awaitLeader(moveWithin, c.but(victim)...); now == victim {
				t.Errorf("node %d leads, and is dead", now)
			}
		}
		time.Sleep(minTimeout)
		l.noneEnded(all)
		c.start(victim)
		c.awaitServing(healWithin, c.all()...)
		l.servesOn(victim)
	}
}

// TestOrderedStop stops the leader as an operator does. It hands leadership on first: its clients move, and none of them is
// without a promise for a moment.
func TestOrderedStop(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	leader := c.awaitServing(10*time.Second, c.all()...)
	all := l.settled(10, minTimeout, c.all()...)
	time.Sleep(minTimeout)
	must(t, "docker", "stop", "-t", "15", c.container(leader))
	stopped := time.Now()
	if got := c.state(leader); got != "exited" {
		t.Errorf("node %d is %s, want that it exited", leader, got)
	}
	if now := c.awaitLeader(minTimeout, c.but(leader)...); now == leader {
		t.Errorf("node %d leads, and has stopped", now)
	}
	t.Logf("another node leads %v after the leader has stopped", time.Since(stopped))
	l.awaitOwners(moveWithin, all, c.but(leader)...)
	time.Sleep(minTimeout)
	l.noneEnded(all)
	l.noneLapsed(all)
	c.start(leader)
	c.awaitServing(healWithin, c.all()...)
	l.servesOn(leader)
}

// TestKillAll ends all nodes with SIGKILL for longer than a session's timeout. No session pays for it (I8): all are there
// when the nodes come back, and so are the certificates of the dead.
func TestKillAll(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	c.awaitServing(10*time.Second, c.all()...)
	all := l.settled(10, minTimeout, c.all()...)
	dead := l.open(l.client(), 1, minTimeout)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := dead.session.Close(ctx); err != nil {
		t.Fatal(err)
	}

	c.kill(c.all()...)
	time.Sleep(minTimeout + 2*time.Second)
	for _, a := range all {
		if !a.session.SafeUntil().IsZero() || a.session.Context().Err() == nil {
			t.Errorf("session %s has a promise of nobody", a.session.ID())
		}
	}
	c.start(c.all()...)
	c.awaitServing(healWithin, c.all()...)
	l.awaitOwners(2*minTimeout, all, c.all()...)
	l.noneEnded(all)
	found, err := c.find(dead.session.ID(), c.all()...)
	if err != nil || found.Certificate == nil || found.Certificate.Cause != session.CauseClosed {
		t.Errorf("the closed session: %+v, %v; want its certificate", found, err)
	}
}

// TestLeaderPaused freezes the leader's process for longer than a session's timeout. Its clients move; when it wakes up it
// expires and promises nothing.
func TestLeaderPaused(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	old := c.awaitServing(10*time.Second, c.all()...)
	all := l.settled(10, 2*minTimeout, c.all()...)
	c.pause(old)
	c.awaitLeader(2*minTimeout, c.but(old)...)
	l.awaitOwners(2*minTimeout, all, c.but(old)...)
	c.unpause(old)
	time.Sleep(minTimeout)
	l.noneEnded(all)
	c.awaitServing(healWithin, c.all()...)
	l.servesOn(old)
}
