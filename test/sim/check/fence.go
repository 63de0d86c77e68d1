package check

import (
	"maps"
	"slices"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// fence judges I4.
type fence struct{ judge }

// check checks I4: after a resume was answered, no request through an older attachment takes effect. An owner that is
// cut off and does not know about the move may still accept a touch. Such a touch has an effect if its promise reaches
// further than any promise from before the resume could. A close has an effect if it is done. In a calm cluster the
// former owner must not even accept the touch.
func (c fence) check(l *life) {
	c.outrun(l)
	c.granted(l)
	c.takers(l)
	c.closedBy(l)
	c.takenOver(l)
}

// takenOver checks M1: a process takes a session from another process only by a resume that it sent while the other
// process had it. So each move between processes must fall into a call that deliberately takes the session over. That
// call must not have ended before the former attachment was first applied, because earlier no process can know that
// attachment. A delayed resume of a process that is gone takes no session from a living process, nor does a resume that
// a library makes on its own. A client of the ZooKeeper port does not know the number that its node gives to each of
// its connections: 0.
func (c fence) takenOver(l *life) {
	made := make(map[uint64]history.Event)
	for _, a := range l.applied {
		if _, again := made[a.Attachment]; !again {
			made[a.Attachment] = a
		}
	}
	var former history.Event
	for _, attachment := range slices.Sorted(maps.Keys(made)) {
		now := made[attachment]
		if former.Instance != 0 && now.Instance != former.Instance {
			c.checked("M1")
			if !slices.ContainsFunc(c.takeOvers[l.id], func(e history.Event) bool {
				return (e.Instance == now.Instance || e.Instance == 0) && e.Sent <= now.At && e.At >= former.At
			}) {
				c.fail("I4", l.id, now.At, "process %d took it over with attachment %d from process %d, and had not requested it "+
					"for it since that had attachment %d",
					now.Instance, attachment, former.Instance, former.Attachment)
			}
		}
		former = now
	}
}

// outrun checks the effects of requests through older attachments.
func (c fence) outrun(l *life) {
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
				c.fail("I4", l.id, p.At, "attachment %d was answered at %.4fs, yet a touch through an older one took "+
					"effect: %s",
					g.Attachment, g.At.Seconds(), history.Line(p))
			}
		}
		c.olderTouches(l, g)
		c.olderCloses(l, g)
	}
}

// granted checks that a node had applied every granted attachment (M3 served in the leader's term), and that no two
// clients were granted the same one. The attachment of an upgrade is granted to every client that requested the
// upgrade.
func (c fence) granted(l *life) {
	first := make(map[uint64]history.Event)
	for _, g := range l.grants {
		c.checked("M3")
		if !slices.ContainsFunc(l.applied, func(a history.Event) bool {
			return a.Attachment == g.Attachment && a.At <= g.At
		}) {
			c.fail("I4", l.id, g.At, "%s was granted attachment %d, which no node had applied (M3)", g.Who,
				g.Attachment)
		}
		if f, ok := first[g.Attachment]; ok && f.Who != g.Who && f.Kind != history.Upgraded &&
			g.Kind != history.Upgraded {
			c.fail("I4", l.id, g.At, "attachment %d was granted to %s and to %s", g.Attachment, f.Who, g.Who)
		} else if !ok {
			first[g.Attachment] = g
		}
	}
}

// takers checks, also during faults, which nodes accept touches of a session: only the owner of the touch's attachment,
// and only while it has applied neither a newer attachment nor the end when the touch is sent (T2 stale attachments are
// refused, M4 former clients are notified first). A process that started since may lag behind the former process and
// accept such touches; they count for nothing (T5 a touch moves the deadline).
func (c fence) takers(l *life) {
	for _, t := range l.touches {
		made, ok := l.made(t.Attachment)
		switch {
		case !ok || made.At > t.At:
			c.fail("I4", l.id, t.At, "a touch was accepted through attachment %d, which no node had applied (M3): %s",
				t.Attachment, history.Line(t))
			continue
		case t.Node != 0 && t.Node != made.Node:
			c.fail("I4", l.id, t.At, "node %d took a touch through attachment %d of node %d: %s", t.Node, t.Attachment,
				made.Node, history.Line(t))
			continue
		}
		c.checked("T2")
		owner := c.names[made.Node]
		passed := func(a history.Event) bool {
			return a.Who == owner && a.Attachment > t.Attachment && a.At < t.Sent &&
				!c.startedWithin(owner, a.At, t.At)
		}
		if i := slices.IndexFunc(l.applied, passed); i >= 0 {
			c.fail("I4", l.id, t.At, "%s had applied attachment %d, yet accepted a touch through an older one: %s", owner,
				l.applied[i].Attachment, history.Line(t))
		}
		ended := func(a history.Event) bool {
			return a.Who == owner && a.At < t.Sent && !c.startedWithin(owner, a.At, t.At)
		}
		if i := slices.IndexFunc(l.ends, ended); i >= 0 {
			c.fail("I4", l.id, t.At, "%s had applied the session's end, yet took a touch: %s", owner, history.Line(t))
		}
	}
}

