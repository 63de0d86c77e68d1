package raft_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// herald tells other servers of an entry that p has applied in the term that p leads.
type herald func(s *storm, p *peer, l *raft.Log)

// byNotices is production's herald.
func byNotices(s *storm, p *peer, l *raft.Log) { s.noticesOf(p).Landed(l.Term, l.Index) }

// toAll tells every other server at once, whatever the server has.
//
//nolint:revive // flag-parameter: the control leaves the previous entry out
func toAll(compared bool) herald {
	return func(s *storm, p *peer, l *raft.Log) {
		request := raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{
				ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(p.name), Addr: []byte(p.address()),
			},
			Term: l.Term, LeaderCommitIndex: l.Index,
		}
		if compared {
			request.PrevLogEntry, request.PrevLogTerm = l.Index, l.Term
		}
		bare, ok := p.transport.(*raftnet.Transport)
		if !ok {
			s.t.Errorf("the transport is a %T", p.transport)
			return
		}
		for _, to := range s.others(p) {
			s.spawn(func() {
				var answer raft.AppendEntriesResponse
				err := bare.NetworkTransport.AppendEntries(raft.ServerID(to.name), to.address(), &request, &answer)
				if err == nil && answer.Success {
					s.taken.Add(1)
				}
			})
		}
	}
}

// storm is a cluster of five voters and one server without a vote, in which links break, servers are cut off with
// entries under way, leadership moves on, and snapshots are installed.
type storm struct {
	*cluster
	options options
	herald  herald
	// vanguard, when set, sends the entries of a leader ahead of its own write, and lets servers crash.
	vanguard vanguard
	// lost are the entries that leaders were writing when they crashed, ahead counts the requests with entries that
	// went ahead in processes that have ended. Only the goroutine of the test uses both.
	lost    []raft.Log
	ahead   uint64
	begun   atomic.Bool
	taken   atomic.Uint64
	running sync.WaitGroup

	mu sync.Mutex
	// notices are those of each server, and states the servers of their states. guarded by mu
	notices map[*peer]*raftnet.Notices
	states  map[*fsm.State]*peer
	// first is the entry that the first server applied at an index. guarded by mu
	first map[uint64]identity
	// down are the servers that have crashed. guarded by mu
	down map[*peer]bool
	// ended says that nothing is spawned any more. guarded by mu
	ended bool
	// diverged counts the entries that a server applied differently from the first. restores counts the snapshots that
	// were installed, crashes the servers that crashed. guarded by mu
	diverged, restores, crashes int
}

// identity is what tells entries at one index apart.
type identity struct {
	term uint64
	data string
}

// stormy is the state machine of a server in a storm.
type stormy struct {
	*fsm.State
	storm *storm
}

func (m *stormy) Apply(l *raft.Log) any {
	result := m.State.Apply(l)
	m.storm.applied(m.State, l)
	return result
}

// Restore restores a snapshot, and then makes the log go on from the snapshot, as a node does.
func (m *stormy) Restore(from io.ReadCloser) error {
	if err := m.State.Restore(from); err != nil {
		return err
	}
	p := m.storm.owner(m.State)
	all, err := p.snapshots.List()
	if err == nil && len(all) > 0 {
		err = p.logs.anchor(all[0].Index, all[0].Term)
	}
	m.storm.mu.Lock()
	defer m.storm.mu.Unlock()
	m.storm.restores++
	return err
}

// anchor makes the log go on from a snapshot: see node/storage/anchor.go. The stand-in for the snapshot's last entry
// stays in the log, for Raft reads only its term.
func (l *logs) anchor(index, term uint64) error {
	var e raft.Log
	if err := l.GetLog(index, &e); err == nil && e.Term == term {
		return nil
	}
	first, err := l.FirstIndex()
	if err == nil && first > 0 && first <= index {
		err = l.DeleteRange(first, index)
	}
	return errors.Join(err, l.InmemStore.StoreLog(&raft.Log{Index: index, Term: term, Type: raft.LogNoop}))
}

func (s *storm) noticesOf(p *peer) *raftnet.Notices {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notices[p]
}

// owner returns the server that a state is of.
func (s *storm) owner(state *fsm.State) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[state]
}

