package peerport

import (
	"context"
	"fmt"
	"sync"
	"time"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// link is the leader's end of a stream. gRPC interrupts its own Recv and Send only when the handler has returned. So
// each has a goroutine of its own, which outlives the handler for a moment, and the methods of link wait no longer than
// the link's context.
type link[In, Out any] struct {
	ctx    context.Context //nolint:containedctx // the lifetime of the link
	cancel context.CancelCauseFunc
	in     chan *In
	out    chan *Out
	// ended is closed when no more messages are to be sent, written when the last message was written.
	ended, written chan struct{}

	mu sync.Mutex
	// bad says why a message of the peer was invalid, or that none arrived. guarded by mu
	bad error
}

func newLink[In, Out any](ctx context.Context, cancel context.CancelCauseFunc) *link[In, Out] {
	return &link[In, Out]{
		ctx: ctx, cancel: cancel, in: make(chan *In), out: make(chan *Out),
		ended: make(chan struct{}), written: make(chan struct{}),
	}
}

// read reads the peer's messages until the peer has been silent for too long; 0 permits any silence.
func (l *link[In, Out]) read(recv func() (*In, error), silence time.Duration) {
	var timer *time.Timer
	if silence > 0 {
		timer = time.AfterFunc(silence, func() {
			l.refuse(fmt.Errorf("no message for %s: %w", silence, context.DeadlineExceeded))
		})
		defer timer.Stop()
	}
	for {
		m, err := recv()
		if err != nil {
			l.cancel(fmt.Errorf("reading from the peer: %w", wire.Domain(err)))
			return
		}
		if timer != nil {
			timer.Reset(silence)
		}
		select {
		case l.in <- m:
		case <-l.ctx.Done():
			return
		}
	}
}

// first waits for the stream's first message.
func (l *link[In, Out]) first(timeout time.Duration) (*In, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case m := <-l.in:
		return m, nil
	case <-timer.C:
		return nil, fmt.Errorf("waiting %s for a hello: %w", timeout, context.DeadlineExceeded)
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// next returns the next message.
func (l *link[In, Out]) next() (*In, error) {
	select {
	case m := <-l.in:
		return m, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// invalid ends the stream because of an invalid message of the peer, and returns the error.
func (l *link[In, Out]) invalid(err error) error {
	err = fmt.Errorf("reading a message of the peer: %w", err)
	l.refuse(err)
	return err
}

// refuse ends the stream because of the peer's messages or silence.
func (l *link[In, Out]) refuse(err error) {
	l.mu.Lock()
	l.bad = err
	l.mu.Unlock()
	l.cancel(err)
}

func (l *link[In, Out]) badMessage() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad
}

// send queues a message. A nil error does not mean that the peer got the message.
func (l *link[In, Out]) send(m *Out) error {
	select {
	case l.out <- m:
		return nil
	case <-l.ended:
		return session.ErrClosed
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

func (l *link[In, Out]) write(send func(*Out) error) {
	defer close(l.written)
	for {
		select {
		case m := <-l.out:
			if err := send(m); err != nil {
				l.cancel(fmt.Errorf("writing to the peer: %w", wire.Domain(err)))
				return
			}
		case <-l.ended:
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// flush waits until the messages of send were written, because the end of the handler would drop them. The wait is
// short, because the peer may hang.
func (l *link[In, Out]) flush() {
	close(l.ended)
	timer := time.NewTimer(flushWait)
	defer timer.Stop()
	select {
	case <-l.written:
	case <-timer.C:
	}
}

// leaderLink is the [LeaderLink] over one stream.
type leaderLink struct {
	*link[peerv1.LearnerMessage, peerv1.LeaderMessage]
}

// Recv returns the next message.
func (l leaderLink) Recv() (session.LearnerMessage, error) {
	p, err := l.next()
	if err != nil {
		return session.LearnerMessage{}, err
	}
	m, err := wire.LearnerFrom(p)
	if err != nil {
		return session.LearnerMessage{}, l.invalid(err)
	}
	return m, nil
}

// Send queues a message. A nil error does not mean that the peer got the message.
func (l leaderLink) Send(m session.LeaderMessage) error { return wire.SendLeader(m, l.send) }

// forwardLink is the [ForwardLink] over one stream.
type forwardLink struct {
	*link[peerv1.ForwardRequest, peerv1.ForwardResponse]
}

// Recv returns the next message.
func (l forwardLink) Recv() (session.ForwardMessage, error) {
	p, err := l.next()
	if err != nil {
		return session.ForwardMessage{}, err
	}
	m, err := wire.ForwardFrom(p)
	if err != nil {
		return session.ForwardMessage{}, l.invalid(err)
	}
	return m, nil
}

// Welcome queues the first message.
func (l forwardLink) Welcome(term uint64) error { return l.send(wire.ForwardWelcomeProto(term)) }

// Refuse queues refusals. A nil error does not mean that the peer got them.
func (l forwardLink) Refuse(all []session.WriteRefusal) error {
	return l.send(wire.WriteRefusalsProto(all))
}
