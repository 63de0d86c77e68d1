package client

import (
	"context"
	"time"
)

// promise is the latest promise of a session, and the context that lives while each promise is renewed in time. Its
// timer ends the context on time without the client's loop, which a callback or a logger may block. Not safe for
// concurrent use: the session's mu guards it.
type promise struct {
	// values carries the values of the opening call's context. Each current is made from it.
	//nolint:containedctx // the contexts of a session outlive the call that their values come from
	values context.Context
	// until is the end of the promise; zero when nothing is promised.
	until time.Time
	// suspensions is the number of suspensions that the clock had noticed when the promise was made.
	suspensions uint64
	// timer goes off at until; nil before the first promise.
	timer *time.Timer
	// over is called by the timer.
	over func()

	current context.Context //nolint:containedctx // Session.Context returns it
	cancel  context.CancelCauseFunc
}

// newPromise returns a promise of nothing, whose context has ended. over is called, in a goroutine of its own, when a
// promise has run out.
func newPromise(values context.Context, over func()) promise {
	p := promise{values: values, over: over}
	p.current, p.cancel = context.WithCancelCause(values)
	p.cancel(ErrLapsed)
	return p
}

// holds reports whether the promise is good, given a look at the clock. The look may be from before the promise was
// renewed, and then have a smaller number of suspensions than the promise.
func (p *promise) holds(now time.Time, suspensions uint64) bool {
	return p.current.Err() == nil && now.Before(p.until) && suspensions <= p.suspensions
}

// renew takes a promise until a moment, made under a number of suspensions. A context that has ended stays ended: renew
// then makes a new one, and reports that the former one had ended.
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

// drop ends the promise, and the context with cause. A context that has ended keeps its cause.
func (p *promise) drop(cause error) {
	p.until = time.Time{}
	p.cancel(cause)
	if p.timer != nil {
		p.timer.Stop()
	}
}
