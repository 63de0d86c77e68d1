package check

import (
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// freezeSpans are the freezes of expiry (Y3 freeze), as each node applied them.
type freezeSpans struct{ byNode map[string][]freezeSpan }

// freezeSpan is a freeze at a node, from the entry that froze it to the entry that thawed it, or to the start of the
// next process.
type freezeSpan struct {
	from, till history.Event
	// open reports that no entry has thawed the node.
	open bool
}

func (f *freezeSpans) note(e history.Event) {
	all := f.byNode[e.Who]
	switch e.Kind { //nolint:exhaustive // the other kinds are not about freezes
	case history.FreezeBegan:
		f.byNode[e.Who] = append(all, freezeSpan{from: e, open: true})
	case history.Thawed:
		f.close(e)
	case history.NodeStarted: // the former process's knowledge is gone, and which entries came behind is not known
		if len(all) > 0 {
			e.Index = all[len(all)-1].from.Index
			f.close(e)
		}
	}
}

func (f *freezeSpans) close(e history.Event) {
	if all := f.byNode[e.Who]; len(all) > 0 && all[len(all)-1].open {
		last := &all[len(all)-1]
		last.till, last.open = e, false
	}
}

// over is the earliest moment at which a node may consider a freeze over, by an entry or by the bound. end is the
// latest moment: a node counts the time itself if no entry comes.
func (f freezeSpan) over() time.Duration {
	if f.open {
		return f.from.Until
	}
	return min(f.from.Until, f.till.At)
}

func (f freezeSpan) end() time.Duration {
	if f.open {
		return f.from.At + f.from.ApplyDelay + f.from.Timeout
	}
	return f.till.At + f.till.ApplyDelay
}

// holds reports whether a node must know at a moment that there is a freeze.
func (f freezeSpan) holds(moment time.Duration) bool {
	return f.from.At+f.from.ApplyDelay < moment && moment < f.over()
}

// cold reports whether an entry is one of a freeze, on a node: the entry that thaws is none.
func (f *freezeSpans) cold(who string, index uint64) bool {
	return slices.ContainsFunc(f.byNode[who], func(one freezeSpan) bool {
		return one.from.Index < index && (one.open || index < one.till.Index)
	})
}

// thaw returns a node's newest freeze after another, whose thaw the node had applied by a moment.
func (f *freezeSpans) thaw(who string, after, by time.Duration) (newest freezeSpan, ok bool) {
	for _, one := range f.byNode[who] {
		if !one.open && one.till.At > after && one.till.At < by {
			newest, ok = one, true
		}
	}
	return newest, ok
}

// warm returns the latest moment up to a bound at which a freeze of a node may have been over, and from without one.
func (f *freezeSpans) warm(who string, from, till time.Duration) time.Duration {
	warm := from
	for _, one := range f.byNode[who] {
		if end := one.end(); one.from.At < till && end > warm {
			warm = min(end, till)
		}
	}
	return warm
}

// frozenBetween reports whether any node may have known of a freeze between two moments.
func (f *freezeSpans) frozenBetween(from, till time.Duration) bool {
	for _, all := range f.byNode {
		if slices.ContainsFunc(all, func(one freezeSpan) bool { return one.from.At <= till && one.end() >= from }) {
			return true
		}
	}
	return false
}

// freezes judges Y3: nothing expires in a freeze.
type freezes struct{ judge }

// check checks the ends of a session, and the decisions about it.
func (c freezes) check(l *life) {
	for _, e := range l.ends {
		if e.Cause != session.CauseExpired || len(c.byNode[e.Who]) == 0 {
			continue
		}
		c.checked("Y3 state")
		if c.cold(e.Who, e.Index) {
			c.fail("Y3", l.id, e.At, "%s applies the end of a session that has expired, in a freeze: %s", e.Who,
				history.Line(e))
		}
	}
	for _, d := range l.decided {
		for _, one := range c.byNode[d.Who] {
			c.checked("Y3 leader")
			if one.holds(d.At) {
				c.fail("Y3", l.id, d.At, "%s decides to end it in a freeze, which began at %.4fs", d.Who,
					one.from.At.Seconds())
			}
		}
	}
}

// checkLocal judges the end of a local session. Its node may count the time of a freeze itself.
func (c freezes) checkLocal(l *local) {
	end, ok := l.expired()
	if !ok {
		return
	}
	for _, one := range c.byNode[l.end.Who] {
		c.checked("Y3 local")
		if one.holds(end) {
			c.fail("Y3", l.id, end, "its node ended it in a freeze, from %.4fs to %.4fs", one.from.At.Seconds(),
				one.over().Seconds())
		}
	}
}
