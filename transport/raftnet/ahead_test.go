package raftnet

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// entries returns the commands of a term from one index to another.
func entries(term, from, to uint64) (all []*raft.Log) {
	for index := from; index <= to; index++ {
		all = append(all, &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: []byte{byte(index)}})
	}
	return all
}

// asRaft returns Raft's request for entries.
func asRaft(term, commit uint64, all []*raft.Log) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("one"), Addr: []byte("a")}, Term: term,
		PrevLogEntry: all[0].Index - 1, PrevLogTerm: term, LeaderCommitIndex: commit, Entries: all,
	}
}

// brought returns the requests with entries that the follower got since the last call.
func (n *noticed) brought() []*raft.AppendEntriesRequest {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.got
	n.got = nil
	return all
}

// goesAhead says whether entries go ahead to the follower.
func (n *noticed) goesAhead(all []*raft.Log, commit uint64) bool {
	n.t.Helper()
	n.brought()
	n.Ahead(all, commit)
	time.Sleep(soon)
	return len(n.brought()) > 0
}

// TestR8EntriesGoAhead: the follower gets what Raft would send, with the commit of the entries before. Raft's request
// for the same entries has that outcome, and is not sent.
func TestR8EntriesGoAhead(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 4, 3)
		n.brought()
		n.Ahead(entries(7, 5, 6), 4)
		var answer raft.AppendEntriesResponse
		if err := n.pair.a.AppendEntries("2", "b", asRaft(7, 4, entries(7, 5, 6)), &answer); err != nil ||
			!answer.Success || answer.Term != 7 {
			t.Errorf("Raft's request: %+v, %v", answer, err)
		}
		got := n.brought()
		if len(got) != 1 {
			t.Fatalf("the follower got %d requests with entries, want the one that went ahead", len(got))
		}
		r := got[0]
		if r.Term != 7 || r.PrevLogEntry != 4 || r.PrevLogTerm != 7 || r.LeaderCommitIndex != 4 || len(r.Entries) != 2 ||
			r.Entries[1].Index != 6 || r.Entries[1].Data[0] != 6 || string(r.ID) != "one" || string(r.Addr) != "a" {
			t.Errorf("what went ahead is %+v", r)
		}
		n.Landed(7, 6)
		n.expect("of what went ahead", n.told(soon), 6)
		if stats := n.Stats(); stats.Pipelined != 1 {
			t.Errorf("counted %+v", stats)
		}
		if !n.goesAhead(entries(7, 7, 7), 6) {
			t.Error("the next entry did not go ahead")
		}
	})
}

// TestR8IsOnItsWayBeforeTheWriteBegins: on a single processor, what goes ahead has been sent when Ahead returns. The
// caller's write would otherwise hold it up until that waits for the disk. The runtime looks at times for who has
// waited longest, so a few return first.
func TestR8IsOnItsWayBeforeTheWriteBegins(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 4, 3)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		const tries = 40
		first := 0
		for index := uint64(5); index < 5+tries; index++ {
			n.brought()
			before := n.pair.sent.Load()
			n.Ahead(entries(7, index, index), index-1)
			if n.pair.sent.Load() > before {
				first++
			}
			time.Sleep(soon)
		}
		if first < tries/2 {
			t.Errorf("%d of %d requests had been sent", first, tries)
		}
	})
}

