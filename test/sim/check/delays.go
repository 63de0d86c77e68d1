package check

import (
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// delays checks lock-delays by the log clock (F2 of the tree): when a session expires whose entry lingers, nobody is
// given what it excludes until that clock has gone on by the delay. An entry that was removed makes way at once.
func (c uses) delays() {
	prizes := claims{c.judge}.prizes()
	for _, p := range prizes {
		for _, e := range p.granted {
			if _, released := p.released[e.Claim.Name]; e.Claim.Linger == 0 || released {
				continue
			}
			if expired, ok := c.leftBehind(e); ok {
				c.delay(p, e, expired)
			}
		}
	}
}

// leftBehind returns the moment at which the session of a grant expired, if the grant's entry stood then.
func (c uses) leftBehind(e history.Event) (moment, bool) {
	l := c.lives[e.ID]
	if l == nil || l.end == nil || l.end.Cause != session.CauseExpired {
		return moment{}, false
	}
	s, ok := find(c.past.staysBelow(e.Claim.Path), e.Claim.Token)
	index := l.end.Index
	if !ok || !s.standing(tree.StampAt(index, 1)) {
		return moment{}, false
	}
	expired, ok := c.times[index]
	return expired, ok
}

// delay checks the grants behind one whose session expired while it was held.
func (c uses) delay(p *prize, e history.Event, expired moment) {
	due, until := expired.clock+e.Claim.Linger, c.reaches(expired.clock+e.Claim.Linger)
	for _, next := range p.granted {
		if next.Claim.Token <= e.Claim.Token || !excludes(e, next) || p.before(e.Claim.Token, next.At) {
			continue
		}
		c.checked("lock-delay")
		if next.At < until {
			c.misled(next, "lock-delay", "granted before the log clock was %.4fs, which it was at %.4fs, behind: %s",
				due.Seconds(), until.Seconds(), history.Line(e))
		}
	}
}

// reaches returns when the log clock first reached what it says.
func (c uses) reaches(clock time.Duration) time.Duration {
	first := forever
	for _, m := range c.times {
		if m.clock >= clock {
			first = min(first, m.at)
		}
	}
	return first
}
