package check

import (
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// members checks changes of a cluster's members (J), by Raft's configurations as leaders found them, and by the lists
// that an operator got. Rounds and elections are checked with the voters that leaders found (R3 good rounds).
type members struct{ judge }

// parting is how long a removed node may still act on earlier requests. After that it answers touches with earlier
// promises (S4 jeopardy).
const parting = 3 * time.Second

// check checks:
//
//   - J1, J5: a member that the leader's list has shown stays on each list that is requested later, until an operator
//     asks to remove it.
//   - J3: one whose removal a list has shown is on no list that is requested later, and no leader finds it later,
//     unless of a former term. It serves no client: it grants nothing and promises nothing.
//   - J2: no node votes that an operator demoted, once a list has shown it as an observer.
func (c members) check() {
	for _, e := range c.membership {
		switch {
		case e.Kind == history.Listed:
			c.listed(e)
		case e.Kind == history.Changed && e.Text == removed:
			c.gone(e)
		}
	}
	for _, r := range c.rosters {
		c.checked("R3 voters")
		c.votes(r)
	}
}

const added, removed, voter, observer = "added", "removed", "voter", "observer"

// votes checks that operators want all voters of a configuration, or of a list, to be voters. A leader of a former term
// may not know of the newest change.
func (c members) votes(e history.Event) {
	sent := e.At
	if e.Kind == history.Listed {
		sent = e.Sent
	}
	for _, n := range votersOf(e) {
		may, since := c.may(n, sent, e.At)
		if e.Kind == history.Configured && e.Term < c.newestTerm(since) {
			continue
		}
		c.checked("J2 voter")
		if !may {
			c.fail("J2", 0, e.At, "node %d has a vote, and is to be an observer since %.4fs: %s", n, since.Seconds(),
				history.Line(e))
		}
	}
}

// may reports whether an operator wants a node to vote, by the list that he got and his requests before the answer, and
// since when he does not.
func (c members) may(n session.Node, sent, answered time.Duration) (may bool, since time.Duration) {
	may = true
	for _, w := range c.membership {
		if w.Node != n || w.Kind == history.Listed {
			continue
		}
		switch {
		case w.Kind == history.Wanted && w.Text == added, w.Kind == history.Changed && w.Text == observer && w.At < sent:
			may, since = false, w.At
		case w.Kind == history.Wanted && w.Text == voter && w.At <= answered:
			may = true
		}
	}
	return may, since
}

// newestTerm returns the newest term of which a leader is known by a moment.
func (c members) newestTerm(by time.Duration) (newest uint64) {
	for _, r := range c.rosters {
		if r.At <= by {
			newest = max(newest, r.Term)
		}
	}
	return newest
}

// listed judges a list.
func (c members) listed(list history.Event) {
	c.votes(list)
	has := func(n session.Node) bool {
		return slices.ContainsFunc(list.Members, func(m session.Member) bool { return m.Node == n })
	}
	for _, e := range c.membership {
		if e.Kind != history.Changed || e.At >= list.Sent {
			continue
		}
		c.checked("J5")
		switch {
		case e.Text == removed && has(e.Node):
			c.fail("J5", 0, list.At, "a list shows node %d, whose removal was shown at %.4fs, before it was requested: %s",
				e.Node, e.At.Seconds(), history.Line(list))
		case e.Text == added && !has(e.Node) && c.wanted(e.Node) > list.At:
			c.fail("J1", 0, list.At, "a list lacks node %d, which was added by %.4fs, and no operator has requested its "+
				"removal: %s", e.Node, e.At.Seconds(), history.Line(list))
		case e.Text == added:
			c.checked("J1 member")
		}
	}
}

// wanted returns when an operator first asked to remove a node, forever if none did.
func (c members) wanted(n session.Node) time.Duration {
	for _, e := range c.membership {
		if e.Kind == history.Wanted && e.Text == removed && e.Node == n {
			return e.At
		}
	}
	return forever
}

// leaves reports whether an operator had asked to remove a node by a moment.
func (c members) leaves(n session.Node, moment time.Duration) bool { return c.wanted(n) <= moment }

// gone checks what follows a removal.
func (c members) gone(e history.Event) {
	newest := c.newestTerm(e.At)
	for _, r := range c.rosters {
		if r.At <= e.At {
			continue
		}
		c.checked("J3 gone")
		if r.Term >= newest && slices.ContainsFunc(r.Members, func(m session.Member) bool { return m.Node == e.Node }) {
			c.fail("J3", 0, r.At, "a leader finds node %d among the members, whose removal was shown at %.4fs: %s", e.Node,
				e.At.Seconds(), history.Line(r))
		}
	}
	c.serves(e)
}

// servedAfter returns the answers for a session that a removed node should not have given. It may answer a touch with a
// promise of a round before the removal, even if no client has seen that promise before.
func servedAfter(l *life, removed history.Event) (wrong []history.Event) {
	here := slices.DeleteFunc(slices.Concat(l.grants, l.touches), func(g history.Event) bool {
		return g.Node != removed.Node
	})
	promised := removed.At + l.timeout
	for _, g := range here {
		if g.Sent <= removed.At+parting {
			promised = max(promised, g.Until)
		}
	}
	for _, g := range here {
		if g.Sent > removed.At+parting && (g.Kind != history.Touched || g.Until > max(g.At, promised)) {
			wrong = append(wrong, g)
		}
	}
	return wrong
}

// serves checks the answers of a removed node.
func (c members) serves(e history.Event) {
	for _, l := range c.sorted() {
		for _, g := range servedAfter(l, e) {
			c.fail("J3", l.id, g.At, "node %d was removed at %.4fs, and serves: %s", e.Node, e.At.Seconds(),
				history.Line(g))
		}
	}
	for _, w := range slices.Concat(c.writes, c.states) {
		if w.Node == e.Node && w.Sent > e.At+parting {
			c.checked("J3 serves")
		}
	}
}
