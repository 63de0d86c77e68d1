package roles

import (
	"context"
	"errors"
	"fmt"

	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/transport/dial"
	"holdfast/transport/tracing"
	"holdfast/tree"
	"holdfast/tree/form"
)

// trackerWrites returns what a tracker needs to take writes to the tree.
func trackerWrites() leader.Writes {
	return leader.Writes{Check: checkWrite, Acknowledge: acknowledge}
}

// checkWrite refuses a write that the replicas could not read: its entry would stop all of them, again at each start.
// It takes care that a write counts for no less than its weight (U2 weight).
func checkWrite(w *session.ForwardedWrite) error {
	in, err := form.ParseWrite(w.Command)
	switch {
	case err != nil:
		return err
	case session.ID(in.Session) != w.Session:
		return &session.FieldError{Field: "session", Limit: fmt.Sprintf("%v, as in the command", session.ID(in.Session))}
	case in.Number != w.Number:
		return &session.FieldError{Field: "number", Limit: fmt.Sprintf("%d, as in the command", in.Number)}
	}
	w.Weight = max(w.Weight, uint32(tree.Weight(in.Transaction)))
	return nil
}

// acknowledge returns the command that acknowledges results (X3 kept results).
func acknowledge(all []session.Acknowledged) (session.Command, error) {
	pairs := make([]tree.Acknowledgement, len(all))
	for i, one := range all {
		pairs[i] = tree.Acknowledgement{Session: uint64(one.Session), UpTo: one.UpTo}
	}
	encoded, err := form.AppendAcknowledge(nil, pairs)
	return session.TreeCommand{Encoded: encoded, Weight: 1}, err
}

// forward hands the stream of a node's writes to the tracker of the term that this node leads. The node has a Follow
// stream to that tracker, so the tracker is there.
func (t *terms) forward(ctx context.Context, hello session.ForwardHello, link leader.ForwardLink) error {
	tracker := t.tracker.Load()
	if tracker == nil {
		return &session.NotLeaderError{}
	}
	err := tracker.Forward(ctx, hello, t.cfg.Tracer.FromWriter(link))
	switch {
	case errors.Is(err, leader.ErrTermOver):
		return &session.NotLeaderError{}
	case errors.Is(err, leader.ErrNotFollowing), errors.Is(err, leader.ErrSuperseded):
		return &session.FieldError{
			Field: "hello.incarnation",
			Limit: fmt.Sprintf("that of the open stream of heartbeats of node %d, with no newer stream of writes", hello.Node),
		}
	}
	return err
}

// peerLink is the link to a leader on another node, which also takes writes.
type peerLink struct{ *dial.PeerLink }

// Forward opens a stream of writes to the same leader.
func (l peerLink) Forward() (learner.ForwardLink, error) {
	link, err := l.PeerLink.Forward()
	if err != nil {
		return nil, err // and no ForwardLink that is not nil
	}
	return link, nil
}

// ownLink is the link to this node's own tracker, which also takes writes.
type ownLink struct {
	learnerEnd
	tracer  *tracing.Tracer
	tracker *leader.Tracker
	hello   session.ForwardHello
}

// Forward opens a stream of writes to the tracker.
func (l ownLink) Forward() (learner.ForwardLink, error) {
	p := newForwardPipe(l.ctx)
	go func() {
		p.end(l.tracker.Forward(p.ctx, l.hello, l.tracer.FromWriter(p)))
	}()
	select {
	case <-p.welcome:
		return forwardEnd{p}, nil
	case <-p.ctx.Done():
		return nil, context.Cause(p.ctx)
	}
}

// forwardPipe is a stream of writes without a network. The tracker has this end of it, the learner has forwardEnd.
type forwardPipe struct {
	ctx      context.Context //nolint:containedctx // the context is the pipe's life, as a stream's is
	end      context.CancelCauseFunc
	welcome  chan uint64
	toNode   chan []session.WriteRefusal
	toLeader chan session.ForwardMessage
}

func newForwardPipe(ctx context.Context) *forwardPipe {
	ctx, end := context.WithCancelCause(ctx)
	return &forwardPipe{
		ctx: ctx, end: end, welcome: make(chan uint64, 1), toNode: make(chan []session.WriteRefusal, pipeDepth),
		toLeader: make(chan session.ForwardMessage, forwardDepth),
	}
}

// forwardDepth is the number of messages with writes that may wait for the tracker: some megabytes.
const forwardDepth = 4

func (p *forwardPipe) Welcome(term uint64) error               { return send(p.ctx, p.welcome, term) }
func (p *forwardPipe) Refuse(all []session.WriteRefusal) error { return send(p.ctx, p.toNode, all) }
func (p *forwardPipe) Recv() (session.ForwardMessage, error)   { return receive(p.ctx, p.toLeader) }

// forwardEnd is the learner's end of a forwardPipe.
type forwardEnd struct{ pipe *forwardPipe }

func (e forwardEnd) Send(m session.ForwardMessage) error {
	return send(e.pipe.ctx, e.pipe.toLeader, m)
}

func (e forwardEnd) Recv() ([]session.WriteRefusal, error) {
	return receive(e.pipe.ctx, e.pipe.toNode)
}

// Close ends the pipe in both directions.
func (e forwardEnd) Close() error { e.pipe.end(session.ErrClosed); return nil }