// TestR8AnswersOneRequestForTheSameEntries: what went ahead answers one request of Raft's, and none for other entries.
func TestR8AnswersOneRequestForTheSameEntries(t *testing.T) {
	others := map[string]func(r *raft.AppendEntriesRequest){
		"one entry more":      func(r *raft.AppendEntriesRequest) { r.Entries = entries(7, 5, 6) },
		"of another term":     func(r *raft.AppendEntriesRequest) { r.Entries[0].Term = 6 },
		"in another term":     func(r *raft.AppendEntriesRequest) { r.Term = 8 },
		"behind another":      func(r *raft.AppendEntriesRequest) { r.PrevLogTerm = 6 },
		"one entry before it": func(r *raft.AppendEntriesRequest) { *r = *asRaft(7, 3, entries(7, 4, 4)) },
	}
	for name, change := range others {
		t.Run(name, func(t *testing.T) {
			withNotices(t, func(n *noticed) {
				n.append(7, 4, 3)
				n.goesAhead(entries(7, 5, 5), 4)
				r := asRaft(7, 4, entries(7, 5, 5))
				change(r)
				for _, one := range []*raft.AppendEntriesRequest{r, asRaft(7, 4, entries(7, 5, 5))} {
					if err := n.pair.a.AppendEntries("2", "b", one, &raft.AppendEntriesResponse{}); err != nil {
						t.Error(err)
					}
				}
				if got := n.brought(); len(got) != 2 {
					t.Errorf("the follower got %d requests of Raft's, want both", len(got))
				}
			})
		})
	}
}

// TestR8OnlyBehindWhatTheFollowerHas: entries go ahead only in the term that this node leads, to a follower that has
// acknowledged the entry before them in it, of that term, and only commands, as many as fit into one request.
func TestR8OnlyBehindWhatTheFollowerHas(t *testing.T) {
	withNotices(t, func(n *noticed) {
		if n.goesAhead(entries(7, 5, 5), 4) {
			t.Error("to a follower that has acknowledged nothing")
		}
		old := asRaft(7, 2, entries(6, 3, 3))
		old.PrevLogTerm = 6
		if err := n.pair.a.AppendEntries("2", "b", old, &raft.AppendEntriesResponse{}); err != nil {
			t.Error(err)
		}
		if n.goesAhead(entries(7, 4, 4), 2) {
			t.Error("behind an entry of a former term")
		}
		n.append(7, 4, 3)
		if n.goesAhead(entries(7, 6, 6), 4) || n.goesAhead(entries(7, 4, 4), 3) {
			t.Error("not behind the newest entry that the follower has")
		}
		if n.goesAhead(entries(8, 5, 5), 4) {
			t.Error("in a term that this node does not lead")
		}
		n.leads.Store(0)
		if n.goesAhead(entries(7, 5, 5), 4) {
			t.Error("when this node leads no more")
		}
		n.leads.Store(7)
		mixed := entries(7, 5, 6)
		mixed[1].Type = raft.LogConfiguration
		if n.goesAhead(mixed, 4) {
			t.Error("a configuration")
		}
		large := entries(7, 5, 6)
		large[0].Data = make([]byte, MaxRequest)
		if n.goesAhead(large, 4) {
			t.Error("more than fits into one request")
		}
		if !n.goesAhead(entries(7, 5, 5), 4) {
			t.Error("nothing went ahead behind the newest entry")
		}
	})
}

// TestR8OneRequestAtATime: a follower that has not answered gets nothing else ahead, and Raft waits for its answer.
func TestR8OneRequestAtATime(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 4, 3)
		n.slow(time.Second)
		n.Ahead(entries(7, 5, 5), 4)
		n.Ahead(entries(7, 5, 5), 4)
		begun := time.Now()
		var answer raft.AppendEntriesResponse
		if err := n.pair.a.AppendEntries("2", "b", asRaft(7, 4, entries(7, 5, 5)), &answer); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took < time.Second || took > time.Second+soon {
			t.Errorf("Raft's request took %v", took)
		}
		if got := n.brought(); len(got) != 2 { // with the first
			t.Errorf("the follower got %d requests, want one ahead", len(got)-1)
		}
	})
}

