package raft_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// goroutineStands is how long a goroutine does not run.
const goroutineStands = 20 * time.Second

// standing is a transport that, once armed, stops a goroutine for a while: the next one that prepares a request with
// entries, between its look at the log and its look at the commit index.
type standing struct {
	wire
	// armed holds the address of the server that is spared; nil while it is not armed.
	armed *atomic.Pointer[raft.ServerAddress]
}

func (s *standing) EncodePeer(id raft.ServerID, address raft.ServerAddress) []byte {
	var stack [4096]byte
	but := s.armed.Load()
	if but != nil && *but != s.LocalAddr() &&
		strings.Contains(string(stack[:runtime.Stack(stack[:], false)]), "replicateTo") &&
		s.armed.CompareAndSwap(but, nil) {
		time.Sleep(goroutineStands)
	}
	return s.wire.EncodePeer(id, address)
}

// A leader's goroutine looks at the log, and then at the commit index. Entries may be committed between the two. Then
// its request has no entries and names their commit. A follower takes its own entries up to there for committed, though
// no server has compared them.
func TestControlACommitIsBelievedUnseen(t *testing.T) {
	for tries := range standTries {
		if applied := commitUnseen(t, func(l *raftnet.Layer) wire {
			return raftnet.NewTransport(l, transportTimeout).NetworkTransport
		}); applied > 0 {
			t.Logf("%d entries that only the deposed leader had were applied at try %d", applied, tries+1)
			return
		}
	}
	t.Error("the follower applied no entry that others did not apply: the trap is gone")
}

func TestNoCommitIsToldBeyondARequest(t *testing.T) {
	for range standTries {
		if applied := commitUnseen(t, func(l *raftnet.Layer) wire {
			return raftnet.NewTransport(l, transportTimeout)
		}); applied > 0 {
			t.Fatalf("%d entries that only the deposed leader had were applied", applied)
		}
	}
}

// standTries is how often the trap is set. Chance decides which goroutine stands, and whether it does before the first
// entry of the term. About every third try springs the trap.
const standTries = 15

// commitUnseen returns how many entries a follower applied that other servers did not.
func commitUnseen(t *testing.T, transport func(*raftnet.Layer) wire) (applied int) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		states := map[*fsm.State]*recorder{}
		var armed atomic.Pointer[raft.ServerAddress]
		c := start(t, options{
			peers: 3, transport: func(l *raftnet.Layer) wire { return &standing{transport(l), &armed} },
			machine: func(s *fsm.State) raft.FSM {
				states[s] = &recorder{State: s, terms: map[uint64]uint64{}}
				return states[s]
			},
		})
		defer c.stop()
		for _, p := range c.peers { // time of a disk, in which a new leader's goroutines begin
			p.logs.onWrite(func([]*raft.Log) error { time.Sleep(5 * time.Millisecond); return nil })
		}
		deposed := c.leader()
		deposed.apply(t, open(1))
		time.Sleep(time.Second) // until all servers have it
		for _, p := range c.others(deposed) {
			c.Reset(deposed.name, p.name)
			c.cut(deposed, p)
		}
		for n := range uint64(100) {
			deposed.Apply(payload(t, 100+n), time.Second)
		}
		at := deposed.address()
		armed.Store(&at)
		c.eventually("the old leader to step down", time.Minute, func() bool { return deposed.State() != raft.Leader })
		leads := c.leader(deposed)
		for n := range uint64(50) {
			leads.Apply(payload(t, 1000+n), time.Second)
		}
		time.Sleep(time.Second)
		for _, p := range c.others(deposed) {
			c.heal(deposed, p)
		}
		time.Sleep(2 * goroutineStands)
		_, applied = differs(states[deposed.state], states[leads.state])
	})
	return applied
}
