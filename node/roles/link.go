package roles

import (
	"context"
	"errors"

	"holdfast/learner"
	"holdfast/session"
	"holdfast/transport/raftnet"
	"holdfast/transport/tracing"
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

// pipeDepth is the number of messages that one side may send before the other has received any. It is small, because a
// request waits for the chunks of an answer that are ahead of it.
const pipeDepth = 2

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

// observedLink is the stream to a leader. Its heartbeats say how far the leader's directory has come: to the leader's
// term, and to what is committed, which a leader has on its own disk.
type observedLink struct {
	learner.ForwardingLink
	leader session.Node
	record func(raftnet.Position)
	term   uint64 // 0 when another node answered at the leader's address
}

// Recv receives a message of the leader.
func (l *observedLink) Recv() (session.LeaderMessage, error) {
	m, err := l.ForwardingLink.Recv()
	switch {
	case err != nil:
	case m.Welcome != nil && m.Welcome.Leader == l.leader:
		l.term = m.Welcome.Term
	case m.Heartbeat != nil && l.term > 0: // the relay has checked the term
		l.record(raftnet.Position{Term: l.term, Index: m.Heartbeat.Committed})
	}
	return m, err
}

// tracedToLeader traces what a link to a leader carries. A nil tracer traces nothing.
func tracedToLeader(tracer *tracing.Tracer, l learner.ForwardingLink) learner.ForwardingLink {
	if tracer == nil {
		return l
	}
	return tracedLink{tracer.ToLeader(l), l, tracer}
}

// tracedLink is a traced link to a leader, with the writes that go there.
type tracedLink struct {
	tracing.Link
	of     learner.ForwardingLink
	tracer *tracing.Tracer
}

// Forward opens a stream of writes.
func (l tracedLink) Forward() (learner.ForwardLink, error) {
	link, err := l.of.Forward()
	if err != nil {
		return nil, err
	}
	return l.tracer.Writes(link), nil
}
