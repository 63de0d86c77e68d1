package check

import (
	"slices"

	"holdfast/test/sim/history"
)

// promises judges I3.
type promises struct{ judge }

// check checks I3: no session expires before the end of a promise for it, from whichever node and in answer to whatever
// request. And the SDK keeps its part: the session's context ends before the session can have expired.
//
// All clocks of the simulation run at one rate. So a promise's allowance for clocks of other rates remains in full: a
// hundredth of the timeout (S3 length of a promise).
func (c promises) check(l *life) {
	end, ok := l.expired()
	if !ok {
		return
	}
	for _, p := range l.promises {
		c.checked("I3")
		if end < p.Until {
			c.fail("I3", l.id, end, "expired %v before the end of a promise that %s had: %s", p.Until-end, p.Who,
				history.Line(p))
		} else if margin := l.timeout / 100; end < p.Until+margin {
			c.fail("I3 clocks", l.id, end, "expired %v after the end of a promise that %s had, want %v: %s", end-p.Until,
				p.Who, margin, history.Line(p))
		}
	}
	for _, x := range l.contexts {
		c.checked("context")
		if x.At > end {
			c.fail("I3", l.id, x.At, "its context at %s ended %v after its expiry", x.Who, x.At-end)
		}
	}
}

// liveness checks the time after the last fault.
type liveness struct{ judge }

// served checks that after the last fault every session that its client holds to be alive is safe.
func (c liveness) served(l *life) {
	for _, a := range l.alive {
		if c.healed == 0 || a.At < c.healed+c.bounds.Recovery || l.closing(a) {
			continue
		}
		c.checked("served")
		if a.Until <= a.At {
			c.fail("liveness", l.id, a.At, "%s holds it to be alive, and is promised nothing %v after the last fault",
				a.Who, a.At-c.healed)
		}
		if l.end != nil && l.end.At < a.At-c.bounds.Commit {
			c.fail("E5", l.id, a.At, "%s holds it to be alive %v after its end", a.Who, a.At-l.end.At)
		}
	}
}

// wanting checks liveness: after the last fault every client that wants to be served is served in time. It holds a
// promise, or could open or resume a session.
func (c liveness) wanting(events []history.Event) {
	for i, w := range events {
		by := w.At + c.bounds.Serve
		if w.Kind != history.Wants || by > c.finished {
			continue
		}
		c.checked("liveness")
		if !slices.ContainsFunc(events[i:], func(e history.Event) bool {
			return e.At <= by && e.Who == w.Who && (e.Kind == history.Opened || e.Kind == history.Resumed ||
				(e.Kind == history.Touched || e.Kind == history.Promised) && e.Until > e.At)
		}) {
			c.fail("liveness", 0, by, "%s wanted to be served at %.4fs, and was not within %v", w.Who,
				w.At.Seconds(), c.bounds.Serve)
		}
	}
}
