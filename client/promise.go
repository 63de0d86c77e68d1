package client

import (
	"context"
	"time"
)

// promise is the latest promise of a session, and the context that lives as long as promises follow each other. Its
// timer ends the context on time without the client's loop, which a callback or a logger may hold up. Not safe for
// concurrent use: the session's mu guards it.
type promise struct {
	// values is what the context of the opening call carried; every current is made from it.
	//nolint:containedctx // contexts that are handed out outlive the call they get their values from
	values context.Context
	// until is zero when nothing is promised.
	until time.Time
	// suspensions counts those that had been noticed when until was promised.
	suspensions uint64
	// timer goes off at until; nil before the first promise.
	timer *time.Timer
	// over is what the timer calls.
	over func()

	current context.Context //nolint:containedctx // what Session.Context returns is made ahead of the call
	cancel  context.CancelCauseFunc
}

// newPromise returns that nothing is promised yet. over is called, in a goroutine of its own, when a promise has run
// out.
func newPromise(values context.Context, over func()) promise {
	p := promise{values: values, over: over}
	p.current, p.cancel = context.WithCancelCause(values)
	p.cancel(ErrLapsed)
	return p
}

// holds reports whether the promise is good at a moment, when so many suspensions have been noticed. Whoever has looked
// at the clock before the promise was renewed may have seen fewer of them than the promise has.
func (p *promise) holds(now time.Time, suspensions uint64) bool {
	return p.current.Err() == nil && now.Before(p.until) && suspensions <= p.suspensions
}

// renew takes a promise given when so many suspensions had been noticed. A context that has ended stays ended: there is
// a new one from then on, and renew reports that.
func (p *promise) renew(until time.Time, suspensions uint64) (ended bool) {
	p.until, p.suspensions = until, suspensions
	if ended = p.current.Err() != nil; ended {
		p.current, p.cancel = context.WithCancelCause(p.values)
	}
	if d := time.Until(until); p.timer == nil {
		p.timer = time.AfterFunc(d, p.over)
	} else {
		p.timer.Reset(d)
	}
	return ended
}

// drop ends the promise and the context, which keeps a former cause.
func (p *promise) drop(cause error) {
	p.until = time.Time{}
	p.cancel(cause)
	if p.timer != nil {
		p.timer.Stop()
	}
}
