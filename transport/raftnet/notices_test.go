package raftnet

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/test/bubble"
)

// noticed is a leader with notices, and a follower that answers what a test says.
type noticed struct {
	*Notices
	pair *thinPair
	t    *testing.T
	// leads is the term that the leader leads.
	leads atomic.Uint64

	mu sync.Mutex
	// heard are the notices that the follower got. guarded by mu
	heard []*raft.AppendEntriesRequest
	// takes and after say how and when the follower answers notices. guarded by mu
	takes bool
	after time.Duration
	// got are the requests with entries, of which refuses and takesLong say how they are answered. guarded by mu
	got       []*raft.AppendEntriesRequest
	refuses   bool
	takesLong time.Duration
}

// refuse sets whether the follower refuses entries, slow the time that it needs for them.
func (n *noticed) refuse(refuses bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses = refuses
}

func (n *noticed) slow(takes time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takesLong = takes
}

// withNotices runs f beside a follower that accepts every notice at once. The leader leads term 7.
func withNotices(t *testing.T, f func(*noticed)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		n := &noticed{pair: newThinPair(t, 1_000_000_000), t: t, takes: true}
		n.leads.Store(7)
		n.Notices = NewNotices(n.pair.a, func(term uint64) bool { return term == n.leads.Load() })
		ended, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case rpc := <-n.pair.b.Consumer():
					n.answer(rpc)
				case <-over:
					return
				}
			}
		}()
		f(n)
		close(over)
		<-ended
		n.pair.close()
	})
}

// answer answers a request as the follower.
func (n *noticed) answer(rpc raft.RPC) {
	request, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok {
		n.t.Errorf("the follower got a %T", rpc.Command)
		return
	}
	answer := &raft.AppendEntriesResponse{Term: request.Term, Success: true}
	n.mu.Lock()
	after := n.takesLong
	if len(request.Entries) == 0 {
		n.heard = append(n.heard, request)
		after = n.after
		answer.Success = n.takes
	} else {
		n.got = append(n.got, request)
		answer.Success, answer.LastLog = !n.refuses, 2
	}
	n.mu.Unlock()
	time.Sleep(after)
	rpc.Respond(answer, nil)
}

// answers sets how the follower answers notices.
func (n *noticed) answers(takes bool, after time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takes, n.after = takes, after
}

// append sends the follower the entries of a term up to an index, as Raft does, with Raft's commit index.
func (n *noticed) append(term, index, commit uint64) {
	n.t.Helper()
	request := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("one"), Addr: []byte("a")}, Term: term,
		PrevLogEntry: index - 1, PrevLogTerm: term, LeaderCommitIndex: commit,
		Entries: []*raft.Log{{Index: index, Term: term}},
	}
	if err := n.pair.a.AppendEntries("2", "b", request, &raft.AppendEntriesResponse{}); err != nil {
		n.t.Error(err)
	}
}

// told returns the commits of the notices to the follower, from the last call until a while from now.
func (n *noticed) told(after time.Duration) (commits []uint64) {
	time.Sleep(after)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.heard {
		commits = append(commits, r.LeaderCommitIndex)
	}
	n.heard = nil
	return commits
}

func (n *noticed) expect(what string, got []uint64, want ...uint64) {
	n.t.Helper()
	if !slices.Equal(got, want) {
		n.t.Errorf("%s: notices told the commits %v, want %v", what, got, want)
	}
}

const soon = 10 * time.Millisecond

// TestR7ANoticeComparesItsEntry: previous entry and commit are one entry of the term, and the sender is who Raft says.
func TestR7ANoticeComparesItsEntry(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 4, 3)
		n.Landed(7, 4)
		time.Sleep(soon)
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.heard) != 1 {
			t.Errorf("%d notices, want 1", len(n.heard))
			return
		}
		r := n.heard[0]
		if r.Term != 7 || r.PrevLogEntry != 4 || r.PrevLogTerm != 7 || r.LeaderCommitIndex != 4 || len(r.Entries) != 0 ||
			string(r.ID) != "one" || string(r.Addr) != "a" || r.ProtocolVersion != 3 {
			t.Errorf("the notice is %+v", r)
		}
		if got := n.Stats(); got != (NoticeStats{Accepted: 1}) {
			t.Errorf("counted %+v", got)
		}
	})
}