// closedBy checks that a close that was answered as done ended the session. It did so through the attachment that it
// named, or through a newer attachment that the same client's library had resumed meanwhile (M2 commands name their
// attachment). It also checks that every closed session has a requested close.
func (c fence) closedBy(l *life) {
	for _, x := range l.closes {
		c.checked("closes")
		switch e := l.end; {
		case e == nil || e.Cause != session.CauseClosed || e.At > x.At:
			c.fail("I4", l.id, x.At, "a close was answered as done, and no node had applied one: %s", history.Line(x))
		case e.Attachment != x.Attachment &&
			(x.Node != 0 || e.Attachment < x.Attachment || l.others(e.Attachment, x.Who)):
			c.fail("I4", l.id, x.At, "a close through attachment %d ended the session with attachment %d: %s",
				x.Attachment, e.Attachment, history.Line(x))
		}
	}
	// A library closes a session that it opened for a caller that stopped waiting. Then no client was granted the
	// session.
	if e := l.end; e != nil && e.Cause == session.CauseClosed && len(l.grants) > 0 {
		if !slices.ContainsFunc(l.attempts, func(a history.Event) bool {
			return a.Sent <= e.At && a.Attachment <= e.Attachment
		}) {
			c.fail("I4", l.id, e.At, "closed with attachment %d, and no client had requested that", e.Attachment)
		}
	}
}

func (c fence) olderTouches(l *life, g history.Event) {
	for _, t := range l.touches {
		if t.Attachment < g.Attachment && t.Sent > g.At+c.bounds.Commit && c.calm(g.At, t.At) {
			c.fail("I4", l.id, t.At, "attachment %d was answered at %.4fs, yet a calm cluster accepted a touch through an "+
				"older one: %s",
				g.Attachment, g.At.Seconds(), history.Line(t))
		}
	}
}

func (c fence) olderCloses(l *life, g history.Event) {
	for _, x := range l.closes {
		if x.Attachment != 0 && x.Attachment < g.Attachment && x.Sent > g.At {
			c.fail("I4", l.id, x.At,
				"attachment %d was answered at %.4fs, yet a close through an older one was done: %s",
				g.Attachment, g.At.Seconds(), history.Line(x))
		}
	}
}

// reported checks what clients learn of an end or a move. They learn of an end only after a node has applied it (E5
// ends only from the log), and of a move only after a resume. In the end every client with an older attachment knows.
func (c fence) reported(l *life) {
	for _, g := range l.gone {
		c.checked("E5")
		if l.end == nil || g.At < l.end.At {
			c.fail("E5", l.id, g.At, "%s was notified of an end that no node had applied", g.Who)
		}
	}
	for _, m := range l.moved {
		c.checked("reported moved")
		if !slices.ContainsFunc(l.applied, func(a history.Event) bool {
			return a.Attachment > m.Attachment && a.At <= m.At
		}) {
			c.fail("I4", l.id, m.At, "%s was notified of a move that no node had applied", m.Who)
		}
	}
	newest := l.newestGrant()
	for _, a := range l.alive {
		if a.Attachment < newest.Attachment && a.At > max(newest.At, c.healed)+c.bounds.Recovery {
			c.fail("I4", l.id, a.At, "%s serves itself from attachment %d, and was never notified of %d, answered at %.4fs",
				a.Who, a.Attachment, newest.Attachment, newest.At.Seconds())
		}
	}
}
