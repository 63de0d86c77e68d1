package model

import "math/bits"

// Raft, as detailed as the rules need it: every node has its own log, vote and term. A deposed leader's entry can be
// overwritten or commit later (R5 start of a tracker). A deposed leader does not know that it is deposed (R3 good
// rounds). A node restarts with its disk only. Append and its answer are one action; a lost message is never sent.
// There are no snapshots: a node replays its log.

// raft is a node's part in Raft. Term, Voted, Len and Log are on disk.
type raft struct {
	Term                 uint8
	Voted                uint8 // 1 + the node voted for in Term
	Votes                uint8 // the set of nodes that voted for this node
	Role                 uint8
	Len, Commit, Applied uint8
	Log                  [maxLog]entry
}

// A node's role in Raft.
const (
	follower uint8 = iota
	candidate
	leader
)

// behind reports whether the log of r is behind another log.
func (r *raft) behind(other *raft) bool {
	at, bt := r.Log[r.Len-1].Term, other.Log[other.Len-1].Term
	return at < bt || at == bt && r.Len < other.Len
}

// replicating is a node as a member of Raft.
type replicating struct{ at }

func (x *step) replicating(i int) replicating { return replicating{x.at(i)} }

func (r replicating) votes() bool { return r.id < int(r.scope.Voters) }

// campaign is a candidacy for the next term. It may come at any time: neither election timeouts nor leases are
// modelled.
func (r replicating) campaign() bool {
	if !r.votes() || !r.runs() || r.Raft.Role == leader || !r.spend(Elections) {
		return false
	}
	n := &r.Raft
	n.Term, n.Voted, n.Votes, n.Role = n.Term+1, uint8(r.id)+1, 1<<r.id, candidate
	r.Say("term %d", n.Term)
	return true
}

// vote grants the node's vote to a candidate: one in a term, whose log is not behind (Raft, section 5.4.1).
func (r replicating) vote(forWhom int) bool {
	n, c := &r.Raft, &r.Node[forWhom].Raft
	if r.id == forWhom || !r.votes() || !r.runs() || c.Role != candidate {
		return false
	}
	if c.Term < n.Term || c.Term == n.Term && n.Voted != 0 || c.behind(n) {
		return false
	}
	n.Term, n.Voted, n.Votes, n.Role = c.Term, uint8(forWhom)+1, 0, follower
	c.Votes |= 1 << r.id
	r.Say("term %d", n.Term)
	return true
}

// win makes a candidate with a quorum of votes the leader. It appends its first entry: Raft's, and the one of R5.
func (r replicating) win() bool {
	n := &r.Raft
	if n.Role != candidate || !r.runs() || bits.OnesCount8(n.Votes) < r.scope.quorum() || n.Len == maxLog {
		return false
	}
	n.Role, n.Votes = leader, 0
	r.append(entry{Kind: begins})
	for m := range r.scope.nodes() {
		r.Link[r.id][m].Match = 0
	}
	for other := range r.scope.nodes() {
		if o := &r.Node[other].Raft; other != r.id && o.Role == leader && o.Term == n.Term {
			r.Breaks(Raft, "two leaders in term %d", n.Term)
		}
	}
	r.Say("it leads term %d", n.Term)
	return true
}

// append adds an entry to a leader's log, in its present term, whatever term decided on the entry.
func (r replicating) append(e entry) {
	n := &r.Raft
	e.Term = n.Term
	n.Log[n.Len] = e
	n.Len++
	r.commit(r.matched())
}

// replicate brings a member's log and commit index up to its leader's. The leader learns of a newer term of the member
// instead.
func (r replicating) replicate(m int) bool {
	to := r.replicating(m)
	n, f := &r.Raft, &to.Raft
	if r.id == m || n.Role != leader || !r.runs() || !to.runs() {
		return false
	}
	if f.Term > n.Term {
		n.Term, n.Voted, n.Role = f.Term, 0, follower
		r.Say("%s", "it learns of a newer term and steps down")
		return true
	}
	k := &r.Link[r.id][m]
	if f.Term == n.Term && k.Match == n.Len && f.Commit == n.Commit {
		return false
	}
	if f.Term < n.Term {
		f.Voted = 0
	}
	f.Term, f.Role, f.Votes = n.Term, follower, 0
	if f.Commit > n.Len {
		r.Breaks(Raft, "a committed entry is overwritten")
	}
	f.Log, f.Len, k.Match = n.Log, n.Len, n.Len
	f.Commit = max(f.Commit, n.Commit)
	if !r.scope.SlowApply {
		to.applyAll()
	}
	r.commit(r.matched())
	r.Say("%d entries, %d committed", f.Len, f.Commit)
	return true
}

// matched returns how much of the leader's log a quorum of the voters has.
func (r replicating) matched() uint8 {
	for n := r.Raft.Len; n > 0; n-- {
		count := 0
		for v := range int(r.scope.Voters) {
			if v == r.id || r.Link[r.id][v].Match >= n {
				count++
			}
		}
		if count >= r.scope.quorum() {
			return n
		}
	}
	return 0
}

// commit moves the leader's commit index. Entries of former terms commit only with an entry of the leader's own term
// (Raft, section 5.4.2).
func (r replicating) commit(index uint8) {
	n, t := &r.Raft, &r.Truth
	if index <= n.Commit && t.Len > 0 || n.Log[index-1].Term != n.Term {
		return
	}
	n.Commit = index
	for i := t.Len; i < index; i++ {
		t.Log[i], t.Len = n.Log[i], i+1
		r.oracle().committed(n.Log[i])
	}
	if committedPart(&t.Log, index) != committedPart(&n.Log, index) {
		r.Breaks(Raft, "two logs differ in what is committed")
	}
	if !r.scope.SlowApply {
		r.applyAll()
	}
}

func committedPart(log *[maxLog]entry, n uint8) (part [maxLog]entry) {
	copy(part[:n], log[:n])
	return part
}

// apply applies a node's next committed entry to its FSM.
func (r replicating) apply() bool {
	if !r.scope.SlowApply || !r.runs() || r.Raft.Applied == r.Raft.Commit {
		return false
	}
	r.applyNext()
	return true
}

func (r replicating) applyAll() {
	for r.Raft.Applied < r.Raft.Commit {
		r.applyNext()
	}
}

// applyNext applies an entry to the FSM, and informs the node's learner and its tracker.
func (r replicating) applyNext() {
	e := r.Raft.Log[r.Raft.Applied]
	r.Raft.Applied++
	effective := r.FSM.apply(&r.protocol, e)
	if verb := "applies"; r.Tracing() {
		if !effective {
			verb = "refuses"
		}
		r.Say("n%d %s entry %d, %v", r.id+1, verb, r.Raft.Applied, e)
	}
	if e.Kind == upgrades && effective {
		r.serving(r.id).handOver(e)
	}
	if r.Tracker.On == 1 {
		r.tracking(r.id).applied(e, effective)
	}
}