// TestR7OnlyWhatTheFollowerHas: a follower gets a notice of an entry once it has acknowledged it, and of no commit
// twice.
func TestR7OnlyWhatTheFollowerHas(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.Landed(7, 4)
		n.append(7, 3, 2)
		n.expect("before the entry is there", n.told(time.Minute))
		n.append(7, 4, 3)
		n.expect("once it is there", n.told(soon), 4)
		n.Landed(7, 4)
		n.append(7, 5, 4)
		n.expect("a second time", n.told(time.Minute))
		n.append(7, 6, 5)
		n.Landed(7, 5)
		n.expect("of what Raft has told", n.told(time.Minute))
		n.Landed(7, 6)
		n.expect("of the next", n.told(soon), 6)
	})
}

// TestR7OnlyInTheTermThatItLeads: there are no notices of entries of other terms, and acknowledgements of a former term
// do not count.
func TestR7OnlyInTheTermThatItLeads(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 9, 3)
		n.leads.Store(0)
		n.Landed(7, 5)
		n.expect("when it leads no more", n.told(time.Minute))
		n.leads.Store(9)
		n.append(9, 8, 3)
		n.Landed(7, 6)
		n.expect("of a former term", n.told(time.Minute))
		n.Landed(9, 9)
		n.expect("what the follower had in a former term", n.told(time.Minute))
		n.append(7, 10, 3)
		n.append(9, 9, 3)
		n.expect("in the new term", n.told(soon), 9)
	})
}

// TestR7OneNoticeAtATime: while a notice is out, later entries wait, and the next notice has only the newest.
func TestR7OneNoticeAtATime(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 8, 3)
		n.answers(true, 100*time.Millisecond)
		for index := uint64(4); index <= 8; index++ {
			n.Landed(7, index)
			time.Sleep(soon)
		}
		n.expect("while one is out", n.told(0), 4)
		n.expect("after its answer", n.told(time.Second), 8)
	})
}

// TestR7APauseAfterARefusal: after a notice that was refused, or not answered in time, there is none for a while.
func TestR7APauseAfterARefusal(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 20, 3)
		n.answers(false, 0)
		n.Landed(7, 4)
		n.expect("the refused one", n.told(soon), 4)
		n.answers(true, 0)
		n.Landed(7, 5)
		n.expect("soon after", n.told(noticePause-2*soon))
		n.Landed(7, 6)
		n.expect("just before the end of the pause", n.told(2*soon))
		n.Landed(7, 7)
		n.expect("after the pause", n.told(soon), 7)

		n.answers(true, time.Hour)
		begun := time.Now()
		n.Landed(7, 8)
		for n.Stats().Failed < 2 {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begun); took < noticeTimeout || took > noticeTimeout+soon {
			t.Errorf("a notice without an answer ended after %v, want %v", took, noticeTimeout)
		}
		n.Landed(7, 9)
		n.expect("after one that nobody answered", n.told(noticePause-soon), 8)
		if got := n.Stats(); got != (NoticeStats{Accepted: 1, Failed: 2}) {
			t.Errorf("counted %+v", got)
		}
		time.Sleep(2 * time.Hour) // the follower answers
	})
}

// A notice that hangs ends with its transport, and none begins after that.
func TestCloseEndsANotice(t *testing.T) {
	withNotices(t, func(n *noticed) {
		n.append(7, 20, 3)
		n.answers(true, noticeTimeout/2)
		n.Landed(7, 4)
		time.Sleep(soon)
		begun := time.Now()
		if err := n.pair.a.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("Close took %v", took)
		}
		n.Landed(7, 5)
		n.expect("after Close", n.told(time.Minute), 4)
	})
}
