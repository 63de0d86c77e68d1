package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/leader"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A change of the members that has waited for its turn is decided by what the term of then knows, not the term in which
// it came: that one's tracker hears nobody any more, and would take a node for alive that has died since (J4).
func TestJ4AChangeThatWaitedIsDecidedAnew(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.agree(within)
		m := leads.roles.terms.members
		var over atomic.Bool
		tracker := m.tracker
		m.tracker = func() *leader.Tracker {
			if over.Load() {
				return nil
			}
			return tracker()
		}
		if err := m.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := c.others(leads)[0].cfg.Node
		outcome := make(chan error, 1)
		go func() { outcome <- m.Demote(t.Context(), other) }()
		synctest.Wait() // it waits for its turn
		over.Store(true)
		m.give()
		if err := <-outcome; !errors.Is(err, session.ErrNotLeader) {
			t.Errorf("the change of a term that is over: %v, want %v", err, session.ErrNotLeader)
		}
		time.Sleep(5 * time.Second)
		if s, _ := find(leads.roster.servers(), other); wishOf(s) != wishVote {
			t.Errorf("node %d is to lose its vote", other)
		}
	})
}

// A leader that is to lose its vote, and cannot lose it because the others would be no quorum, leads on. If it handed
// over to a node that is to lose its vote too, the two would hand the lead to and fro (J4).
func TestJ4ALeaderThatKeepsItsVoteLeadsOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.agree(within)
		steps := func() bool {
			m := newMembership(leads.roles.terms.members, leads.roles.terms.tracker.Load())
			s, _ := find(leads.roster.servers(), leads.cfg.Node)
			return m.towards(t.Context(), s, leads.cfg.Node, wishLeave) != nil
		}
		if !steps() {
			t.Error("with a quorum of the others it takes no step")
		}
		dead := c.others(leads)[0]
		c.cut(dead, leads, c.others(leads)[1])
		c.eventually("it is not heard", within, func() bool {
			return leads.roles.terms.members.quorum(leads.roles.terms.tracker.Load(), leads.cfg.Node, 0) != nil
		})
		if steps() {
			t.Error("it hands over, although it cannot lose its vote")
		}
	})
}

// Between the mark and the taking of a vote a voter may die: the leader looks again, and takes no vote that leaves no
// quorum (J4). It takes the vote once the others are heard again.
func TestJ4NoVoteIsTakenBesideADeadVoter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.agree(within)
		marked, dead := c.others(leads)[0], c.others(leads)[1]
		steps := func() bool {
			m := newMembership(leads.roles.terms.members, leads.roles.terms.tracker.Load())
			s, _ := find(leads.roster.servers(), marked.cfg.Node)
			return m.towards(t.Context(), s, marked.cfg.Node, wishObserve) != nil
		}
		if !steps() {
			t.Error("with a quorum of the others it takes no vote")
		}
		heal := c.cut(dead, leads, marked)
		quorum := func() error {
			return leads.roles.terms.members.quorum(leads.roles.terms.tracker.Load(), marked.cfg.Node, 0)
		}
		c.eventually("it is not heard", within, func() bool { return quorum() != nil })
		if steps() {
			t.Error("it takes the vote of one of two voters that are left")
		}
		heal()
		c.eventually("it is heard again", within, func() bool { return quorum() == nil })
		if !steps() {
			t.Error("with a quorum again it takes no vote")
		}
	})
}

// A member that is to be removed, and does not answer once, is not dead: its clients may be there. It is dead when it was
// silent at several looks in a row (J3).
func TestJ3OneSilenceIsNoDeath(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.agree(within)
		gone := c.others(leads)[0]
		node, tracker := gone.cfg.Node, leads.roles.terms.tracker.Load()
		m := newMembership(leads.roles.terms.members, tracker)
		c.kill(gone)
		c.eventually("its stream ends", within, func() bool { return !tracker.Follows(node) })
		looks := 1
		for ; !m.left(t.Context(), node) && looks < 2*patience; looks++ {
		}
		if looks != patience {
			t.Errorf("nobody has to be waited for after %d looks, want %d", looks, patience)
		}
	})
}

// An operator may undrain a node in the same moment in which another one drains it: the one who drains is told of the
// drain that began, and nothing panics (Q1).
func TestQ1DrainedAndUndrainedAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		n := c.others(c.leader(within))[0]
		c.agree(within)
		d := n.health.drain
		undrains := d.changed
		d.changed = func() {
			undrains()
			d.changed = undrains
			if was, err := d.Undrain(); !was || err != nil {
				t.Errorf("undrain: %v, %v", was, err)
			}
		}
		s, err := d.Drain(t.Context(), true)
		if err != nil || s.Since.IsZero() || d.on() {
			t.Errorf("drain: %+v, %v; still on: %v", s, err, d.on())
		}
	})
}

// A repeat of a change that was cut off is answered only once the change is committed: a leader that is cut off has it
// in its log alone, and the next leader does not have it.
func TestARepeatOfAChangeWaitsForTheCommit(t *testing.T) {
	for name, change := range map[string]func(*members, context.Context, session.Node) error{
		"demote": (*members).Demote, "remove": (*members).Remove,
	} {
		bubble.Test(t, func(t *testing.T) {
			c := newTestCluster(t, 3, nil)
			defer c.stop()
			leads := c.leader(within)
			c.agree(within)
			m := leads.roles.terms.members
			others := c.others(leads)
			node := others[0].cfg.Node
			c.cut(leads, others...)
			brief, cancel := context.WithTimeout(t.Context(), 2*pollInterval)
			defer cancel()
			if err := change(m, brief, node); !errors.Is(err, session.ErrOutcomeUnknown) {
				t.Fatalf("%s: the one that is cut off: %v, want %v", name, err, session.ErrOutcomeUnknown)
			}
			if s, _ := find(leads.roster.servers(), node); wishOf(s) == wishVote {
				t.Fatalf("%s: the change is not in the leader's log", name)
			}
			if err := change(m, t.Context(), node); !errors.Is(err, session.ErrNotLeader) {
				t.Errorf("%s: the repeat: %v, want %v", name, err, session.ErrNotLeader)
			}
			next := c.leader(within, leads)
			if s, _ := find(next.roster.servers(), node); wishOf(s) != wishVote {
				t.Errorf("%s: the next leader has the change", name)
			}
		})
	}
}
