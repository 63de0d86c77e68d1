package check

import (
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// elections judges when leaders change (F1 to F4): a living leader is kept, and a dead one is replaced at once.
type elections struct{ judge }

const (
	// unrest is how long after their end other faults may still cost a leader.
	unrest = 6 * time.Second
	// aftermath is how long after its end a fault of connections may still cost a leader: an election that started
	// during it would be over.
	aftermath = 1500 * time.Millisecond
	// quick bounds the time from the end of a leader's process to the next leader. Survivors with slow links may wait
	// until a bond has ended (F3 one backing at a time).
	quick = time.Second
	// handsOver is after how long without a good round a leader hands over: the stall limit of the simulation's nodes.
	handsOver = 3 * time.Second
)

// check checks each fault that only ended processes and connections, or refused new ones, without other faults around
// it. Then it is known which voters may find the leader gone.
func (c elections) check() {
	for _, s := range c.disturbed {
		if !s.clean || s.open {
			continue
		}
		before, ok := c.leads(s.from)
		if !ok || before.At > s.from-unrest || s.from < c.calmAfter {
			continue
		}
		if at := slices.IndexFunc(c.stopped[before.Who], s.has); at >= 0 {
			c.replaced(before, c.stopped[before.Who][at])
			continue
		}
		c.kept(before, s)
	}
}

// replaced checks that another leads soon after the leader's process has ended, in the next term, if a quorum of the
// others was well (F4 immediate election). Two terms would mean that two voters campaigned, and the second deposed the
// first (F3).
func (c elections) replaced(before history.Event, died time.Duration) {
	till := died + quick
	of, same := c.electorate(died-unrest, till)
	if !same || !c.clear(died-unrest, till) || c.well(of, before.Who, died-unrest, till) < c.quorumOf(of) {
		return
	}
	c.checked("F4")
	var next []history.Event
	for _, e := range c.elections {
		if e.At > died && e.At <= till {
			next = append(next, e)
		}
	}
	if len(next) == 0 {
		c.fail("F4", 0, died, "%s led term %d and ended, and no node leads %v later", before.Who, before.Term, quick)
		return
	}
	c.oneTerm(before, died, next)
}

// oneTerm checks that the next leader leads the next term, and is not deposed (F3). The end of a process that may have
// led meanwhile explains one more term.
func (c elections) oneTerm(before history.Event, died time.Duration, next []history.Event) {
	for _, e := range next {
		most := before.Term + 1
		for _, name := range c.names {
			for _, at := range c.stopped[name] {
				if at > died && at <= e.At {
					most++
				}
			}
		}
		if e.Term > most {
			c.fail("F3", 0, died, "%s led term %d and ended, and it took several terms: %s", before.Who, before.Term,
				history.Line(e))
			return
		}
	}
}

// kept checks that a leader leads on that lives, and can make new connections to as many nodes as a quorum needs: with
// all connections reset (F1 the leader is found gone), a minority refused (F2 a majority confirms), or a minority
// ended.
func (c elections) kept(leader history.Event, s span) {
	till := s.till + aftermath
	of, same := c.electorate(s.from-unrest, till)
	if !same || till > c.finished || !c.clear(s.from-unrest, till) ||
		c.endedWithin(leader.Who, s.from-unrest, till) ||
		c.well(of, leader.Who, s.from-unrest, till)+1 < c.quorumOf(of) {
		return
	}
	rule := "F1"
	switch {
	case c.refusing(leader.Who, s.from, s.till):
		rule = "F2"
	case c.resetting(leader.Who, s.from, s.till):
	case c.well(of, leader.Who, s.from, s.till)+1 < c.size(of):
		rule = "F4 follower"
	default:
		return
	}
	c.checked(rule)
	for _, e := range c.elections {
		if e.At >= s.from && e.At <= till && !c.unanswered(leader, e.At) {
			c.fail(rule[:2], 0, e.At, "%s led term %d, lived, and reached a majority, and was deposed: %s", leader.Who,
				leader.Term, history.Line(e))
		}
	}
}

// unanswered reports whether a leader had no good round for so long before a moment that it transfers leadership: its
// connections were reset so often that no round ended.
func (c elections) unanswered(leader history.Event, moment time.Duration) bool {
	t := c.terms[leader.Term]
	if t == nil {
		return false
	}
	n, _ := slices.BinarySearch(t.turns, moment)
	return n > 0 && moment-t.turns[n-1] >= handsOver
}

// leads returns the newest leader before a moment.
func (c elections) leads(moment time.Duration) (newest history.Event, ok bool) {
	for _, e := range c.elections {
		if e.At < moment {
			newest, ok = e, true
		}
	}
	return newest, ok
}

// clear reports whether all faults between two moments only ended processes and connections, or refused new ones.
func (c elections) clear(from, till time.Duration) bool {
	return !slices.ContainsFunc(c.disturbed, func(s span) bool { return !s.clean && s.overlaps(from, till) })
}

// size returns the number of voters, or of all nodes if the voters are unknown. quorumOf is the size of a quorum of
// voters.
func (c elections) size(of []session.Node) int {
	if of == nil {
		return len(c.names)
	}
	return len(of)
}

func (c elections) quorumOf(of []session.Node) int {
	if of == nil {
		return c.quorum
	}
	return len(of)/2 + 1
}

// well returns how many of the voters, without the leader, ran all the time between two moments while no dial between
// them and the leader was refused.
func (c elections) well(of []session.Node, leader string, from, till time.Duration) (n int) {
	for node, name := range c.names {
		votes := of == nil || slices.Contains(of, node)
		if name != leader && votes && c.runs(name, from) && !c.refused(name, leader, from, till) &&
			!c.endedWithin(name, from, till) && !c.startedWithin(name, from, till) && !c.stalledWithin(name, from, till) {
			n++
		}
	}
	return n
}

// runs reports whether a process of a node was running at a moment.
func (n *nodes) runs(who string, moment time.Duration) bool {
	newest := func(of []time.Duration) time.Duration {
		last := -time.Nanosecond
		for _, at := range of {
			if at <= moment {
				last = max(last, at)
			}
		}
		return last
	}
	return newest(n.started[who]) > newest(n.stopped[who])
}

// endedWithin reports whether a process of a node ended between two moments.
func (n *nodes) endedWithin(who string, from, till time.Duration) bool {
	return slices.ContainsFunc(n.stopped[who], func(s time.Duration) bool { return s >= from && s <= till })
}

// stalledWithin reports whether a process of a node was stalled at some time between two moments.
func (n *nodes) stalledWithin(who string, from, till time.Duration) bool {
	return slices.ContainsFunc(n.stalls[who], func(s span) bool { return s.overlaps(from, till) })
}

// refused reports whether dials between two hosts were refused at some time between two moments.
func (n *nodes) refused(one, other string, from, till time.Duration) bool {
	overlaps := func(s span) bool { return s.overlaps(from, till) }
	return slices.ContainsFunc(n.refusals[pair{one, other}], overlaps) ||
		slices.ContainsFunc(n.refusals[pair{other, one}], overlaps)
}

// refusing reports whether dials between a node and any other were refused, resetting whether connections between
// them were reset.
func (n *nodes) refusing(who string, from, till time.Duration) bool {
	for _, name := range n.names {
		if n.refused(name, who, from, till) {
			return true
		}
	}
	return false
}

func (n *nodes) resetting(who string, from, till time.Duration) bool {
	for _, name := range n.names {
		if slices.ContainsFunc(n.resets[pair{name, who}], func(at time.Duration) bool { return at >= from && at <= till }) {
			return true
		}
	}
	return false
}

// refuse and admit record that dials from a host to another are refused, and no longer refused.
func (n *nodes) refuse(e history.Event) {
	p := pair{e.Who, e.Text}
	n.refusals[p] = append(n.refusals[p], span{from: e.At, open: true})
}

func (n *nodes) admit(e history.Event) {
	for i := range n.refusals[pair{e.Who, e.Text}] {
		if s := &n.refusals[pair{e.Who, e.Text}][i]; s.open {
			s.open, s.till = false, e.At
			return
		}
	}
}
