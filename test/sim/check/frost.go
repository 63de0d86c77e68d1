package check

import (
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// frosts are the freezes of expiry (Y3), as each node applied them.
type frosts struct{ frosts map[string][]frost }

// frost is a freeze, from the entry that froze a node to the one that thawed it, or to the start of its next process.
type frost struct {
	from, till history.Event
	// open says that no entry has thawed the node.
	open bool
}

func (f *frosts) note(e history.Event) {
	all := f.frosts[e.Who]
	switch e.Kind { //nolint:exhaustive // the other kinds are not about freezes
	case history.Frosted:
		f.frosts[e.Who] = append(all, frost{from: e, open: true})
	case history.Thawed:
		f.close(e)
	case history.NodeStarted: // the former process's knowledge is gone, and which entries came behind is not known
		if len(all) > 0 {
			e.Index = all[len(all)-1].from.Index
			f.close(e)
		}
	}
}

func (f *frosts) close(e history.Event) {
	if all := f.frosts[e.Who]; len(all) > 0 && all[len(all)-1].open {
		last := &all[len(all)-1]
		last.till, last.open = e, false
	}
}

// over is the earliest moment at which a node may take a freeze for over, by an entry or by the bound. end is the
// latest one: a node counts the time itself if no entry comes.
func (f frost) over() time.Duration {
	if f.open {
		return f.from.Until
	}
	return min(f.from.Until, f.till.At)
}

func (f frost) end() time.Duration {
	if f.open {
		return f.from.At + f.from.Dawdles + f.from.Timeout
	}
	return f.till.At + f.till.Dawdles
}

// holds reports whether a node must know at a moment that there is a freeze.
func (f frost) holds(moment time.Duration) bool {
	return f.from.At+f.from.Dawdles < moment && moment < f.over()
}

// cold reports whether an entry is one of a freeze, on a node: the entry that thaws is none.
func (f *frosts) cold(who string, index uint64) bool {
	return slices.ContainsFunc(f.frosts[who], func(one frost) bool {
		return one.from.Index < index && (one.open || index < one.till.Index)
	})
}

// thaw returns the newest freeze of a node whose thaw it had applied by a moment, after another.
func (f *frosts) thaw(who string, after, by time.Duration) (newest frost, ok bool) {
	for _, one := range f.frosts[who] {
		if !one.open && one.till.At > after && one.till.At < by {
			newest, ok = one, true
		}
	}
	return newest, ok
}

// warm returns the latest moment up to a bound at which a freeze of a node may have been over, and from without one.
func (f *frosts) warm(who string, from, till time.Duration) time.Duration {
	warm := from
	for _, one := range f.frosts[who] {
		if end := one.end(); one.from.At < till && end > warm {
			warm = min(end, till)
		}
	}
	return warm
}

// frozenBetween reports whether any node may have known of a freeze between two moments.
func (f *frosts) frozenBetween(from, till time.Duration) bool {
	for _, all := range f.frosts {
		if slices.ContainsFunc(all, func(one frost) bool { return one.from.At <= till && one.end() >= from }) {
			return true
		}
	}
	return false
}

// freezes judges Y3: nothing expires in a freeze.
type freezes struct{ judge }

// check judges the ends of a session, and the decisions about it.
func (c freezes) check(l *life) {
	for _, e := range l.ends {
		if e.Cause != session.CauseExpired || len(c.frosts.frosts[e.Who]) == 0 {
			continue
		}
		c.checked("Y3 state")
		if c.cold(e.Who, e.Index) {
			c.fail("Y3", l.id, e.At, "%s applies the end of a session that has expired, in a freeze: %s", e.Who,
				history.Line(e))
		}
	}
	for _, d := range l.decided {
		for _, one := range c.frosts.frosts[d.Who] {
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
	for _, one := range c.frosts.frosts[l.end.Who] {
		c.checked("Y3 local")
		if one.holds(end) {
			c.fail("Y3", l.id, end, "its node ended it in a freeze, from %.4fs to %.4fs", one.from.At.Seconds(),
				one.over().Seconds())
		}
	}
}