// applied records an entry that a server has applied. If the server leads the entry's term, it tells the others.
func (s *storm) applied(state *fsm.State, l *raft.Log) {
	s.mu.Lock()
	this := identity{l.Term, string(l.Data)}
	if first, ok := s.first[l.Index]; !ok {
		s.first[l.Index] = this
	} else if first != this {
		s.diverged++
	}
	s.mu.Unlock()
	if !s.begun.Load() {
		return
	}
	if p := s.owner(state); s.leads(p, l.Term) {
		s.herald(s, p, l)
	}
}

// spawn runs f beside the storm, until finish.
func (s *storm) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.running.Go(f)
	}
}

// finish waits for what was spawned. Nothing is spawned after it.
func (s *storm) finish() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
}

func (s *storm) leads(p *peer, term uint64) bool {
	return s.begun.Load() && s.up(p) && p.State() == raft.Leader && p.CurrentTerm() == term
}

// up reports whether a server runs.
func (s *storm) up(p *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.down[p]
}

func newStorm(t *testing.T, tell herald) *storm {
	t.Helper()
	return newStormWith(t, tell, nil)
}

func newStormWith(t *testing.T, tell herald, lead vanguard) *storm {
	t.Helper()
	s := &storm{
		herald: tell, vanguard: lead, notices: map[*peer]*raftnet.Notices{}, states: map[*fsm.State]*peer{},
		first: map[uint64]identity{}, down: map[*peer]bool{},
	}
	s.options = options{peers: 6, voters: 5, prepare: func(p *peer, conf *raft.Config) {
		// Raft itself tells of commits too late for the test: only notices and entries do.
		conf.CommitTimeout = 300 * time.Millisecond
		conf.SnapshotThreshold, conf.SnapshotInterval, conf.TrailingLogs = 1<<20, time.Hour, 16
		p.snapshots.whole = true
		s.mu.Lock()
		defer s.mu.Unlock()
		s.states[p.state] = p
		if bare, ok := p.transport.(*raftnet.Transport); ok {
			s.notices[p] = raftnet.NewNotices(bare, func(term uint64) bool { return s.leads(p, term) })
		}
		p.logs.onWrite(func(all []*raft.Log) error { return s.write(p, all) })
	}, machine: func(state *fsm.State) raft.FSM { return &stormy{state, s} }}
	s.cluster = start(t, s.options)
	s.begun.Store(true)
	return s
}

// write takes a while, as a disk does. A leader first sends the entries ahead, if the storm does that.
func (s *storm) write(p *peer, all []*raft.Log) error {
	if s.vanguard != nil && s.leads(p, all[0].Term) {
		s.vanguard(s, p, all)
	}
	time.Sleep(2 * time.Millisecond)
	return nil
}

// rage does so many things to the cluster, and returns how many entries were proposed. It stops early once servers have
// diverged: Raft panics soon after.
func (s *storm) rage(seed uint64, steps int) (entries uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	var cut []func()
	heal := func() {
		for _, undo := range cut {
			undo()
		}
		cut = nil
	}
	defer heal()
	apart := func(a, b *peer) {
		s.Reset(a.name, b.name)
		s.cut(a, b)
		cut = append(cut, func() { s.heal(a, b) })
	}
	for range steps {
		p := s.peers[random.IntN(len(s.peers))]
		leads := p.State() == raft.Leader
		switch random.IntN(12) {
		case 0:
			apart(p, s.others(p)[random.IntN(len(s.peers)-1)])
		case 1, 2: // a leader with entries under way, if it is one
			for _, other := range s.others(p) {
				apart(p, other)
			}
		case 3, 4:
			heal()
		case 5:
			if leads {
				r := p.Raft
				s.spawn(func() { _ = r.LeadershipTransfer().Error() })
			}
		case 6:
			r := p.Raft
			s.spawn(func() { _ = r.Snapshot().Error() })
		case 7:
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		case 8:
			if !leads && random.IntN(4) == 0 {
				entries += s.leaveBehind(p, entries)
			}
		case 9:
			if s.vanguard != nil {
				entries += s.crash(s.victim(p, random), entries, random)
			}
		}
		for _, one := range s.peers {
			if one.State() != raft.Leader {
				continue
			}
			for range random.IntN(6) {
				entries++
				one.Apply(payload(s.t, entries), time.Second)
			}
		}
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		if s.differ() > 0 {
			return entries
		}
	}
	return entries
}

