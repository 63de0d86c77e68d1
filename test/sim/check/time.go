package check

import (
	"slices"

	"holdfast/test/sim/history"
)

// promises checks I3: no session expires before a promise for it ends; and what the SDK makes of it: the session's context
// ends before the session can have expired.
func (c *checker) promises(l *life) {
	end, ok := l.expired()
	if !ok {
		return
	}
	for _, p := range l.promises {
		c.checked("I3")
		if end < p.Until {
			c.fail("I3", l, end, "expired %v before the end of a promise that %s had: %s", p.Until-end, p.Who, p)
		}
	}
	for _, x := range l.contexts {
		c.checked("context")
		if x.At > end {
			c.fail("I3", l, x.At, "its context at %s ended %v after its expiry", x.Who, x.At-end)
		}
	}
}

// early checks I1: a touch that its owner took, in a calm cluster, keeps the session for a full timeout. (In a cluster that is not calm the
// owner may not have been able to report it; what it promised is I3.) The certificate must agree.
func (c *checker) early(l *life) {
	end, ok := l.expired()
	if !ok {
		return
	}
	if cert := l.end.Certificate; cert != nil && cert.LastTouchAge >= 0 {
		c.checked("I1 certificate")
		if cert.LastTouchAge < l.timeout {
			c.fail("I1", l, end, "its certificate says it was touched %v before, which is below its timeout %v", cert.LastTouchAge, l.timeout)
		}
	}
	for _, t := range append(append([]history.Event(nil), l.touches...), l.grants...) {
		if t.Asked == 0 || t.Asked > end || t.Attachment != l.end.Attachment || !c.calm(t.Asked, end) {
			continue
		}
		c.checked("I1")
		if end < t.Asked+l.timeout {
			c.fail("I1", l, end, "expired %v after a touch that was taken, below its timeout %v: %s", end-t.Asked, l.timeout, t)
		}
	}
}

// late checks I2: a silent session expires in time, at the latest after the last fault.
func (c *checker) late(l *life) {
	if l.silent == 0 || l.timeout == 0 || l.end != nil && l.end.At < l.silent {
		return
	}
	// A touch made just before the silence travels, and its deadline is 1/200 longer than the timeout (T5).
	due := l.timeout + l.timeout/200 + c.bounds.ExpiryInterval + c.bounds.Commit
	by := l.silent + due
	if !c.calm(l.silent, by) {
		by = max(l.silent, c.healed) + c.bounds.Settle + due
	}
	if by > c.finished {
		return
	}
	c.checked("I2")
	if l.end == nil {
		c.fail("I2", l, c.finished, "silent since %.4fs, it should have expired by %.4fs, and never did", l.silent.Seconds(), by.Seconds())
	} else if l.end.At > by {
		c.fail("I2", l, l.end.At, "silent since %.4fs, it should have expired by %.4fs", l.silent.Seconds(), by.Seconds())
	}
}

// closing reports whether the client of an event had asked for the session's close by then: it holds no promise any more.
func (l *life) closing(e history.Event) bool {
	return slices.ContainsFunc(l.asked, func(a history.Event) bool { return a.Who == e.Who && a.At <= e.At })
}

// served checks that after the last fault every session that its client holds to be alive is safe.
func (c *checker) served(l *life) {
	for _, a := range l.alive {
		if c.healed == 0 || a.At < c.healed+c.bounds.Settle || l.closing(a) {
			continue
		}
		c.checked("served")
		if a.Until <= a.At {
			c.fail("I2", l, a.At, "%s holds it to be alive, and is promised nothing %v after the last fault", a.Who, a.At-c.healed)
		}
		if l.end != nil && l.end.At < a.At-c.bounds.Commit {
			c.fail("E5", l, a.At, "%s holds it to be alive %v after its end", a.Who, a.At-l.end.At)
		}
	}
}
