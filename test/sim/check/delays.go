package check

import (
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// delays checks lock-delays by the log clock (H2 lock-delay): when a session with a lock-delay expires, no client gets
// a grant that its grant excludes until that clock has advanced by the delay, and soon afterwards the entry is gone. An
// entry that was removed makes way at once.
func (c uses) delays() {
	prizes := claims{c.judge}.prizes()
	for _, p := range prizes {
		for _, e := range p.granted {
			if _, released := p.released[e.Claim.Name]; e.Claim.LockDelay == 0 || released {
				continue
			}
			if left, expired, ok := c.leftBehind(e); ok {
				c.delay(p, e, expired)
				c.over(e, left, expired)
			}
		}
	}
}

// leftBehind returns the entry of a grant and the moment at which the grant's session expired, if the entry existed
// then.
func (c uses) leftBehind(e history.Event) (left stay, expired moment, ok bool) {
	l := c.lives[e.ID]
	if l == nil || l.end == nil || l.end.Cause != session.CauseExpired {
		return stay{}, moment{}, false
	}
	left, ok = find(c.past.staysBelow(e.Claim.Path), e.Claim.Token)
	index := l.end.Index
	if !ok || !left.existsAt(tree.StampAt(index, 1)) {
		return stay{}, moment{}, false
	}
	expired, ok = c.times[index]
	return left, expired, ok
}

// over checks that the entry of a grant whose session expired is gone in time (D5 TTLs and containers): once its delay
// is over, the leader finds the entry at its next check. After a fault the log clock may have lost time, which ends
// with the last fault. In a freeze it stops.
func (c uses) over(e history.Event, left stay, expired moment) {
	long := e.Claim.LockDelay + c.bounds.Reap + c.bounds.Commit
	by := expired.at + long
	if !c.calm(expired.at, by) {
		by = behind(max(expired.at, c.healed), c.bounds.Recovery+long)
	}
	if by > c.finished || c.frozenBetween(expired.at, by) {
		return
	}
	c.checked("lock-delay over")
	if gone := c.times[left.gone.Index()].at; left.gone == 0 || gone > by {
		c.fail("lock-delay", e.ID, by, "%s is there, and its session expired at %.4fs, with a delay of %v: %s", left.path,
			expired.at.Seconds(), e.Claim.LockDelay, history.Line(e))
	}
}

// delay checks the grants after a grant whose session expired while it was held.
func (c uses) delay(p *prize, e history.Event, expired moment) {
	due, until := expired.clock+e.Claim.LockDelay, c.reaches(expired.clock+e.Claim.LockDelay)
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

// reaches returns when the log clock first reached a value.
func (c uses) reaches(clock time.Duration) time.Duration {
	first := forever
	for _, m := range c.times {
		if m.clock >= clock {
			first = min(first, m.at)
		}
	}
	return first
}
