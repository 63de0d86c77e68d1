package node

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/tree/form"
)

// withTree starts a cluster of three and waits until all have founded the tree.
func withTree(t *testing.T) *testCluster {
	t.Helper()
	c := newTestCluster(t, 3, nil)
	c.founded()
	return c
}

// write has the leader put a write of a session into the log.
func (c *testCluster) write(through *testNode, of session.Grant, number uint64, ops ...tree.Op) {
	c.t.Helper()
	w := tree.NumberedWrite{
		Session: uint64(of.Session.ID), Attachment: of.Session.Attachment, Number: number,
		Transaction: tree.Transaction{Then: ops},
	}
	encoded, err := form.AppendWrite(nil, w)
	if err != nil {
		c.t.Fatal(err)
	}
	result, err := through.consensus.Proposer.Propose(c.t.Context(), session.TreeCommand{Encoded: encoded, Weight: 1})
	if err != nil || result.Err != nil {
		c.t.Fatalf("write %d: %v, %v", number, err, result.Err)
	}
}

// found waits until so many nodes show an entry.
func (c *testCluster) found(path string, want int, within time.Duration) {
	c.t.Helper()
	c.eventually(path, within, func() bool {
		n := 0
		for _, one := range c.nodes {
			if _, ok := one.view.Tree().Root.Stat(path); ok {
				n++
			}
		}
		return n == want
	})
}

// W8, D3, D5, U1: the cluster has a tree from its founding. Entries end on a clock that no fail-over takes forward, and
// with their sessions.
func TestW8TheClusterGetsATree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := withTree(t)
		defer c.stop()
		leads := c.leader(within)
		owner := c.resumedOnce(leads)
		c.write(leads, owner, 1,
			tree.Create{Path: "/eph", Kind: tree.Ephemeral},
			tree.Create{Path: "/ttl", Kind: tree.Expiring, TTL: 100 * time.Second})
		began := time.Now()
		c.found("/eph", 3, within)
		c.found("/eph", 0, 2*time.Minute) // nobody touches the session
		certificate, ok := leads.view.Certificate(owner.Session.ID)
		if !ok || certificate.Left.Ephemerals != 1 || certificate.Left.Applied != 1 {
			t.Errorf("certificate %+v", certificate)
		}
		if err := c.end(leads); err != nil {
			t.Fatal(err)
		}
		next := c.leader(within, leads)
		c.found("/ttl", 1, 5*time.Minute) // the node that ended shows it for ever
		if lived := time.Since(began); lived < 100*time.Second || lived > 100*time.Second+tickedAtMost {
			t.Errorf("an entry with a TTL of 100 s lived for %v", lived)
		}
		if clock := next.view.Tree().Clock; clock > time.Since(began)+within {
			t.Errorf("the log clock shows %v", clock)
		}
		c.start(leads)
		c.agree(time.Minute) // Raft looks for a node that was away for minutes every 10 s
	})
}

// D5, H2: entries with a TTL that end in any number hold up no lock-delay, and go as fast as they come due.
func TestD5ManyEndAtOnce(t *testing.T) {
	const many, delay, soon = 6_000, time.Second, 2 * time.Second
	bubble.Test(t, func(t *testing.T) {
		c := withTree(t)
		defer c.stop()
		leads := c.leader(within)
		here := func() int { return leads.view.Tree().Root.Len() }
		empty := here()
		c.write(leads, c.resumedOnce(leads), 1, tree.Create{Path: "/held", Kind: tree.Ephemeral, LockDelay: delay})
		c.eventually("the session expires", time.Minute, func() bool {
			stat, ok := leads.view.Tree().Root.Stat("/held")
			return ok && stat.Kind == tree.InLockDelay
		})
		expired := time.Now()
		var ops []tree.Op
		for range many {
			ops = append(ops, tree.Create{Path: "/ttl-", Sequential: true, Kind: tree.Expiring, TTL: tree.MinTTL})
		}
		c.write(leads, c.resumedOnce(leads), 1, ops...)
		c.found("/held", 0, time.Minute)
		if took := time.Since(expired); took > delay+soon {
			t.Errorf("a lock-delay of %v was over after %v", delay, took)
		}
		c.eventually("all have ended", time.Minute, func() bool { return here() == empty })
		if took := time.Since(expired); took > delay+soon {
			t.Errorf("%d entries that were due at once were gone after %v", many, took)
		}
	})
}

// tickedAtMost is what a fail-over takes from the log clock at most, with the time of the fail-over and of the reaping.
const tickedAtMost = time.Minute + 10*time.Second

// resumedOnce opens a session and resumes it, so that it has a client process and may write (X5 the opener's instance).
func (c *testCluster) resumedOnce(through *testNode) session.Grant {
	c.t.Helper()
	grant := c.mustOpen(through, within)
	result, err := through.consensus.Proposer.Propose(c.t.Context(), session.MoveSession{
		ID: grant.Session.ID, NewOwner: grant.Session.Owner, Instance: 7, Attempt: 1, Named: grant.Session.Attachment,
	})
	if err != nil || result.Err != nil {
		c.t.Fatal(err, result.Err)
	}
	grant.Session = result.Session
	return grant
}
