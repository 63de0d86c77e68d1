package model

import "math/bits"

// Raft, as fine as the rules need it: every node has a log, a vote and a term of its own. An entry that a deposed
// leader appended can be overwritten or commit later (R5), a deposed leader does not know that it is (R3), a node
// restarts with its disk only. Append and its answer are one action; what is lost is not sent. There are no snapshots:
// a node replays its log.

// campaign is a node that stands for the next term. It may at any time: timeouts of elections are not modelled, nor is
// a lease.
func (x *step) campaign(i, _, _ int) bool {
	n := &x.Node[i]
	if i >= int(x.scope.Voters) || !x.runs(i) || n.Role == leader || !x.spend(elections, x.scope.Elections) {
		return false
	}
	n.Term, n.Voted, n.Votes, n.Role = n.Term+1, uint8(i)+1, 1<<i, candidate
	x.say("term %d", n.Term)
	return true
}

// vote is a grant: to one candidate in a term, whose log is not behind (Raft, section 5.4.1).
func (x *step) vote(i, forWhom, _ int) bool {
	n, c := &x.Node[i], &x.Node[forWhom]
	if i == forWhom || i >= int(x.scope.Voters) || !x.runs(i) || c.Role != candidate {
		return false
	}
	if c.Term < n.Term || c.Term == n.Term && n.Voted != 0 || behind(c, n) {
		return false
	}
	n.Term, n.Voted, n.Votes, n.Role = c.Term, uint8(forWhom)+1, 0, follower
	c.Votes |= 1 << i
	x.say("term %d", n.Term)
	return true
}

// behind says that a's log is behind b's.
func behind(a, b *node) bool {
	at, bt := a.Log[a.Len-1].Term, b.Log[b.Len-1].Term
	return at < bt || at == bt && a.Len < b.Len
}

// win is a candidate that has counted a quorum of votes. It appends an entry of its own: Raft's, and that of R5.
func (x *step) win(i, _, _ int) bool {
	n := &x.Node[i]
	if n.Role != candidate || !x.runs(i) || bits.OnesCount8(n.Votes) < x.scope.quorum() || n.Len == maxLog {
		return false
	}
	n.Role, n.Votes = leader, 0
	x.append(i, entry{Kind: begins})
	for m := range x.scope.nodes() {
		x.Link[i][m].Match = 0
	}
	for other := range x.scope.nodes() {
		if o := &x.Node[other]; other != i && o.Role == leader && o.Term == n.Term {
			x.breaks(Raft, "two leaders in term %d", n.Term)
		}
	}
	x.say("it leads term %d", n.Term)
	return true
}

// append adds an entry to a leader's log, in its present term whatever the term the entry is about.
func (x *step) append(l int, e entry) {
	n := &x.Node[l]
	e.Term = n.Term
	n.Log[n.Len] = e
	n.Len++
	x.commit(l, x.matched(l))
}

// replicate brings a member's log up to its leader's, and its commit index with it; or tells the leader of a newer
// term.
func (x *step) replicate(l, m, _ int) bool {
	n, f := &x.Node[l], &x.Node[m]
	if l == m || n.Role != leader || !x.runs(l) || !x.runs(m) {
		return false
	}
	if f.Term > n.Term {
		n.Term, n.Voted, n.Role = f.Term, 0, follower
		x.say("%s", "it learns of a newer term and steps down")
		return true
	}
	k := &x.Link[l][m]
	if f.Term == n.Term && k.Match == n.Len && f.Commit == n.Commit {
		return false
	}
	if f.Term < n.Term {
		f.Voted = 0
	}
	f.Term, f.Role, f.Votes = n.Term, follower, 0
	if f.Commit > n.Len {
		x.breaks(Raft, "a committed entry is overwritten")
	}
	f.Log, f.Len, k.Match = n.Log, n.Len, n.Len
	f.Commit = max(f.Commit, n.Commit)
	if !x.scope.SlowApply {
		x.applyAll(m)
	}
	x.commit(l, x.matched(l))
	x.say("%d entries, %d committed", f.Len, f.Commit)
	return true
}

// matched returns how much of the leader's log a quorum of the voters has.
func (x *step) matched(l int) uint8 {
	for n := x.Node[l].Len; n > 0; n-- {
		count := 0
		for v := range int(x.scope.Voters) {
			if v == l || x.Link[l][v].Match >= n {
				count++
			}
		}
		if count >= x.scope.quorum() {
			return n
		}
	}
	return 0
}

// commit moves the leader's commit index; only an entry of its own term takes those before it along (Raft, section
// 5.4.2).
func (x *step) commit(l int, index uint8) {
	n := &x.Node[l]
	if index <= n.Commit && x.Truth.Len > 0 || n.Log[index-1].Term != n.Term {
		return
	}
	n.Commit = index
	for i := x.Truth.Len; i < index; i++ {
		x.Truth.Log[i], x.Truth.Len = n.Log[i], i+1
		x.committed(n.Log[i])
	}
	if committedPart(&x.Truth.Log, index) != committedPart(&n.Log, index) {
		x.breaks(Raft, "two logs differ in what is committed")
	}
	if !x.scope.SlowApply {
		x.applyAll(l)
	}
}

func committedPart(log *[maxLog]entry, n uint8) (part [maxLog]entry) {
	copy(part[:n], log[:n])
	return part
}

// apply gives a node's FSM its next committed entry.
func (x *step) apply(i, _, _ int) bool {
	n := &x.Node[i]
	if !x.scope.SlowApply || !x.runs(i) || n.Applied == n.Commit {
		return false
	}
	x.applyNext(i)
	return true
}

func (x *step) applyAll(i int) {
	for n := &x.Node[i]; n.Applied < n.Commit; {
		x.applyNext(i)
	}
}

// applyNext is the FSM, and what the tracker of the node does with what it applied.
func (x *step) applyNext(i int) {
	n := &x.Node[i]
	e := n.Log[n.Applied]
	n.Applied++
	taken := x.apply1(&n.FSM, e)
	if verb := "applies"; x.telling {
		if !taken {
			verb = "refuses"
		}
		x.say("n%d %s entry %d, %s", i+1, verb, n.Applied, describe(e))
	}
	if e.Kind == upgrades && taken {
		x.handOver(i, e)
	}
	if t := &n.Tracker; t.On == 1 {
		x.tracks(t, e, taken)
	}
}
