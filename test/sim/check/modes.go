package check

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// jeopardyIntervals is the number of intervals after a good round for which a node is read-write (N1 node mode).
const jeopardyIntervals = 3

// modes judges N1, N2 and N5.
type modes struct{ judge }

// check checks the modes in which nodes say they are, for each process of a node alone. When a request sent at k is
// answered with a mode at k', the process had this mode at some moment between k and k'.
//
//   - N1: a node is READ_ONLY only if its setting read_only is on. No process is READ_ONLY before it has run for
//     ReadOnlyAfter, and none is in a calm cluster. A process that was READ_WRITE at or after k had heard of a good
//     round at most 3 intervals before k. It is not READ_ONLY until that round is ReadOnlyAfter old ("N1 again").
//   - N2: for the same reason, a process that was READ_ONLY twice within ReadOnlyAfter was so all the time between. It
//     must grant nothing that was requested and answered in that time.
func (c modes) check() {
	slices.SortStableFunc(c.states, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	of := make(map[process][]history.Event)
	for _, e := range c.states {
		c.calmMode(e)
		if p, ok := c.process(e); ok {
			of[p] = append(of[p], e)
		}
	}
	reading := make(map[process][]span)
	for p, reported := range of {
		c.begins(p, reported)
		reading[p] = c.reading(reported)
	}
	for _, l := range c.sorted() {
		c.readOnlyGrants(l, reading)
	}
	for _, e := range c.writes {
		if p, ok := c.process(e); ok && within(reading[p], e) {
			c.checked("N2")
		}
	}
}

// calmMode checks what one answer alone can violate.
func (c modes) calmMode(e history.Event) {
	calm := c.calm(e.Sent, e.At)
	if calm {
		c.checked("N1 calm")
	}
	if e.State.Mode != session.ModeReadOnly {
		return
	}
	switch who := c.names[e.State.Node]; {
	case !c.mayRead[who]:
		c.misled(e, "N1", "%s is read-only, and its setting is off", who)
	case calm && !members(c).leaves(e.State.Node, e.At):
		c.misled(e, "N1", "%s is read-only in a calm cluster", who)
	}
}

// begins checks when a process becomes read-only.
func (c modes) begins(p process, reported []history.Event) {
	for i, e := range reported {
		if e.State.Mode != session.ModeReadOnly {
			continue
		}
		c.checked("N1")
		if lived := e.At - p.began; lived < c.bounds.ReadOnlyAfter {
			c.misled(e, "N1", "%s is read-only %v after its start", p.who, lived)
		}
		good := time.Duration(-1)
		for _, w := range reported[:i] {
			if w.State.Mode == session.ModeReadWrite && w.At < e.Sent {
				good = max(good, w.Sent-jeopardyIntervals*c.bounds.Interval)
			}
		}
		if good < 0 {
			continue
		}
		c.checked("N1 again")
		if quiet := e.At - good; quiet < c.bounds.ReadOnlyAfter {
			c.misled(e, "N1", "%s is read-only, and had learnt of a good round at most %v before", p.who, quiet)
		}
	}
}

// reading returns the spans in which a process was certainly read-only: from the arrival of an answer that says so to
// the send of the request for another such answer.
func (c modes) reading(reported []history.Event) []span {
	var spans []span
	for i, from := range reported {
		if from.State.Mode != session.ModeReadOnly {
			continue
		}
		for _, till := range reported[i+1:] {
			if till.At >= from.Sent+c.bounds.ReadOnlyAfter {
				break
			}
			if till.State.Mode == session.ModeReadOnly {
				spans = append(spans, span{from: from.At, till: till.Sent})
			}
		}
	}
	return spans
}

// within reports whether a grant was requested and answered within one of spans. If the answer itself says that the
// node is read-only, its request may end the span.
func within(spans []span, e history.Event) bool {
	return slices.ContainsFunc(spans, func(s span) bool {
		return s.from <= e.Sent && (e.At <= s.till || e.State.Mode == session.ModeReadOnly && e.Sent == s.till)
	})
}

// readOnlyGrants checks N2.
func (c modes) readOnlyGrants(l *life, reading map[process][]span) {
	for _, g := range slices.Concat(l.grants, l.closes) {
		if p, ok := c.process(g); ok && g.Sent != 0 && within(reading[p], g) {
			c.fail("N2", l.id, g.At, "%s was read-only, and took a write: %s", p.who, history.Line(g))
		}
	}
}

// again checks N5: a session that was CONNECTED_READ_ONLY, and that its client holds to be alive long after the last
// fault, is CONNECTED.
func (c modes) again(l *life) {
	for _, a := range l.alive {
		had := slices.ContainsFunc(l.onlyReads, func(o history.Event) bool { return o.Who == a.Who && o.At < a.At })
		if !had || c.healed == 0 || a.At < c.healed+c.bounds.Recovery || l.closing(a) {
			continue
		}
		c.checked("N5")
		if a.Text != connected {
			c.fail("N5", l.id, a.At, "%s was connected read-only, and is %s %v after the last fault", a.Who, a.Text,
				a.At-c.healed)
		}
	}
}

// connected is the state of a session that is served.
const connected = "connected"
