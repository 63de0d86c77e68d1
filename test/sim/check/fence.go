package check

import (
	"slices"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// fenced checks I4: after a resume was answered nothing that is sent through an older attachment takes effect. A cut off
// owner that has not heard of the move may still take a touch; what shows an effect is a promise that reaches further than one from the
// time before could, or a close that is done. In a calm cluster it must not take the touch either.
func (c *checker) fenced(l *life) {
	for _, g := range l.grants {
		if g.Kind != history.Resumed {
			continue
		}
		for _, p := range l.promises {
			if p.Attachment == 0 || p.Attachment >= g.Attachment {
				continue
			}
			c.checked("I4")
			if limit := g.At + l.timeout; l.timeout != 0 && p.Until > limit {
				c.fail("I4", l, p.At, "attachment %d was answered at %.4fs, yet a touch through an older one took effect: %s",
					g.Attachment, g.At.Seconds(), p)
			}
		}
		c.olderTouches(l, g)
		c.olderCloses(l, g)
	}
}

func (c *checker) olderTouches(l *life, g history.Event) {
	for _, t := range l.touches {
		if t.Attachment < g.Attachment && t.Asked > g.At+c.bounds.Commit && c.calm(g.At, t.At) {
			c.fail("I4", l, t.At, "attachment %d was answered at %.4fs, yet a calm cluster took a touch through an older one: %s",
				g.Attachment, g.At.Seconds(), t)
		}
	}
}

func (c *checker) olderCloses(l *life, g history.Event) {
	for _, x := range l.closes {
		if x.Attachment != 0 && x.Attachment < g.Attachment && x.Asked > g.At {
			c.fail("I4", l, x.At, "attachment %d was answered at %.4fs, yet a close through an older one was done: %s",
				g.Attachment, g.At.Seconds(), x)
		}
	}
}

// told checks what clients hear of an end or a move: never of an end that no node has applied (E5), and of a move only when
// somebody resumed the session; and in the end whoever holds an older attachment has heard.
func (c *checker) told(l *life) {
	for _, g := range l.gone {
		c.checked("E5")
		if l.end == nil || g.At < l.end.At {
			c.fail("E5", l, g.At, "%s was told of an end that no node had applied", g.Who)
		}
	}
	for _, m := range l.moved {
		c.checked("told moved")
		if !slices.ContainsFunc(l.moves, func(a history.Event) bool { return a.Attachment > m.Attachment && a.At <= m.At }) {
			c.fail("I4", l, m.At, "%s was told of a move that no node had applied", m.Who)
		}
	}
	newest := newestGrant(l)
	for _, a := range l.alive {
		if a.Attachment < newest.Attachment && a.At > max(newest.At, c.healed)+c.bounds.Settle {
			c.fail("I4", l, a.At, "%s serves itself from attachment %d, and was never told of %d, answered at %.4fs",
				a.Who, a.Attachment, newest.Attachment, newest.At.Seconds())
		}
	}
}

func newestGrant(l *life) history.Event {
	var newest history.Event
	for _, g := range l.grants {
		if g.Attachment > newest.Attachment {
			newest = g
		}
	}
	return newest
}

// replicas checks I6 and I7: at one index all nodes have one digest and applied the same changes; an id is opened once and
// ends once.
func (c *checker) replicas(events []history.Event) {
	digests := make(map[uint64]history.Event)
	opened, ended := make(map[session.ID]history.Event), make(map[session.ID]history.Event)
	moved := make(map[uint64]history.Event)
	for _, e := range events {
		switch e.Kind { //nolint:exhaustive // the others are no replica's
		case history.Digest:
			c.same("I6", digests, e.Index, e)
		case history.AppliedOpen:
			c.once("I7", opened, e.ID, e)
		case history.AppliedEnd:
			c.once("I6", ended, e.ID, e)
		case history.AppliedMove:
			c.attached(moved, e)
		}
	}
}

// same fails when e's digest is not that of the first event at its index.
func (c *checker) same(invariant string, first map[uint64]history.Event, index uint64, e history.Event) {
	f, ok := first[index]
	if !ok {
		first[index] = e
		return
	}
	if f.Who != e.Who {
		c.checked(invariant)
	}
	if f.Text != e.Text {
		c.fail(invariant, &life{}, e.At, "at index %d %s has digest %s, %s has %s", index, f.Who, f.Text, e.Who, e.Text)
	}
}

// once fails when what is done once in an id's life was done by two entries.
func (c *checker) once(invariant string, first map[session.ID]history.Event, id session.ID, e history.Event) {
	f, ok := first[id]
	if !ok {
		first[id] = e
		return
	}
	if f.Who != e.Who {
		c.checked(invariant)
	}
	if f.Index != e.Index || f.Term != e.Term || f.Attachment != e.Attachment || f.Cause != e.Cause {
		c.fail(invariant, &life{id: id}, e.At, "%s by two entries: %s; and %s", e.Kind, f, e)
	}
}

// attached fails when one attachment was given to two sessions or by two entries.
func (c *checker) attached(first map[uint64]history.Event, e history.Event) {
	f, ok := first[e.Attachment]
	if !ok {
		first[e.Attachment] = e
		return
	}
	if f.ID != e.ID || f.Index != e.Index {
		c.fail("I6", &life{id: e.ID}, e.At, "one attachment given twice: %s; and %s", f, e)
	}
}
