package node

import (
	"context"
	"errors"

	"holdfast/session"
)

// pipe is the link between a tracker and the relay of the same node: a stream without a network. Its two ends are
// leaderEnd and learnerEnd. It ends with its context.
type pipe struct {
	ctx      context.Context //nolint:containedctx // the context is the pipe's life, as a stream's is
	cancel   context.CancelFunc
	toRelay  chan session.LeaderMessage
	toLeader chan session.LearnerMessage
}

var errPipeEnded = errors.New("the link to this node's own tracker ended")

// pipeDepth is the number of messages that one side may send before the other has received any.
const pipeDepth = 64

func newPipe(ctx context.Context) *pipe {
	ctx, cancel := context.WithCancel(ctx)
	return &pipe{
		ctx:      ctx,
		cancel:   cancel,
		toRelay:  make(chan session.LeaderMessage, pipeDepth),
		toLeader: make(chan session.LearnerMessage, pipeDepth),
	}
}

type leaderEnd struct{ *pipe }

func (p leaderEnd) Send(m session.LeaderMessage) error    { return send(p.ctx, p.toRelay, m) }
func (p leaderEnd) Recv() (session.LearnerMessage, error) { return receive(p.ctx, p.toLeader) }

type learnerEnd struct{ *pipe }

// Close ends the pipe in both directions.
func (p *pipe) Close() error { p.cancel(); return nil }

func (p learnerEnd) Send(m session.LearnerMessage) error  { return send(p.ctx, p.toLeader, m) }
func (p learnerEnd) Recv() (session.LeaderMessage, error) { return receive(p.ctx, p.toRelay) }

func send[M any](ctx context.Context, to chan<- M, m M) error {
	select {
	case to <- m:
		return nil
	case <-ctx.Done():
		return errPipeEnded
	}
}

func receive[M any](ctx context.Context, from <-chan M) (M, error) {
	select {
	case m := <-from:
		return m, nil
	case <-ctx.Done():
		var none M
		return none, errPipeEnded
	}
}
