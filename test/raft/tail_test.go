package raft_test

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/test/bubble"
)

// recorder records the term of the entry that a server's state was given at each index.
type recorder struct {
	*fsm.State
	mu       sync.Mutex
	terms    map[uint64]uint64 // guarded by mu
	restores int               // guarded by mu
}

func (r *recorder) Apply(l *raft.Log) any {
	r.mu.Lock()
	r.terms[l.Index] = l.Term
	r.mu.Unlock()
	return r.State.Apply(l)
}

func (r *recorder) Restore(from io.ReadCloser) error {
	r.mu.Lock()
	r.restores++
	r.mu.Unlock()
	return r.State.Restore(from)
}

func (r *recorder) restored() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restores
}

// differs returns the first index at which two states were given entries of different terms, and the number of such
// indexes.
func differs(a, b *recorder) (first uint64, all int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for index, term := range a.terms {
		if other, ok := b.terms[index]; ok && other != term {
			if all++; first == 0 || index < first {
				first = index
			}
		}
	}
	return first, all
}

// inFlight is how many entries a leader has under way when it is cut off.
const inFlight = 600

// tails is a cluster whose first leader has a tail of entries that no other server has, or will ever have.
type tails struct {
	*cluster
	deposed, leads *peer
	states         map[*fsm.State]*recorder
	entries        uint64
}

// newTails makes the other servers go on for so many entries, and compact their logs to the trailing ones. behind is
// the number of servers that are cut off before the deposed leader.
func newTails(t *testing.T, peers, behind, entries int, trailing uint64) *tails {
	t.Helper()
	c := &tails{states: map[*fsm.State]*recorder{}}
	c.cluster = start(t, options{peers: peers, prepare: func(_ *peer, conf *raft.Config) {
		conf.SnapshotThreshold, conf.SnapshotInterval, conf.TrailingLogs = 1<<20, time.Hour,
			trailing // snapshots only on request
	}, machine: func(s *fsm.State) raft.FSM {
		c.states[s] = &recorder{State: s, terms: map[uint64]uint64{}}
		return c.states[s]
	}})
	c.deposed = c.leader()
	c.apply(c.deposed, 90)
	for _, p := range c.behind(behind) {
		c.apart(p)
	}
	c.apply(c.deposed, 10)
	c.apart(c.deposed)
	for _, p := range c.behind(behind) {
		c.heal(c.deposed, p) // because it was cut off twice
	}
	for range inFlight {
		c.entries++
		c.deposed.Apply(payload(t, c.entries), time.Second)
	}
	if last := c.deposed.LastIndex(); last < inFlight {
		t.Fatalf("the leader has %d entries: the tail is not there", last)
	}
	c.leads = c.leader(c.deposed)
	c.eventually("the old leader to step down", time.Minute, func() bool { return c.deposed.State() != raft.Leader })
	c.apply(c.leads, entries)
	if err := c.leads.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	// What the leader still tries to send to a server that is cut off comes from the snapshot, not from the log that it
	// had.
	time.Sleep(time.Minute)
	return c
}

func (c *tails) apply(leads *peer, entries int) {
	c.t.Helper()
	var last raft.ApplyFuture
	for range entries {
		c.entries++
		last = leads.Apply(payload(c.t, c.entries), time.Second)
	}
	if err := last.Error(); err != nil {
		c.t.Fatal(err)
	}
}

// behind returns the last n servers except the deposed leader.
func (c *tails) behind(n int) []*peer {
	others := c.others(c.deposed)
	return others[len(others)-n:]
}

// apart cuts a server off from all others.
func (c *tails) apart(p *peer) {
	for _, other := range c.others(p) {
		c.cut(p, other)
	}
}

// rejoin undoes apart between two servers. What was under way is lost.
func (c *tails) rejoin(a, b *peer) {
	c.Reset(a.name, b.name)
	c.heal(a, b)
}

// A follower that installs a snapshot keeps its log, whatever is in it. So entries that only a deposed leader had can
// lie below the entries that follow. When this follower leads later, it sends them as committed to a server that is
// behind, and that server's state applies them.
func TestControlAnOldTailIsFedToALaggard(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTails(t, 5, 1, 1200, 1000)
		defer c.stop()
		laggard := c.behind(1)[0]
		for _, p := range c.others(c.deposed) {
			if p != laggard {
				c.rejoin(c.deposed, p)
			}
		}
		c.eventually("the old leader to catch up", time.Minute, func() bool {
			return c.deposed.state.AppliedIndex() == c.leads.state.AppliedIndex() &&
				c.states[c.deposed.state].restored() == 1
		})
		if err := c.leads.LeadershipTransferToServer(raft.ServerID(c.deposed.name),
			c.deposed.address()).Error(); err != nil {
			t.Fatal(err)
		}
		c.eventually("the old leader to lead", time.Minute, func() bool { return c.deposed.State() == raft.Leader })
		c.rejoin(c.deposed, laggard)
		c.eventually("the laggard to catch up", time.Minute, func() bool {
			return laggard.state.AppliedIndex() == c.deposed.state.AppliedIndex()
		})
		first, all := differs(c.states[laggard.state], c.states[c.leads.state])
		if all == 0 {
			t.Error("the laggard applied no entry that others did not apply: the trap is gone")
		}
		t.Logf("%d entries that only the deposed leader had were applied, from %d on", all, first)
	})
}

// When its log is longer than its snapshot, a follower compares the entry before new entries with its log alone. A tail
// that reaches beyond the snapshot hides the snapshot's end: the follower refuses what comes after, and is sent the
// same snapshot for ever.
func TestControlAnOldTailStopsAFollower(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTails(t, 3, 0, 300, 50)
		defer c.stop()
		for _, p := range c.others(c.deposed) {
			c.rejoin(c.deposed, p)
		}
		time.Sleep(5 * time.Second)
		c.apply(c.leads, 10)
		time.Sleep(5 * time.Second)
		restored := c.states[c.deposed.state].restored()
		if behind := c.leads.state.AppliedIndex() - c.deposed.state.AppliedIndex(); behind == 0 || restored < 10 {
			t.Errorf("the follower is %d entries behind after %d snapshots: the trap is gone", behind, restored)
		}
		t.Logf("%d snapshots were installed in ten seconds", restored)
	})
}
