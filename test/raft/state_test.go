package raft_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/test/bubble"
)

// slow makes applying an entry take a while.
type slow struct{ took time.Duration }

func (s slow) Applied(uint64, uint64, []session.Change) { time.Sleep(s.took) }
func (s slow) Restored()                                {}

// raft.AppliedIndex is the index of the entry that was handed to the state, not of the one that the state has applied.
// Holdfast waits for the state's own index.
func TestAppliedIndexIsTheStatesOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3})
		defer c.stop()
		leads := c.leader()
		const each = 20 * time.Millisecond
		_, stop := leads.state.Observe(slow{each})
		defer stop()
		var last raft.ApplyFuture
		for n := range uint64(20) {
			last = leads.Apply(payload(t, n), time.Second)
		}
		index := leads.LastIndex()
		c.eventually("Raft's word that it has applied all", time.Second, func() bool {
			return leads.AppliedIndex() >= index
		})
		if got := leads.state.AppliedIndex(); got >= index {
			t.Fatalf("the state has applied %d of %d too: the trap is not sprung", got, index)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := leads.state.WaitApplied(ctx, index); err != nil {
			t.Fatal(err)
		}
		if sessions, got := leads.state.Sessions(), leads.state.AppliedIndex(); sessions != 20 || got != index {
			t.Errorf("after the wait the state has %d sessions and index %d, want 20 and %d", sessions, got, index)
		}
		if err := last.Error(); err != nil {
			t.Error(err)
		}
	})
}

// A snapshot belongs to its index. Entries are applied while it is written, however slow the disk is.
func TestEntriesAreAppliedBesideASlowSnapshot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var writing, writes atomic.Int64
		const took = 10 * time.Second
		c := start(t, options{peers: 1, prepare: func(p *peer, conf *raft.Config) {
			conf.SnapshotThreshold, conf.SnapshotInterval = 1<<20, time.Hour // snapshots only on request
			p.snapshots.write = func() {
				writing.Store(1)
				writes.Add(1)
				time.Sleep(took)
				writing.Store(0)
			}
		}})
		defer c.stop()
		leads := c.leader()
		apply := func(n uint64) {
			t.Helper()
			if err := leads.Apply(payload(t, n), time.Second).Error(); err != nil {
				t.Fatal(err)
			}
		}
		for n := range uint64(10) {
			apply(n)
		}
		index, digest := leads.state.Digest()
		done := make(chan error, 1)
		begun := time.Now()
		go func() { done <- leads.Snapshot().Error() }()
		c.eventually("the snapshot's first write", time.Second, func() bool { return writing.Load() == 1 })
		for n := uint64(10); n < 30; n++ {
			apply(n)
		}
		if writing.Load() != 1 || time.Since(begun) > time.Second {
			t.Errorf("20 entries beside the snapshot took %v, and it is being written: %v", time.Since(begun),
				writing.Load() == 1)
		}
		if err := <-done; err != nil || writes.Load() == 0 || time.Since(begun) < took {
			t.Fatalf("the snapshot took %v in %d writes: %v", time.Since(begun), writes.Load(), err)
		}
		got := restoreNewest(t, leads)
		if i, d := got.Digest(); i != index || d != digest || got.Sessions() != 10 {
			t.Errorf("the snapshot holds %d sessions at %d, want 10 at %d with the digest of then", got.Sessions(),
				i, index)
		}
		if leads.state.Sessions() != 30 {
			t.Errorf("%d sessions, want 30", leads.state.Sessions())
		}
	})
}

// A follower installs whatever snapshot its leader sends, also one older than what it has applied: a delayed copy, or
// the newest snapshot of a leader that is behind the follower. The follower's state goes back. If its log no longer has
// the entries after that, it panics at the next entry.
func TestControlAnOlderSnapshotIsInstalled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3, machine: func(s *fsm.State) raft.FSM { return credulous{s} }})
		defer c.stop()
		before, err := c.installOlder(c.leader())
		if after := c.others(c.leader())[0].AppliedIndex(); err != nil || after >= before {
			t.Errorf("index %d was applied, and is %d after an older snapshot, %v: the trap is gone", before, after,
				err)
		}
	})
}

