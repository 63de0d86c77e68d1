package noraft

import (
	"context"

	"holdfast/session"
)

// buffered is how many messages a link holds in each direction. A sender waits when it is full.
const buffered = 16

// link is a stream between the tracker and a learner, in memory. It passes messages on without copies: neither end
// changes a message after sending it.
type link struct {
	ctx    context.Context //nolint:containedctx // it is the link's life
	cancel context.CancelFunc
	down   chan session.LeaderMessage
	up     chan session.LearnerMessage
}

func newLink(ctx context.Context) *link {
	ctx, cancel := context.WithCancel(ctx)
	return &link{
		ctx, cancel, make(chan session.LeaderMessage, buffered), make(chan session.LearnerMessage, buffered),
	}
}

// leaderEnd is the link as the tracker sees it: a [leader.Link].
type leaderEnd struct{ *link }

func (l leaderEnd) Send(m session.LeaderMessage) error    { return send(l.ctx, l.down, m) }
func (l leaderEnd) Recv() (session.LearnerMessage, error) { return receive(l.ctx, l.up) }

// learnerEnd is the link as the learner sees it: a [learner.Link].
type learnerEnd struct{ *link }

func (l learnerEnd) Send(m session.LearnerMessage) error  { return send(l.ctx, l.up, m) }
func (l learnerEnd) Recv() (session.LeaderMessage, error) { return receive(l.ctx, l.down) }
func (l learnerEnd) Close() error                         { l.cancel(); return nil }

func send[M any](ctx context.Context, to chan<- M, m M) error {
	select {
	case to <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func receive[M any](ctx context.Context, from <-chan M) (m M, err error) {
	select {
	case m = <-from:
		return m, nil
	case <-ctx.Done():
		return m, ctx.Err()
	}
}
