package raft_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// vanguard sends the entries that p is about to write, as the leader of their term, to other servers.
type vanguard func(s *storm, p *peer, entries []*raft.Log)

// byAhead is production's vanguard.
func byAhead(s *storm, p *peer, entries []*raft.Log) { s.noticesOf(p).Ahead(entries, p.CommitIndex()) }

// aheadToAll sends entries to every other server at once, whatever the server has. change, when set, spoils the
// request.
func aheadToAll(change func(*raft.AppendEntriesRequest)) vanguard {
	return func(s *storm, p *peer, entries []*raft.Log) {
		bare, ok := p.transport.(*raftnet.Transport)
		var before raft.Log
		if !ok || entries[0].Type != raft.LogCommand || p.logs.GetLog(entries[0].Index-1, &before) != nil {
			return
		}
		request := raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{
				ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(p.name), Addr: []byte(p.address()),
			},
			Term: entries[0].Term, PrevLogEntry: before.Index, PrevLogTerm: before.Term,
		}
		for _, e := range entries {
			one := *e
			request.Entries = append(request.Entries, &one)
		}
		if change != nil {
			change(&request)
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

// victim returns p, or most of the time a leader, if there is one.
func (s *storm) victim(p *peer, random *rand.Rand) *peer {
	for _, one := range s.peers {
		if one.State() == raft.Leader && random.IntN(4) > 0 {
			return one
		}
	}
	return p
}

// crash ends a server at any moment, a leader often while it writes entries. What it has not written by then is lost.
// The others go on for a while, and then it starts again. It returns how many entries were proposed after the first
// ones.
func (s *storm) crash(p *peer, first uint64, random *rand.Rand) (entries uint64) {
	propose := func() {
		for _, one := range s.peers {
			if s.up(one) && one.State() == raft.Leader {
				entries++
				one.Apply(payload(s.t, first+entries), time.Second)
			}
		}
	}
	propose()
	time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
	s.mu.Lock()
	s.down[p] = true
	s.crashes++
	s.mu.Unlock()
	led := p.State() == raft.Leader
	term := p.CurrentTerm()
	p.logs.crash()
	s.Kill(p.name)
	if err := p.stop(); err != nil {
		s.t.Errorf("the end of %s: %v", p.name, err)
	}
	for _, l := range p.logs.lost {
		if led && l.Term == term {
			s.lost = append(s.lost, l)
		}
	}
	p.logs.lost = nil
	s.ahead += s.noticesOf(p).Stats().Pipelined // the next process counts from 0
	for range random.IntN(30) {
		propose()
		time.Sleep(100 * time.Millisecond)
	}
	p.logs.revive()
	p.host = s.Host(p.name)
	listener, err := p.host.Listen(string(p.address()))
	if err == nil {
		p.connect(listener, s.options)
		err = p.run(s.options)
	}
	if err != nil {
		s.t.Fatalf("%s does not start again: %v", p.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[p] = false
	return entries
}

// logsDiffer says where two logs have different commands at one index.
func (s *storm) logsDiffer() error {
	for _, a := range s.peers {
		last, err := a.logs.LastIndex()
		if err != nil {
			return err
		}
		for index := uint64(1); index <= last; index++ {
			for _, b := range s.others(a) {
				var one, other raft.Log
				if a.logs.GetLog(index, &one) != nil || b.logs.GetLog(index, &other) != nil ||
					one.Type != raft.LogCommand || other.Type != raft.LogCommand {
					continue
				}
				if one.Term != other.Term || string(one.Data) != string(other.Data) {
					return fmt.Errorf("entry %d of %s is of term %d, that of %s of term %d, and the data differ", index,
						a.name, one.Term, b.name, other.Term)
				}
			}
		}
	}
	return nil
}

// R8: entries that go ahead of the leader's own write make no server apply an entry that others do not apply, also when
// leaders lose what they were writing.
func TestEntriesAheadCommitNothingElse(t *testing.T) {
	var entries, ahead uint64
	var restores, crashes, lost, kept int
	for seed := range storms() {
		bubble.Test(t, func(t *testing.T) {
			s := newStormWith(t, byNotices, byAhead)
			defer s.stop()
			entries += s.rage(seed, 400)
			s.finish()
			for _, err := range []error{s.calm(), s.logsDiffer()} {
				if err != nil || s.differ() > 0 {
					t.Errorf("seed %d: %d entries differ: %v", seed, s.differ(), err)
				}
			}
			ahead += s.ahead
			for _, p := range s.peers {
				ahead += s.noticesOf(p).Stats().Pipelined
			}
			for _, l := range s.lost {
				if lost++; s.first[l.Index].term == l.Term {
					kept++
				}
			}
			restores, crashes = restores+s.restores, crashes+s.crashes
		})
	}
	t.Logf("%d requests went ahead; %d entries, %d snapshots installed, %d crashes; leaders lost %d entries, of "+
		"which %d were applied", ahead, entries, restores, crashes, lost, kept)
	if ahead < entries/10 || restores == 0 || kept == 0 {
		t.Errorf("%d requests ahead for %d entries, %d snapshots and %d of %d lost entries applied: the storm is too "+
			"quiet", ahead, entries, restores, kept, lost)
	}
}

// The previous entry makes it safe: entries may go ahead to every server, whatever the server has.
func TestEntriesAheadToAllCommitNothingElse(t *testing.T) {
	var taken uint64
	for seed := range storms() {
		bubble.Test(t, func(t *testing.T) {
			s := newStormWith(t, byNotices, aheadToAll(nil))
			defer s.stop()
			s.rage(seed, 400)
			s.finish()
			for _, err := range []error{s.calm(), s.logsDiffer()} {
				if err != nil || s.differ() > 0 {
					t.Errorf("seed %d: %d entries differ: %v", seed, s.differ(), err)
				}
			}
			taken += s.taken.Load()
		})
	}
	if taken == 0 {
		t.Error("no server took entries ahead")
	}
}

// What goes ahead must follow an entry that both have, and must be what the leader then writes: Raft knows an entry by
// its index and its term alone. Otherwise servers apply different entries, or Raft panics. This test runs its storms in
// child processes.
func TestControlEntriesAheadThatAreNotTheLeaders(t *testing.T) {
	spoilt := map[string]func(*raft.AppendEntriesRequest){
		"compare nothing": func(r *raft.AppendEntriesRequest) { r.PrevLogEntry, r.PrevLogTerm = 0, 0 },
		"are others": func(r *raft.AppendEntriesRequest) {
			r.Entries[0].Data = append([]byte(nil), r.Entries[0].Data...)
			r.Entries[0].Data[len(r.Entries[0].Data)/2] ^= 1
		},
	}
	if name, number, ok := strings.Cut(os.Getenv(childVariable), "/"); ok {
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		bubble.Test(t, func(t *testing.T) {
			s := newStormWith(t, byNotices, aheadToAll(spoilt[name]))
			s.rage(seed, 400)
			if n := s.differ(); n > 0 {
				panic(fmt.Sprintf("%d entries differ", n))
			}
			s.finish()
			if err := s.logsDiffer(); err != nil {
				panic("entries differ: " + err.Error())
			}
			s.stop()
		})
		return
	}
	for name := range spoilt {
		t.Run(name, func(t *testing.T) {
			var last string
			for seed := range 16 {
				child := exec.CommandContext(t.Context(), os.Args[0],
					"-test.run=^TestControlEntriesAheadThatAreNotTheLeaders$", "-test.timeout=60s")
				child.Env = append(os.Environ(), childVariable+"="+name+"/"+strconv.Itoa(seed))
				out, err := child.CombinedOutput()
				last = string(out)
				if why := sprung(last); err != nil && why != "" {
					t.Logf("storm %d ended with: %s", seed, why)
					return
				}
			}
			t.Errorf("no server applied an entry that others did not apply: the trap is gone\n%s", last)
		})
	}
}

// sprung returns why a child process has panicked, if entries differ or if the panic is Raft's. The stack of the
// goroutine that panicked comes first. Raft's own has no frame of this package.
func sprung(output string) string {
	_, why, _ := strings.Cut(output, "panic: ")
	first, stack, _ := strings.Cut(why, "\n")
	_, stack, _ = strings.Cut(stack, "goroutine ")
	stack, _, _ = strings.Cut(stack, "\n\n")
	if strings.Contains(first, "entries differ") || strings.Contains(stack, "raft.(*Raft).run") {
		return first
	}
	return ""
}
