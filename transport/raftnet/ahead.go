package raftnet

import (
	"runtime"
	"slices"

	"github.com/hashicorp/raft"
)

// ahead is a request for entries that this node sends to a follower before it has written the entries itself (R8
// entries sent ahead). It is the same request that Raft makes after the write, and its outcome becomes the outcome of
// Raft's request.
type ahead struct {
	at      raft.ServerAddress
	request raft.AppendEntriesRequest
	// done is closed when the request has ended, with answer or err.
	done   chan struct{}
	answer raft.AppendEntriesResponse
	err    error
}

// load has entries to send ahead, and the commit index that Raft knew at that time.
type load struct {
	entries []*raft.Log
	commit  uint64
}

// Ahead sends entries that this node is about to write as the leader of their term. A follower gets them if it has
// acknowledged the entry before the first of them, and this entry is of the same term (R8), or if it is about to get
// that entry ahead. Entries that are not commands wait for Raft. Ahead does not wait for a follower.
//
// The caller writes the entries next. It must be the goroutine on which Raft writes, so that the entries follow the
// last one of the log, and commit is the index that Raft knows to be committed.
func (n *Notices) Ahead(entries []*raft.Log, commit uint64) {
	if !commands(entries) || len(first(entries)) < len(entries) || !n.leads(entries[0].Term) {
		return
	}
	if n.launch(entries, commit) {
		// The sending goroutines are runnable on this processor, and the caller is about to write on it. Without
		// Gosched they would wait until another processor has woken up, which takes a tenth of the time of an open.
		runtime.Gosched()
	}
}

// launch starts the requests that can go ahead, and reports whether there are any.
func (n *Notices) launch(entries []*raft.Log, commit uint64) (started bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.term != entries[0].Term {
		return false
	}
	next := &load{commit: commit}
	for _, f := range n.followers {
		if !f.accepts(entries[0]) {
			continue
		}
		if next.entries == nil {
			next.entries = copied(entries)
		}
		if f.sending != nil {
			f.waits = next
			continue
		}
		a := f.goAhead(next)
		n.running.Go(func() { n.carry(f, a) })
		started = true
	}
	return started
}

// accepts reports whether the follower has the entry just before e, or is about to get it ahead. Called with Notices.mu
// held.
func (f *follower) accepts(e *raft.Log) bool {
	if f.sending != nil {
		return f.term == e.Term && f.sending.last()+1 == e.Index
	}
	return f.follows(e)
}

// commands reports whether all entries are commands. Other entries change Raft's own state, and are rare.
func commands(entries []*raft.Log) bool {
	return !slices.ContainsFunc(entries, func(e *raft.Log) bool { return e.Type != raft.LogCommand })
}

// copied returns copies of entries. On a leader each entry is a part of a future, which a reference would keep in
// memory.
func copied(entries []*raft.Log) []*raft.Log {
	all := make([]raft.Log, len(entries))
	copies := make([]*raft.Log, len(entries))
	for i, e := range entries {
		all[i] = *e
		copies[i] = &all[i]
	}
	return copies
}

// follows reports whether the follower is known to have the entry just before e, in the term of e. Called with
// Notices.mu held.
func (f *follower) follows(e *raft.Log) bool {
	return f.term == e.Term && f.hasTerm == e.Term && f.has+1 == e.Index
}

// goAhead returns the request with entries after the follower's newest one. Called with Notices.mu held.
func (f *follower) goAhead(b *load) *ahead {
	a := &ahead{at: f.at, request: f.as, done: make(chan struct{})}
	a.request.PrevLogEntry, a.request.PrevLogTerm = f.has, f.hasTerm
	a.request.Entries = b.entries
	a.request.LeaderCommitIndex = min(b.commit, f.has)
	f.ahead, f.sending, f.waits = a, a, nil
	return a
}

// carry sends a request ahead, and then the entries that wait for its end.
func (n *Notices) carry(f *follower, a *ahead) {
	for a != nil {
		a.err = n.transport.NetworkTransport.AppendEntries(f.id, a.at, &a.request, &a.answer)
		next := n.carried(f, a)
		close(a.done)
		a = next
	}
}

// carried records the outcome of a request, and returns the next one; nil for none.
func (n *Notices) carried(f *follower, a *ahead) *ahead {
	leads := n.leads(f.term)
	n.mu.Lock()
	defer n.mu.Unlock()
	waits := f.waits
	f.sending, f.waits = nil, nil
	if a.err != nil || !a.answer.Success {
		return nil
	}
	n.stats.Pipelined++
	f.acknowledged(&a.request)
	n.start(f)
	if waits == nil || !leads || n.closed || f.term != n.term || !f.follows(waits.entries[0]) {
		return nil
	}
	return f.goAhead(waits)
}

// sent returns the request that went ahead of Raft's request for the same entries; nil for none. A request for other
// entries shows that Raft has changed course, so sent forgets the request that went ahead.
func (n *Notices) sent(id raft.ServerID, at raft.ServerAddress, r *raft.AppendEntriesRequest) *ahead {
	if len(r.Entries) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.followers[id]
	if f == nil {
		return nil
	}
	a := f.ahead
	f.ahead = nil
	if a == nil || !a.is(at, r) {
		return nil
	}
	return a
}

func (a *ahead) last() uint64 { return a.request.PrevLogEntry + uint64(len(a.request.Entries)) }

// is reports whether r is the same request to the same follower. Index and term identify an entry.
func (a *ahead) is(at raft.ServerAddress, r *raft.AppendEntriesRequest) bool {
	n := len(r.Entries)
	return a.at == at && a.request.Term == r.Term && a.request.PrevLogEntry == r.PrevLogEntry &&
		a.request.PrevLogTerm == r.PrevLogTerm && len(a.request.Entries) == n &&
		a.request.Entries[n-1].Term == r.Entries[n-1].Term
}

// appendEntries sends a request of Raft, unless the same request has gone ahead: then the outcome of that one is the
// answer.
func (n *Notices) appendEntries(id raft.ServerID, at raft.ServerAddress, r *raft.AppendEntriesRequest,
	answer *raft.AppendEntriesResponse,
) error {
	if a := n.sent(id, at, r); a != nil {
		<-a.done
		*answer = a.answer
		return a.err
	}
	err := n.transport.NetworkTransport.AppendEntries(id, at, r, answer)
	if err == nil && answer.Success {
		n.acknowledged(id, at, r)
	}
	return err
}
