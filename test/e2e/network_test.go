//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"holdfast/test/timeout"
)

// TestPartition drops packets around one node, in each way in which a network or a firewall may. Clients reach all
// nodes, so a node that cannot serve must say so. Its sessions move and none ends. The node gives no more promises, not
// even to a client that stays.
func TestPartition(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		nodes int
		// leads: the victim is the leader. fromLeader: only the leader is out of its reach.
		leads, fromLeader bool
		flags             []string
		full              bool
	}{
		{name: "learner", nodes: 3},
		{name: "learner hears nobody", nodes: 3, flags: []string{direction("in")}},
		{name: "learner reaches nobody", nodes: 3, flags: []string{direction("out")}},
		{name: "learner without its leader", nodes: 3, fromLeader: true},
		{
			name: "learner without its leader, hears not", nodes: 3, fromLeader: true, flags: []string{direction("in")},
			full: true,
		},
		{
			name: "learner without its leader, reaches not", nodes: 3, fromLeader: true,
			flags: []string{direction("out")},
			full:  true,
		},
		{name: "learner, Raft port", nodes: 3, flags: []string{port(raftPort)}},
		{name: "learner, peer port", nodes: 3, flags: []string{port(peerPort)}},
		{name: "leader", nodes: 3, leads: true},
		{name: "leader of five", nodes: 5, leads: true, full: true},
		{name: "leader hears nobody", nodes: 3, leads: true, flags: []string{direction("in")}},
		{name: "leader reaches nobody", nodes: 3, leads: true, flags: []string{direction("out")}},
		{name: "leader, peer port", nodes: 3, leads: true, flags: []string{port(peerPort)}},
		{name: "leader, Raft port", nodes: 3, leads: true, flags: []string{port(raftPort)}},
		{
			name: "leader hears nobody, Raft port", nodes: 3, leads: true,
			flags: []string{port(raftPort), direction("in")}, full: true,
		},
		{
			name: "leader reaches nobody, Raft port", nodes: 3, leads: true,
			flags: []string{port(raftPort), direction("out")}, full: true,
		},
	} {
		t.Run(p.name, func(t *testing.T) {
			if p.full && !full {
				t.Skip("only E2E=full runs this")
			}
			c := up(t, p.nodes)
			l := c.newLedger()
			leader := c.awaitServing(healWithin, c.all()...)
			victim, from := c.follower(leader), []int{leader}
			if p.leads {
				victim = leader
			}
			if !p.fromLeader {
				from = c.but(victim)
			}
			moving, staying := l.settled(10, minTimeout, victim), l.settled(10, minTimeout, c.but(victim)...)
			calm := l.settled(5, 2*minTimeout, c.all()...)
			stubborn := c.stubborn(victim)
			time.Sleep(minTimeout)

			since := time.Now() // the cut takes effect before the container that makes it has ended
			cut := c.cut([]int{victim}, from, p.flags...)
			if p.leads {
				c.awaitLeader(healWithin, c.but(victim)...)
				took(t, "leads", time.Since(since))
			}
			l.awaitOwners(healWithin, moving, c.but(victim)...)
			l.moved(since, moving, c.but(victim)...)
			away := time.Now() // a node that lacks only Raft hears of a leader until it campaigns
			time.Sleep(2 * minTimeout)
			stubborn.promisedNothing(away)
			l.noneEnded(append(moving, staying...))
			if !p.leads { // a new leader must first hear from every node; losing a node costs no client a promise
				l.noneLapsed(calm)
			}
			if s, err := c.status(victim); err != nil || s.Ready || s.Role == "leader" {
				t.Errorf("the node that is cut off says %+v, %v; want an answer that it is not ready and does not lead",
					s, err)
			}
			cut.heal()

			c.awaitServing(healWithin, c.all()...)
			l.servesOn(victim)
		})
	}
}