// The state refuses an older snapshot, and goes on from where it is.
func TestAnOlderSnapshotIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3})
		defer c.stop()
		leads := c.leader()
		follower := c.others(leads)[0]
		before, err := c.installOlder(leads)
		if err == nil || follower.AppliedIndex() != before || follower.state.Sessions() != 30 {
			t.Errorf("the follower is at %d with %d sessions, %v; want an error, %d and 30",
				follower.AppliedIndex(), follower.state.Sessions(), err, before)
		}
		if r := leads.apply(t, open(99)); r.Err != nil {
			t.Error(r.Err)
		}
		c.eventually("the next entry", 10*time.Second, func() bool { return follower.state.Sessions() == 31 })
	})
}

// A follower that lags installs the leader's snapshot while it writes an earlier one of its own state. When that one is
// complete, Raft takes it for the newest: the follower says that it has less than it acknowledged (raft#248).
func TestControlAnOwnSnapshotGoesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var held atomic.Pointer[fsm.State]
		begun, release := make(chan struct{}), make(chan struct{})
		c := start(t, options{peers: 3, machine: func(s *fsm.State) raft.FSM {
			return slowSnapshots{s, func() {
				if held.Load() == s {
					close(begun)
					<-release
				}
			}}
		}})
		defer c.stop()
		leads := c.leader()
		follower := c.others(leads)[0]
		for n := range uint64(10) {
			leads.apply(t, open(n))
		}
		held.Store(follower.state)
		own := follower.Snapshot()
		<-begun
		for n := range uint64(20) {
			leads.apply(t, open(10+n))
		}
		if err := leads.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		all, err := leads.snapshots.List()
		if err != nil || len(all) == 0 {
			t.Fatalf("%d snapshots, %v", len(all), err)
		}
		if err := c.install(leads, follower, all[0].ID); err != nil {
			t.Fatal(err)
		}
		newest := follower.Stats()["last_snapshot_index"]
		close(release)
		if err := own.Error(); err != nil {
			t.Fatal(err)
		}
		installed := strconv.FormatUint(all[0].Index, 10)
		if after := follower.Stats()["last_snapshot_index"]; newest != installed || after == newest {
			t.Errorf("the newest snapshot ended at %s, and ends at %s after the own one; that of the leader at %s: the "+
				"trap is gone", newest, after, installed)
		}
	})
}

// slowSnapshots calls wait before it writes a snapshot.
type slowSnapshots struct {
	*fsm.State
	wait func()
}

func (s slowSnapshots) Snapshot() (raft.FSMSnapshot, error) {
	of, err := s.State.Snapshot()
	return slowSnapshot{of, s.wait}, err
}

type slowSnapshot struct {
	raft.FSMSnapshot
	wait func()
}

func (s slowSnapshot) Persist(to raft.SnapshotSink) error {
	s.wait()
	return s.FSMSnapshot.Persist(to)
}

// credulous is a state machine that takes any snapshot.
type credulous struct{ *fsm.State }

func (credulous) Restore(from io.ReadCloser) error {
	_, err := io.Copy(io.Discard, from)
	return errors.Join(err, from.Close())
}

// installOlder makes the leader send a follower a snapshot that is 20 entries older than what the follower has applied.
// It returns the index that was applied before.
func (c *cluster) installOlder(leads *peer) (before uint64, err error) {
	c.t.Helper()
	follower := c.others(leads)[0]
	for n := range uint64(10) {
		leads.apply(c.t, open(n))
	}
	if err = leads.Snapshot().Error(); err != nil {
		c.t.Fatal(err)
	}
	all, err := leads.snapshots.List()
	if err != nil || len(all) == 0 {
		c.t.Fatalf("%d snapshots, %v", len(all), err)
	}
	for n := range uint64(20) {
		leads.apply(c.t, open(10+n))
	}
	index := leads.LastIndex()
	c.eventually("all entries", 10*time.Second, func() bool {
		return follower.AppliedIndex() == index && follower.state.Sessions() == 30
	})
	return index, c.install(leads, follower, all[0].ID)
}

