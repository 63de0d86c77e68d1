package raft_test

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/test/bubble"
)

const (
	mbit = 1_000_000
	// kernelBuffer is how many bytes a kernel takes from a writer: Linux's bound for bytes under way.
	kernelBuffer = 4 << 20
	// largest is about the largest size of an entry. Every entry in these tests has it.
	largest = 500_000
)

// zeros is the payload of all entries, so that hundreds of megabytes of entries take half a megabyte of memory.
var zeros = make([]byte, largest)

// counter is a state machine that only counts entries.
type counter struct{ applied atomic.Int64 }

func (c *counter) Apply(*raft.Log) any               { c.applied.Add(1); return nil }
func (*counter) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("nobody asks") }
func (*counter) Restore(from io.ReadCloser) error    { return from.Close() }

// forgetful makes a server's log hold one copy of the entries' payload, and an idle leader send less.
func forgetful(p *peer, conf *raft.Config) {
	conf.CommitTimeout = 100 * time.Millisecond
	p.logs.onWrite(func(entries []*raft.Log) error {
		for _, e := range entries {
			if len(e.Data) > 0 && len(e.Data) <= largest && e.Type == raft.LogCommand {
				e.Data = zeros[:len(e.Data)]
			}
		}
		return nil
	})
}

// lag makes a server miss so many bytes of entries, and then receive them over a link of so many bits a second. The
// other servers have them at once.
func (c *cluster) lag(bytes, bits int) (leads, behind *peer) {
	c.t.Helper()
	leads, behind = c.isolate(bits)
	for range bytes / largest {
		if err := leads.Apply(zeros, time.Minute).Error(); err != nil {
			c.t.Fatal(err)
		}
	}
	if missing := leads.LastIndex() - behind.LastIndex(); missing < uint64(bytes/largest) {
		c.t.Fatalf("the follower lacks %d entries: the fault did not hit", missing)
	}
	c.heal(leads, behind)
	return leads, behind
}

// isolate cuts a follower off from its leader, and makes the link to it a thin one.
func (c *cluster) isolate(bits int) (leads, behind *peer) {
	c.t.Helper()
	leads = c.leader()
	behind = c.others(leads)[0]
	c.eventually("a first entry everywhere", time.Minute, func() bool {
		return behind.LastIndex() == leads.LastIndex()
	})
	c.Reset(leads.name, behind.name) // Thin affects new connections only
	c.cut(leads, behind)
	c.Thin(leads.name, behind.name, bits, kernelBuffer)
	return leads, behind
}

// await waits until a server has all entries. Meanwhile the cluster commits an entry each second without the laggard,
// under the same leader.
func (c *cluster) await(leads, behind *peer, within time.Duration) (took time.Duration, caughtUp bool) {
	c.t.Helper()
	last, term := leads.LastIndex(), leads.CurrentTerm()
	begun := time.Now()
	for behind.LastIndex() < last {
		if time.Since(begun) > within {
			return within, false
		}
		asked := time.Now()
		if err := leads.Apply(zeros[:100], time.Second).Error(); err != nil ||
			time.Since(asked) > 100*time.Millisecond {
			c.t.Fatalf("an entry was committed after %v: %v", time.Since(asked), err)
		}
		time.Sleep(time.Second)
	}
	if leads.State() != raft.Leader || leads.CurrentTerm() != term {
		c.t.Errorf("%s is %v in term %d, and led in %d", leads.name, leads.State(), leads.CurrentTerm(), term)
	}
	return time.Since(begun), true
}

// Raft has one deadline for a whole request. A batch of entries that takes longer over a thin link is retried for ever,
// though its bytes move.
func TestControlABatchThatDoesNotFitIsTriedForEver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{
			peers: 3, bare: transportTimeout, prepare: forgetful,
			machine: func(*fsm.State) raft.FSM { return &counter{} },
		})
		defer c.stop()
		leads, behind := c.lag(46_000_000, 100*mbit)
		before := behind.LastIndex()
		took, ok := c.await(leads, behind, 3*time.Minute)
		if more := behind.LastIndex() - before; ok || more > 9 {
			t.Errorf("after %v the follower has %d of 92 entries: the trap is gone", took, more)
		}
	})
}