// TestClientsCutOff drops packets between one node and all clients, in each direction. Clients are not told, and the
// node is as healthy as before. They notice the silence, and go to other nodes before their promises run out.
func TestClientsCutOff(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		leads bool
		flags []string
	}{
		{name: "learner"},
		{name: "learner hears no client", flags: []string{direction("in")}},
		{name: "leader is heard by no client", leads: true, flags: []string{direction("out")}},
	} {
		t.Run(p.name, func(t *testing.T) {
			c := up(t, 3)
			l := c.newLedger()
			victim := c.awaitServing(healWithin, c.all()...)
			if !p.leads {
				victim = c.follower(victim)
			}
			moving, staying := l.settled(10, 2*minTimeout, victim), l.settled(10, 2*minTimeout, c.but(victim)...)
			before, err := c.status(victim)
			timeout.Check(t, err)
			since := time.Now()
			cut := c.cutClients(victim, p.flags...)
			l.awaitOwners(healWithin, moving, c.but(victim)...)
			l.moved(since, moving, c.but(victim)...)
			time.Sleep(3 * minTimeout)
			l.noneEnded(append(moving, staying...))
			l.noneLapsed(moving)
			l.noneLapsed(staying)
			cut.heal()

			c.awaitServing(healWithin, c.all()...)
			if s, err := c.status(victim); err != nil || s.Term != before.Term || s.Role != before.Role {
				t.Errorf("the node says %+v, %v; want the same as before: %+v", s, err, before)
			}
			l.servesOn(victim)
		})
	}
}

// TestPeerPorts lets only Raft's packets through between all nodes. No round is good whichever node leads, and
// leadership moves from node to node. Touches count nowhere, and no node is ready. But entries are committed, so moves
// keep sessions alive, and none ends. Even a client that has gone does not lose this time (I8 a sick server kills
// nobody): its session expires when rounds are good again, after the rest of its timeout.
func TestPeerPorts(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	leader := c.awaitServing(healWithin, c.all()...)
	all := l.settled(10, minTimeout, c.all()...)
	stubborn := c.stubborn(leader)
	time.Sleep(minTimeout)
	const long = 4 * minTimeout
	x, opened := l.client(), time.Now()
	gone := l.open(x, 1, long)[0]
	x.Close()

	cut := c.cut([]int{leader}, c.but(leader), port(peerPort))
	next := c.follower(leader)
	cut.add(next, c.but(next), port(peerPort))
	since := time.Now()
	if lived := since.Sub(opened); lived > long/2 {
		timeout.Fatalf(t, "the session that nobody holds was opened %v before the cut", lived)
	}
	before, err := c.status(leader)
	timeout.Check(t, err)
	c.await(healWithin, "leadership is handed over", func() (bool, string) {
		s, err := c.status(leader)
		return err == nil && s.Term > before.Term, fmt.Sprintf("%+v %v", s, err)
	})
	time.Sleep(time.Until(since.Add(long)))
	for _, n := range c.all() {
		if s, err := c.status(n); err != nil || s.Ready {
			t.Errorf("node %d says %+v, %v; want it not ready", n, s, err)
		}
	}
	stubborn.promisedNothing(since)
	l.noneEnded(all)
	healed := time.Now()
	cut.heal()

	// A leader's clock stands from two intervals, one second, after the last good round.
	cert := *c.awaitEnd(gone.session.ID(), healed.Add(long+healWithin)).Certificate
	l.kept(gone, cert)
	want := long - since.Sub(opened) - time.Second - 500*time.Millisecond
	if after := cert.EndedAt.Sub(healed); after < want {
		t.Errorf("I8: it expired %v after rounds were good again, want no sooner than %v: %+v", after, want, cert)
	}
	took(t, "expiry of the dead after", cert.EndedAt.Sub(healed))
	c.awaitServing(healWithin, c.all()...)
	l.servesOn(c.all()...)
}

// TestDisconnected removes a node's interface to its peers, and restores it.
func TestDisconnected(t *testing.T) {
	c := up(t, 3)
	l := c.newLedger()
	leader := c.awaitServing(healWithin, c.all()...)
	victim := c.follower(leader)
	moving := l.settled(10, 2*minTimeout, victim)

	since := time.Now()
	c.disconnect(victim)
	l.awaitOwners(healWithin, moving, c.but(victim)...)
	l.moved(since, moving, c.but(victim)...)
	time.Sleep(minTimeout)
	l.noneLapsed(moving)
	c.connect(victim)

	c.awaitServing(healWithin, c.all()...)
	l.servesOn(victim)
}