// install makes the leader send a follower one of its snapshots.
func (c *cluster) install(leads, follower *peer, id string) error {
	c.t.Helper()
	meta, from, err := leads.snapshots.Open(id)
	if err != nil {
		c.t.Fatal(err)
	}
	defer from.Close()
	var answer raft.InstallSnapshotResponse
	return leads.transport.InstallSnapshot(raft.ServerID(follower.name), follower.address(),
		&raft.InstallSnapshotRequest{
			RPCHeader: raft.RPCHeader{
				ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leads.name),
				Addr: []byte(leads.address()),
			},
			SnapshotVersion: meta.Version, Term: leads.CurrentTerm(), LastLogIndex: meta.Index, LastLogTerm: meta.Term,
			Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex,
			Size: meta.Size,
		}, &answer, from)
}

// restoreNewest returns the state in a server's newest snapshot.
func restoreNewest(t *testing.T, p *peer) *fsm.State {
	t.Helper()
	all, err := p.snapshots.List()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d snapshots, %v", len(all), err)
	}
	_, from, err := p.snapshots.Open(all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(from)
	if err = errors.Join(err, from.Close()); err != nil {
		t.Fatal(err)
	}
	state := fsm.New(fsm.Config{Logger: hclog.NewNullLogger(), Fatal: func(err error) { t.Error(err) }})
	if err := state.Restore(io.NopCloser(bytes.NewReader(b))); err != nil {
		t.Fatal(err)
	}
	return state
}

// Apply takes no term: a node can append in a later term what it decided as the leader of a former one. The state
// ignores a close whose term is not its entry's (E3 ordered closes). A close of the entry's own term is the control.
func TestWhatWasDecidedInAFormerTermChangesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3})
		defer c.stop()
		leads := c.leader()
		opened := leads.apply(t, open(1))
		if opened.Err != nil {
			t.Fatal(opened.Err)
		}
		decided := leads.CurrentTerm()
		c.reelect(leads)
		if now := leads.CurrentTerm(); now <= decided {
			t.Fatalf("the term is %d and was %d: the trap is not sprung", now, decided)
		}
		closing := func(term uint64) session.CloseSessions {
			return session.CloseSessions{Term: term, Cause: session.CauseExpired, Sessions: []session.Closing{{
				ID: opened.Session.ID, Attachment: opened.Session.Attachment,
			}}}
		}
		if got := leads.apply(t, closing(decided)); got.Term == decided || got.Closed[0] {
			t.Errorf("a close of term %d, appended in term %d, ended the session: %v", decided, got.Term, got.Closed)
		}
		if _, lives := leads.state.Session(opened.Session.ID); !lives {
			t.Error("the session has ended")
		}
		if got := leads.apply(t, closing(leads.CurrentTerm())); !got.Closed[0] {
			t.Errorf("a close of the entry's own term ended nothing: %+v", got)
		}
	})
}

// apply applies one command through Raft.
func (p *peer) apply(t *testing.T, c session.Command) session.Result {
	t.Helper()
	data, err := entry.Encode([]session.Command{c})
	if err != nil {
		t.Fatal(err)
	}
	future := p.Apply(data, time.Second)
	if err := future.Error(); err != nil {
		t.Fatal(err)
	}
	results, ok := future.Response().([]session.Result)
	if !ok {
		t.Fatalf("the state answered %v", future.Response())
	}
	return results[0]
}

// reelect takes leadership away from p and gives it back.
func (c *cluster) reelect(p *peer) {
	c.t.Helper()
	other := c.others(p)[0]
	for _, to := range []*peer{other, p} {
		from := c.leader()
		if err := from.LeadershipTransferToServer(raft.ServerID(to.name), to.address()).Error(); err != nil {
			c.t.Fatal(err)
		}
		c.eventually(to.name+" to lead", time.Minute, func() bool { return to.State() == raft.Leader })
		if err := to.Barrier(time.Second).Error(); err != nil {
			c.t.Fatal(err)
		}
	}
}
