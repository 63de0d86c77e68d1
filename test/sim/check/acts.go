package check

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// acts are operators' requests about a session, in the order of the answers, and the times for which nodes keep it.
type acts struct{ kills, extends, kept []history.Event }

func (a *acts) act(e history.Event) {
	switch e.Kind { //nolint:exhaustive // the other kinds are not acts of operators
	case history.Killed:
		a.kills = append(a.kills, e)
	case history.Extended:
		a.extends = append(a.extends, e)
	case history.Kept:
		a.kept = append(a.kept, e)
	}
}

// keepings are the times for which log entries keep a session, in the order of the log, as the first node applied them.
func (a *acts) keepings() []history.Event {
	all := slices.Clone(a.kept)
	slices.SortStableFunc(all, func(x, y history.Event) int {
		return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.At, y.At))
	})
	// A process that starts applies older entries again.
	all = slices.CompactFunc(all, func(x, y history.Event) bool { return x.Index == y.Index || x.Until == y.Until })
	return all
}

// bidding is the kill that an end is due to; false if no operator requested it.
func (a *acts) bidding(end *history.Event) (history.Event, bool) {
	for _, k := range a.kills {
		if k.Sent <= end.At && end.Certificate != nil && k.Act.Why == end.Certificate.Story.Why {
			return k, true
		}
	}
	return history.Event{}, false
}

// operators checks what operators do to sessions (Y1 kill, Y4 extension).
type operators struct{ judge }

// check checks Y1: an operator has asked to kill a killed session, and its certificate has the reason. A kill that was
// answered as done ended the session, by the named entry, and by the time of the answer. The other checks of ends apply
// too: one end on every node, the notification of clients, and the effects on the tree.
//
// It checks Y4: no session expires while it is kept.
func (c operators) check(l *life) {
	c.killed(l)
	c.reported(l)
	c.acknowledged(l)
	c.state(l)
	c.leader(l)
}

func (c operators) killed(l *life) {
	if l.end != nil && l.end.Cause == session.CauseKilled {
		c.bidden(l.id, &l.acts, l.end)
	}
	local := c.locals[l.id]
	if local != nil && local.ended != nil && local.ended.Cause == session.CauseKilled {
		c.bidden(l.id, &l.acts, local.ended)
	}
	for _, k := range l.kills {
		switch {
		case k.Act.Outcome == history.Done:
			c.done(l, local, k)
		case k.Act.Outcome == history.WasGone && local == nil:
			c.checked("Y1 gone")
			if l.end == nil || l.end.At > k.At {
				c.fail("Y1", l.id, k.At, "an operator got the answer that it had ended, and no node had applied an end: %s",
					history.Line(k))
			}
		}
	}
}

// bidden checks that an operator requested an end.
func (c operators) bidden(id session.ID, a *acts, end *history.Event) {
	c.checked("Y1")
	if _, ok := a.bidding(end); !ok {
		c.fail("Y1", id, end.At, "killed, and no operator had requested it with the reason in its certificate: %s",
			history.Line(*end))
	}
}

// done checks a kill that was answered as done.
func (c operators) done(l *life, local *local, k history.Event) {
	c.checked("Y1 done")
	end := l.end
	if k.Index == 0 {
		end = nil
		if local != nil {
			end = local.ended
		}
	}
	switch {
	case end == nil || end.At > k.At:
		c.fail("Y1", l.id, k.At, "an operator got the answer that it is ended, and no node had done that: %s", history.Line(k))
	case end.Cause != session.CauseKilled || end.Index != k.Index:
		c.fail("Y1", l.id, k.At, "an operator got the answer that it is ended, and it ended otherwise: %s; and %s",
			history.Line(k), history.Line(*end))
	case end.Certificate == nil || end.Certificate.Story.Why != k.Act.Why:
		c.fail("Y1", l.id, k.At, "two operators got the answer that they ended it, or the certificate has another reason: %s",
			history.Line(k))
	}
}

// reported checks that a client that learns of a session's end learns the operator's reason.
func (c operators) reported(l *life) {
	for _, g := range l.gone {
		if l.end == nil || l.end.Cause != session.CauseKilled || g.Certificate == nil {
			continue
		}
		c.checked("Y1 reported")
		if g.Certificate.Cause != session.CauseKilled || g.Certificate.Story.Why != l.end.Certificate.Story.Why {
			c.fail("Y1", l.id, g.At, "%s was notified that it ended otherwise, or for another reason: %+v", g.Who, g.Certificate)
		}
	}
}

