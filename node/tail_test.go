package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/node/config"
	"holdfast/node/storage"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// inFlight is how many entries a leader has on their way when it is cut off.
const inFlight = 600

// tailCluster is one whose first leader has a tail of entries that nobody else has, and never will. test/raft springs
// these traps.
type tailCluster struct {
	*testCluster
	deposed, leads *testNode
	entries        uint32

	mu sync.Mutex
	// terms says of which term the entry was that a node has applied at an index. guarded by mu
	terms map[*testNode]map[uint64]uint64
}

// newTailCluster has the other nodes go on for so many entries, and keep trailing ones behind a snapshot. The last of
// the others misses all of it when laggard is set.
//
//nolint:revive // flag-parameter: the two scenarios
func newTailCluster(t *testing.T, size, entries int, trailing uint64, laggard bool) *tailCluster {
	t.Helper()
	c := &tailCluster{terms: map[*testNode]map[uint64]uint64{}}
	c.testCluster = newTestCluster(t, 0, func(cfg *config.Config) {
		// only when asked
		cfg.Tuning.SnapshotThreshold, cfg.Tuning.SnapshotInterval, cfg.Tuning.TrailingLogs = 1<<20, time.Hour, trailing
	})
	c.add(size)
	for _, n := range c.nodes {
		c.terms[n] = map[uint64]uint64{}
		n.hook = func(index, term uint64, _ []session.Change) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.terms[n][index] = term
		}
		c.start(n)
	}
	c.deposed = c.leader(time.Minute)
	c.apply(c.deposed, 90)
	time.Sleep(time.Second)
	if laggard {
		c.apart(c.laggard(), c.others(c.laggard())...)
	}
	c.apply(c.deposed, 10)
	for _, n := range c.others(c.deposed) {
		if !laggard || n != c.laggard() {
			c.apart(c.deposed, n)
		}
	}
	for range inFlight {
		c.deposed.consensus.Raft.Apply(c.entry(), time.Second)
	}
	c.leads = c.leader(time.Minute, c.deposed)
	c.eventually("the old leader to step down", time.Minute, func() bool {
		return c.deposed.consensus.Raft.State() != raft.Leader
	})
	c.apply(c.leads, entries)
	if err := c.leads.consensus.Raft.Snapshot().Error(); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Minute) // what the leader tries to send to who is cut off is of the snapshot then
	if last := c.deposed.consensus.Raft.LastIndex(); last < inFlight {
		t.Errorf("the old leader has %d entries: the tail is not there", last)
	}
	return c
}

func (c *tailCluster) laggard() *testNode { return c.others(c.deposed)[len(c.nodes)-2] }

// entry is the payload of an entry that opens a session.
func (c *tailCluster) entry() []byte {
	c.t.Helper()
	c.entries++
	open := session.OpenSession{Node: 1, Spec: session.Spec{Timeout: time.Hour}}
	binary.BigEndian.PutUint32(open.RequestID[:], c.entries)
	data, err := entry.Encode([]session.Command{open})
	if err != nil {
		c.t.Error(err)
	}
	return data
}

func (c *tailCluster) apply(leads *testNode, entries int) {
	c.t.Helper()
	var last raft.ApplyFuture
	for range entries {
		last = leads.consensus.Raft.Apply(c.entry(), time.Second)
	}
	if err := last.Error(); err != nil {
		c.t.Errorf("an entry: %v", err)
	}
}

func (c *tailCluster) apart(n *testNode, from ...*testNode) {
	for _, other := range from {
		c.Cut(n.name, other.name)
		c.Cut(other.name, n.name)
	}
}

// rejoin undoes apart. What was on its way is lost.
func (c *tailCluster) rejoin(n *testNode, with ...*testNode) {
	for _, other := range with {
		c.Reset(n.name, other.name)
		c.Heal(n.name, other.name)
		c.Heal(other.name, n.name)
	}
}

// differing counts the entries that two nodes have applied at the same index and that are not the same.
func (c *tailCluster) differing(a, b *testNode) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for index, term := range c.terms[a] {
		if other, ok := c.terms[b][index]; ok && other != term {
			n++
		}
	}
	return n
}