// leaveBehind cuts a server off until a leader, if there is one, no longer has the entries that the server lacks. It
// returns how many entries were proposed after the first ones.
func (s *storm) leaveBehind(p *peer, first uint64) (entries uint64) {
	for _, other := range s.others(p) {
		s.Reset(p.name, other.name)
		s.cut(p, other)
		defer s.heal(p, other)
	}
	for range 40 {
		for _, one := range s.others(p) {
			if one.State() == raft.Leader {
				entries++
				one.Apply(payload(s.t, first+entries), time.Second)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, one := range s.others(p) {
		_ = one.Snapshot().Error() // there may be nothing new
	}
	return entries
}

func (s *storm) differ() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.diverged
}

// calm waits until all servers have applied the same, and says what differs.
func (s *storm) calm() error {
	leads := s.leader()
	entries := uint64(1 << 20)
	begun := time.Now()
	for {
		if leads.State() == raft.Leader {
			leads.Apply(payload(s.t, entries), time.Second)
			entries++
		} else {
			leads = s.leader()
		}
		time.Sleep(time.Second)
		index, digest := leads.state.Digest()
		same := true
		for _, p := range s.others(leads) {
			at, d := p.state.Digest()
			same = same && at == index
			if at == index && d != digest {
				return fmt.Errorf("at index %d the states of %s and %s differ", index, leads.name, p.name)
			}
		}
		if same {
			return nil
		}
		if time.Since(begun) > 5*time.Minute {
			return errors.New("the servers do not come to the same index")
		}
	}
}

// storms returns how many storms a test has. Under the race detector each takes ten times as long.
func storms() uint64 {
	if bubble.Race {
		return 1
	}
	return 4
}

// R7: notices of commits make no server apply an entry that others do not apply.
func TestNoticesCommitNothingElse(t *testing.T) {
	var entries, taken, failed uint64
	var restores int
	for seed := range storms() {
		bubble.Test(t, func(t *testing.T) {
			s := newStorm(t, byNotices)
			defer s.stop()
			entries += s.rage(seed, 400)
			s.finish()
			if err := s.calm(); err != nil || s.differ() > 0 {
				t.Errorf("seed %d: %d entries differ: %v", seed, s.differ(), err)
			}
			for _, p := range s.peers {
				stats := s.noticesOf(p).Stats()
				taken, failed = taken+stats.Accepted, failed+stats.Failed
			}
			restores += s.restores
		})
	}
	t.Logf("%d notices were taken and %d failed; %d entries, %d snapshots installed", taken, failed, entries, restores)
	if taken < entries/10 || restores == 0 {
		t.Errorf("%d notices for %d entries and %d snapshots: the storm is too quiet", taken, entries, restores)
	}
}

// The previous entry alone makes a notice safe: notices of applied entries may go to every server, whatever it has.
func TestNoticesToAllCommitNothingElse(t *testing.T) {
	var taken uint64
	for seed := range storms() {
		bubble.Test(t, func(t *testing.T) {
			s := newStorm(t, toAll(true))
			defer s.stop()
			s.rage(seed, 400)
			s.finish()
			if err := s.calm(); err != nil || s.differ() > 0 {
				t.Errorf("seed %d: %d entries differ: %v", seed, s.differ(), err)
			}
			taken += s.taken.Load()
		})
	}
	if taken == 0 {
		t.Error("no server took a notice")
	}
}

// Without the previous entry, a server takes its own entries up to the commit for committed. Those of a deposed leader
// are then applied on one server alone, or Raft panics. This test runs its storms in child processes.
func TestControlANoticeThatComparesNothing(t *testing.T) {
	if seed, err := strconv.ParseUint(os.Getenv(childVariable), 10, 64); err == nil {
		bubble.Test(t, func(t *testing.T) {
			s := newStorm(t, toAll(false))
			s.rage(seed, 400)
			if n := s.differ(); n > 0 {
				panic(fmt.Sprintf("%d entries differ", n))
			}
			s.finish()
			s.stop()
		})
		return
	}
	var last string
	for seed := range 16 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
		child.Env = append(os.Environ(), childVariable+"="+strconv.Itoa(seed))
		out, err := child.CombinedOutput()
		last = string(out)
		if why := sprung(last); err != nil && why != "" {
			t.Logf("storm %d ended with: %s", seed, why)
			return
		}
	}
	t.Errorf("no server applied an entry that others did not apply: the trap is gone\n%s", last)
}
