package client

import (
	"context"
	"time"
)

// promise is the latest promise of a session, and the context that lives while each promise is renewed in time. Its
// timer ends the context on time without the client's loop, which a callback or a logger may block. Context and timer
// are made when the application first asks for the context: most sessions of a client with thousands need neither. Not
// safe for concurrent use: the session's mu guards it.
type promise struct {
	// values carries the values of the opening call's context. Each current context has these values, without that
	// context's end.
	//nolint:containedctx // the contexts of a session outlive the call that their values come from
	values context.Context
	// until is the end of the promise; zero when nothing is promised.
	until time.Time
	// suspensions is the number of suspensions that the clock had noticed when the promise was made.
	suspensions uint64
	// cause explains why there is no promise; nil while there is one.
	cause error
	// timer goes off at until; nil before there was a promise with a context.
	timer *time.Timer
	// over is called by the timer.
	over func()

	// current is nil until the application asks for it.
	current context.Context //nolint:containedctx // Session.Context returns it
	cancel  context.CancelCauseFunc
	// renewed is closed with the next promise after a time without a promise; nil unless a caller waits.
	renewed chan struct{}
}

// newPromise returns an expired promise, whose context has ended. over is called, in its own goroutine, when a promise
// has run out.
func newPromise(values context.Context, over func()) promise {
	return promise{values: values, over: over, cause: ErrLapsed}
}

// holds reports whether the promise is good at a reading of the clock. The reading may be from before the promise was
// renewed, and then have a smaller number of suspensions than the promise.
func (p *promise) holds(now time.Time, suspensions uint64) bool {
	return p.cause == nil && now.Before(p.until) && suspensions <= p.suspensions
}

// renew records a promise until a moment, made after the given number of suspensions. A context that has ended stays
// ended: renew then makes a new context, and reports that the former context had ended.
func (p *promise) renew(until time.Time, suspensions uint64) (ended bool) {
	ended = p.cause != nil
	p.until, p.suspensions, p.cause = until, suspensions, nil
	if p.renewed != nil {
		close(p.renewed)
		p.renewed = nil
	}
	if p.current == nil {
		return ended
	}
	if ended {
		p.current, p.cancel = context.WithCancelCause(p.values)
	}
	p.setTimer()
	return ended
}

// setTimer has over called at the end of the promise.
func (p *promise) setTimer() {
	if d := time.Until(p.until); p.timer == nil {
		p.timer = time.AfterFunc(d, p.over)
	} else {
		p.timer.Reset(d)
	}
}

// context returns the context of the promise.
func (p *promise) context() context.Context {
	if p.current == nil {
		p.values = context.WithoutCancel(p.values)
		p.current, p.cancel = context.WithCancelCause(p.values)
		if p.cause == nil {
			p.setTimer()
		} else {
			p.cancel(p.cause)
		}
	}
	return p.current
}

// next returns a channel that is closed with the next promise.
func (p *promise) next() <-chan struct{} {
	if p.renewed == nil {
		p.renewed = make(chan struct{})
	}
	return p.renewed
}

// drop ends the promise, and the context with cause. A context that has ended keeps its cause.
func (p *promise) drop(cause error) {
	p.until = time.Time{}
	if p.cause != nil {
		return
	}
	p.cause = cause
	if p.current != nil {
		p.cancel(cause)
		p.timer.Stop()
	}
}