// What a deposed leader had in flight is fed to nobody after it was sent a snapshot, also when it leads again.
func TestAnOldTailIsNotFed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTailCluster(t, 5, 1200, 1000, true)
		defer c.stop()
		laggard := c.laggard()
		for _, n := range c.others(c.deposed) {
			if n != laggard {
				c.rejoin(c.deposed, n)
			}
		}
		c.eventually("the old leader to catch up", time.Minute, func() bool {
			return c.deposed.view.AppliedIndex() >= c.leads.view.AppliedIndex()
		})
		at := raftnet.ServerID(c.deposed.cfg.Node, c.deposed.membership.OwnDirectory())
		address := c.deposed.raftAddress()
		if err := c.leads.consensus.Raft.LeadershipTransferToServer(at, address).Error(); err != nil {
			t.Errorf("handing over: %v", err)
		}
		c.eventually("the old leader to lead", time.Minute, func() bool {
			return c.deposed.consensus.Raft.State() == raft.Leader
		})
		c.rejoin(laggard, c.deposed)
		c.eventually("the laggard to catch up", time.Minute, func() bool {
			return laggard.view.AppliedIndex() >= c.leads.view.AppliedIndex()
		})
		if n := c.differing(laggard, c.leads); n > 0 {
			t.Errorf("the laggard applied %d entries that only the deposed leader had", n)
		}
		c.agree(time.Minute)
	})
}

// A follower whose tail reaches beyond the snapshot that it is sent goes on from it, also when it ends in between.
func TestAnOldTailStopsNobody(t *testing.T) {
	for name, restart := range map[string]bool{"it runs on": false, "it is started again": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTailCluster(t, 3, 300, 50, false)
				defer c.stop()
				if restart {
					if err := c.end(c.deposed); err != nil {
						t.Error(err)
					}
					c.install(c.deposed, c.leads)
					c.start(c.deposed)
				}
				c.rejoin(c.deposed, c.others(c.deposed)...)
				c.eventually("the old leader to catch up", time.Minute, func() bool {
					return c.deposed.view.AppliedIndex() >= c.leads.view.AppliedIndex()
				})
				c.apply(c.leads, 10)
				c.agree(10 * time.Second)
				if n := c.differing(c.deposed, c.leads); n > 0 {
					t.Errorf("%d entries of the tail were applied", n)
				}
				if n := strings.Count(c.deposed.log.String(), "Installed remote snapshot"); n != 1 {
					t.Errorf("%d snapshots were installed, want one", n)
				}
			})
		})
	}
}

// TestNothingIsCutForAnUnreadableSnapshot: a snapshot that cannot be read takes nothing from a log that does not go
// on from it.
func TestNothingIsCutForAnUnreadableSnapshot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTailCluster(t, 3, 300, 50, false)
		defer c.stop()
		if err := c.end(c.deposed); err != nil {
			t.Error(err)
		}
		path := c.install(c.deposed, c.leads)
		file := filepath.Join(path, "state.bin")
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)/2]++
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		size := func() (entries uint64) {
			log, err := openLog(filepath.Join(c.dir, c.deposed.name))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			first, _ := log.FirstIndex()
			last, _ := log.LastIndex()
			return last - first
		}
		before := size()
		if _, err := c.make(c.deposed); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("started, or did not say with which snapshot not: %v", err)
		}
		if after := size(); after != before {
			t.Errorf("the log has %d entries, and had %d", after, before)
		}
	})
}

// install writes the newest snapshot of one node to the disk of another that has ended, as if that had ended at the
// moment when it had written it, and done nothing more.
func (c *tailCluster) install(to, from *testNode) (path string) {
	c.t.Helper()
	all, err := from.consensus.Store.Snapshots().List()
	if err != nil || len(all) == 0 {
		c.t.Fatalf("%d snapshots, %v", len(all), err)
	}
	meta, source, err := from.consensus.Store.Snapshots().Open(all[0].ID)
	if err != nil {
		c.t.Fatal(err)
	}
	defer source.Close()
	store, err := raft.NewFileSnapshotStoreWithLogger(filepath.Join(c.dir, to.name), 2,
		hclog.NewNullLogger())
	if err != nil {
		c.t.Fatal(err)
	}
	_, peers := raft.NewInmemTransport("") // writes addresses as they are, as raftnet does
	sink, err := store.Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, peers)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err = io.Copy(sink, source); err != nil {
		c.t.Fatal(err)
	}
	if err = sink.Close(); err != nil {
		c.t.Fatal(err)
	}
	path = filepath.Join(c.dir, to.name, "snapshots", sink.ID())
	r, err := storage.ReadIdentity(filepath.Join(c.dir, to.name))
	if err == nil {
		origin := fmt.Sprintf(`{"directory":%q,"id":%q,"index":%d,"term":%d}`+"\n", r.Directory, sink.ID(), meta.Index, meta.Term)
		err = os.WriteFile(filepath.Join(path, "origin"), []byte(origin), 0o600)
	}
	// Raft writes the leader's term before it takes the snapshot in.
	log, openErr := openLog(filepath.Join(c.dir, to.name))
	if err = errors.Join(err, openErr); err == nil {
		err = errors.Join(log.stable.SetUint64([]byte("CurrentTerm"), from.consensus.Raft.CurrentTerm()), log.Close())
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return path
}