// TestMinorityCutOff drops all packets between two nodes, one of them the leader, and the other three.
func TestMinorityCutOff(t *testing.T) {
	c := up(t, 5)
	l := c.newLedger()
	old := c.awaitServing(healWithin, c.all()...)
	minority := []int{old, c.follower(old)}
	majority := c.but(minority...)
	all := l.settled(5, minTimeout, c.all()...)

	cut := c.cut(minority, majority)
	since := time.Now()
	c.awaitLeader(healWithin, majority...)
	took(t, "leads", time.Since(since))
	l.awaitOwners(healWithin, all, majority...)
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

// TestDeafLeader drops all packets that come to the leader, from nodes and from clients. What it sends goes on. Another
// node leads, and no session is lost: those of the leader's clients move in time.
func TestDeafLeader(t *testing.T) {
	const clients = 150
	c := alone(t, 3)
	l := c.newLedger()
	deaf := c.awaitServing(healWithin, c.all()...)
	var all []*account
	for range clients {
		all = append(all, l.open(l.client(), 1, minTimeout)...)
	}
	l.awaitOwners(healWithin, all, c.all()...)

	since := time.Now()
	cut := c.deafen(deaf)
	c.awaitLeader(healWithin, c.but(deaf)...)
	took(t, "leads", time.Since(since))
	l.awaitOwners(healWithin, all, c.but(deaf)...)
	l.moved(since, l.ownedBy(all, since, deaf), c.but(deaf)...)
	time.Sleep(2 * minTimeout)
	l.noneEnded(all)
	cut.heal()

	c.awaitServing(healWithin, c.all()...)
	l.noneEnded(all)
}

// TestBridge cuts five nodes into two pairs that only the fifth node connects. In the pair without the leader, no node
// reaches a quorum with a leader; the other pair goes on.
func TestBridge(t *testing.T) {
	if !full {
		t.Skip("E2E=full runs it: the matrix of TestPartition has the same cuts in three nodes")
	}
	c := up(t, 5)
	l := c.newLedger()
	leader := c.awaitServing(healWithin, c.all()...)
	others := c.but(leader)
	far := others[2:]
	all := l.settled(5, minTimeout, c.all()...)

	cut := c.cut(far, []int{leader, others[0]})
	l.awaitOwners(healWithin, all, c.but(far...)...)
	time.Sleep(2 * minTimeout)
	l.noneEnded(all)
	if now := c.awaitLeader(healWithin, c.but(far...)...); now != leader {
		t.Errorf("node %d leads, want that node %d still does: it has a quorum", now, leader)
	}
	cut.heal()

	c.awaitServing(healWithin, c.all()...)
	l.servesOn(far...)
}

// TestLossy drops a share of all packets between all nodes at random. Meanwhile sessions are held, and opened.
func TestLossy(t *testing.T) {
	t.Parallel()
	rates := map[int]time.Duration{10: 15 * time.Second}
	if full {
		rates = map[int]time.Duration{
			1: 30 * time.Second, 5: 30 * time.Second, 10: time.Minute, 20: time.Minute,
			40: time.Minute,
		}
	}
	// Above this share TCP connections stop moving: only the promises can be relied on.
	const bearable = 20
	for rate, lasts := range rates {
		t.Run(fmt.Sprintf("percent=%d", rate), func(t *testing.T) {
			c := up(t, 3)
			l := c.newLedger()
			c.awaitServing(healWithin, c.all()...)
			all := l.settled(20, 2*minTimeout, c.all()...)
			cut := &partition{c: c}
			for _, n := range c.all() {
				cut.add(n, c.but(n), loss(rate), direction("in"))
			}
			if rate <= bearable {
				l.open(l.client(), 5, 2*minTimeout)
			}
			time.Sleep(lasts)
			cut.heal()
			c.awaitServing(2*healWithin, c.all()...)
			if rate <= bearable {
				l.noneEnded(all)
				l.servesOn(c.all()...)
			}
		})
	}
}