// A follower that is behind catches up over any link on which bytes move, in about the time that the bytes take.
func TestALaggardCatchesUp(t *testing.T) {
	for name, bits := range map[string]int{"1 Mbit/s": mbit, "10 Mbit/s": 10 * mbit, "100 Mbit/s": 100 * mbit} {
		t.Run(strings.ReplaceAll(name, "/", " a "), func(t *testing.T) {
			backlog := 200_000_000
			if bubble.Race {
				backlog = 20_000_000
				t.Logf("a backlog of %d bytes: the race detector is on", backlog)
			}
			bubble.Test(t, func(t *testing.T) {
				c := start(t, options{
					peers: 3, prepare: forgetful,
					machine: func(*fsm.State) raft.FSM { return &counter{} },
				})
				defer c.stop()
				leads, behind := c.lag(backlog, bits)
				needs := time.Duration(backlog) * 8 * time.Second / time.Duration(bits)
				took, ok := c.await(leads, behind, 2*needs+time.Minute)
				if !ok || took < needs*9/10 {
					t.Errorf("caught up: %v after %v, want about %v", ok, took, needs)
				}
				t.Logf("%d bytes at %s: caught up %v after %v; the bytes alone take %v", backlog, name, ok, took, needs)
			})
		})
	}
}

// A follower fetches a snapshot once, even if it takes long to arrive or to be restored. Raft's own deadline is longer
// for a large snapshot, but over 1 Mbit/s no snapshot of 500 kB arrives within it.
func TestASnapshotArrives(t *testing.T) {
	for name, s := range map[string]struct {
		size     int64
		bits     int
		restores time.Duration
	}{
		"1 GB":   {1_000_000_000, 100 * mbit, 30 * time.Second},
		"500 kB": {500_000, mbit, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if bubble.Race && s.size > 100_000_000 {
				s.size = 100_000_000
				t.Logf("a snapshot of %d bytes: the race detector is on", s.size)
			}
			bubble.Test(t, func(t *testing.T) { snapshotArrives(t, s.size, s.bits, s.restores) })
		})
	}
}

func snapshotArrives(t *testing.T, size int64, bits int, restores time.Duration) {
	t.Helper()
	machines := map[*fsm.State]*large{}
	c := start(t, options{peers: 3, prepare: func(p *peer, conf *raft.Config) {
		conf.SnapshotThreshold, conf.SnapshotInterval, conf.TrailingLogs = 1<<20, time.Hour,
			1 // snapshots only on request
		p.snapshots.size = size
	}, machine: func(s *fsm.State) raft.FSM {
		machines[s] = &large{restores: restores}
		return machines[s]
	}})
	defer c.stop()
	leads, behind := c.isolate(bits)
	for range 10 {
		if err := leads.Apply(zeros[:10], time.Minute).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := leads.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c.heal(leads, behind)
	needs := time.Duration(size)*8*time.Second/time.Duration(bits) + restores
	took, ok := c.await(leads, behind, 2*needs+time.Minute)
	if installed := machines[behind.state].restored.Load(); !ok || took < needs*9/10 || installed != 1 {
		t.Errorf("caught up: %v after %v, with %d snapshots; want about %v, with 1", ok, took, installed, needs)
	}
	t.Logf("%d bytes at %d Mbit/s, restored in %v: caught up %v after %v", size, bits/mbit, restores, ok, took)
}

// large is a state machine whose snapshot takes long to restore.
type large struct {
	counter
	restores time.Duration
	restored atomic.Int64
}

func (l *large) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }

func (l *large) Restore(from io.ReadCloser) error {
	l.restored.Add(1)
	time.Sleep(l.restores)
	return from.Close()
}

// nothing is an empty snapshot, which the test's store makes large.
type nothing struct{}

func (nothing) Persist(sink raft.SnapshotSink) error { return sink.Close() }
func (nothing) Release()                             {}