// TestR8AFailureIsRaftsToo: what went ahead and failed, or was refused, is so for Raft. Raft's next request is sent.
func TestR8AFailureIsRaftsToo(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 4, 3)
		n.refuse(true)
		n.goesAhead(entries(7, 5, 5), 4)
		n.refuse(false)
		var answer raft.AppendEntriesResponse
		if err := n.pair.a.AppendEntries("2", "b", asRaft(7, 4, entries(7, 5, 5)), &answer); err != nil || answer.Success ||
			answer.LastLog != 2 {
			t.Errorf("Raft got %+v, %v, want the refusal", answer, err)
		}
		n.pair.Cut("a", "b")
		n.Ahead(entries(7, 5, 5), 4)
		err := n.pair.a.AppendEntries("2", "b", asRaft(7, 4, entries(7, 5, 5)), &answer)
		if err == nil || errors.Is(err, raft.ErrTransportShutdown) {
			t.Errorf("Raft got %v, want that the follower does not answer", err)
		}
		n.pair.Heal("a", "b")
		time.Sleep(soon)
		n.brought()
		if err = n.pair.a.AppendEntries("2", "b", asRaft(7, 4, entries(7, 5, 5)), &answer); err != nil || !answer.Success {
			t.Errorf("Raft's next request: %+v, %v", answer, err)
		}
	})
}

// Entries that hang on their way ahead end with the transport, and none go after that.
func TestCloseEndsWhatGoesAhead(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 4, 3)
		n.slow(time.Second)
		n.Ahead(entries(7, 5, 5), 4)
		time.Sleep(soon)
		begun := time.Now()
		if err := n.pair.a.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("Close took %v", took)
		}
		n.Ahead(entries(7, 5, 5), 4)
		time.Sleep(time.Minute)
	})
}

// TestR8WhatWaitsIsForgotten: entries that wait for the answer of the follower do not go ahead when it refuses those
// before them, and not once this node leads no more, has seen a newer term, or closes.
func TestR8WhatWaitsIsForgotten(t *testing.T) {
	for name, happens := range map[string]func(n *noticed){
		"the follower refuses":    func(*noticed) {},
		"this node leads no more": func(n *noticed) { n.leads.Store(0) },
		"there is a newer term":   func(n *noticed) { n.Landed(8, 5) },
		"the transport closes": func(n *noticed) { // what is on its way has been answered by then
			n.Notices.mu.Lock()
			defer n.Notices.mu.Unlock()
			n.closed = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			withNotices(t, func(n *noticed) {
				n.append(7, 4, 3)
				n.slow(time.Second)
				n.refuse(name == "the follower refuses")
				n.brought()
				n.Ahead(entries(7, 5, 5), 4)
				n.Ahead(entries(7, 6, 6), 5)
				n.Notices.mu.Lock()
				waits := n.followers["2"].waits
				n.Notices.mu.Unlock()
				if waits == nil {
					t.Error("nothing waits: the test measures nothing")
				}
				happens(n)
				time.Sleep(2 * time.Second)
				if got := n.brought(); len(got) != 1 {
					t.Errorf("the follower got %d requests, want the first only", len(got))
				}
			})
		})
	}
}

// TestR8TheNextEntriesWait: entries behind those that are on their way follow as soon as the follower has answered.
func TestR8TheNextEntriesWait(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 4, 3)
		n.slow(time.Second)
		n.brought()
		n.Ahead(entries(7, 5, 5), 4)
		asked := make(chan error)
		go func() {
			asked <- n.pair.a.AppendEntries("2", "b", asRaft(7, 4, entries(7, 5, 5)), &raft.AppendEntriesResponse{})
		}()
		synctest.Wait()
		n.Ahead(entries(7, 6, 6), 5)
		time.Sleep(time.Second - soon)
		if got := n.brought(); len(got) != 1 {
			t.Errorf("%d requests went ahead before an answer, want 1", len(got))
		}
		time.Sleep(2 * soon)
		if got := n.brought(); len(got) != 1 || got[0].PrevLogEntry != 5 || got[0].LeaderCommitIndex != 5 {
			t.Errorf("%d requests followed the answer, want that for entry 6: %+v", len(got), got)
		}
		if err := <-asked; err != nil {
			t.Error(err)
		}
	})
}