// acknowledged checks Y4 as an operator sees it: the time of an extension is over before the session expires, unless
// another request about the session may have taken effect after it. The log clock never runs faster than time, and the
// time counts from the entry, which is not older than the request.
func (c operators) acknowledged(l *life) {
	end, ok := l.expired()
	if !ok {
		return
	}
	for i, e := range l.extends {
		another := func(o history.Event) bool {
			return o.At >= e.Sent && o.Sent < end || o.Act.Outcome == history.Doubtful
		}
		others := slices.Delete(slices.Clone(l.extends), i, i+1)
		if e.Act.Outcome != history.Done || e.Timeout == 0 || slices.ContainsFunc(others, another) {
			continue
		}
		c.checked("Y4")
		if end < e.Sent+e.Timeout {
			c.fail("Y4", l.id, end, "expired %v after an operator requested to keep it: %s", end-e.Sent, history.Line(e))
		}
	}
}

// state checks Y4 in the state: an entry whose clock is below the moment until which a session is kept does not end it.
func (c operators) state(l *life) {
	if _, ok := l.expired(); !ok {
		return
	}
	var last history.Event
	for _, k := range l.keepings() {
		if k.Index < l.end.Index {
			last = k
		}
	}
	clock, known := c.clock(l.end.Index)
	if last.Until == 0 || !known {
		return
	}
	c.checked("Y4 state")
	if clock < last.Until {
		c.fail("Y4", l.id, l.end.At, "ended by an entry whose clock is %v, and it is kept until %v: %s", clock, last.Until,
			history.Line(*l.end))
	}
}

// leader checks Y4 for leaders: a leader never asks for the end of a session that its node keeps. Each request has a
// different time, which identifies the request that a node has applied.
func (c operators) leader(l *life) {
	for _, d := range l.decided {
		last := c.knows(l, d)
		if last.Until == 0 {
			continue
		}
		at := slices.IndexFunc(l.extends, func(e history.Event) bool {
			return e.Timeout == last.Timeout && e.Sent <= last.At
		})
		if at < 0 {
			continue // restored, so only the rest of the time is known
		}
		c.checked("Y4 leader")
		if e := l.extends[at]; d.At < e.Sent+e.Timeout {
			c.fail("Y4", l.id, d.At, "%s decides to end it %v after an operator requested to keep it: %s", d.Who, d.At-e.Sent,
				history.Line(e))
		}
	}
}

// knows returns for how long the node of a leader keeps a session for certain when the leader decides: an entry that
// keeps it for less counts at once, though the node shows it later.
func (c operators) knows(l *life, d history.Event) (last history.Event) {
	for _, k := range l.kept {
		shown := k.At+k.ApplyDelay < d.At || k.At < d.At && k.Until < last.Until
		if k.Who == d.Who && shown && !c.startedWithin(k.Who, k.At, d.At) {
			last = k
		}
	}
	return last
}

// clock returns the log clock of an entry.
func (f *facts) clock(index uint64) (time.Duration, bool) {
	for _, e := range f.committed {
		if e.Index == index {
			return e.Ledger.Clock, true
		}
	}
	return 0, false
}

// reached returns when the log clock was first known to have come to a reading, forever if it never was.
func (f *facts) reached(clock time.Duration) time.Duration {
	first := forever
	for _, e := range f.committed {
		if e.Ledger.Clock >= clock {
			first = min(first, e.At)
		}
	}
	return first
}

// released returns the moment from which no extension keeps a session any more, 0 if none ever did, and forever if the
// log clock never came so far.
func (f *facts) released(l *life) (at time.Duration) {
	all := l.keepings()
	for i, k := range all {
		if k.Until == 0 {
			continue
		}
		over := f.reached(k.Until)
		if i+1 < len(all) {
			over = min(over, l.appliedLast(all[i+1].Index))
		}
		at = max(at, over)
	}
	return at
}

// appliedLast returns when the last node that ran all the while applied what an entry says of an extension.
func (a *acts) appliedLast(index uint64) (at time.Duration) {
	first := make(map[string]bool)
	for _, k := range a.kept {
		if k.Index == index && !first[k.Who] {
			first[k.Who] = true
			at = max(at, k.At+k.ApplyDelay)
		}
	}
	return at
}
