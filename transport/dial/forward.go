package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// ForwardLink is a node's end of a Forward stream. Send and Recv may each be called by one goroutine at a time, Close
// by any.
type ForwardLink struct {
	conn   *grpc.ClientConn
	stream peerv1.PeerService_ForwardClient
	cancel context.CancelCauseFunc
}

// Forward opens a Forward stream to the leader that l follows, and returns once the leader has welcomed it. The stream
// has its own connection, so that writes delay no heartbeat (W1 path of a write). It ends with l's stream. A node that
// no longer leads the term returns a [session.NotLeaderError], and a silent node context.DeadlineExceeded. Safe for
// concurrent use.
func (l *PeerLink) Forward() (*ForwardLink, error) {
	conn, err := connectPeer(l.config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(l.stream.Context())
	timeout := cmp.Or(l.config.HelloTimeout, wire.HelloTimeout)
	timer := time.AfterFunc(timeout, func() {
		cancel(fmt.Errorf("waiting %s for the leader's welcome: %w", timeout, context.DeadlineExceeded))
	})
	link := &ForwardLink{conn: conn, cancel: cancel}
	err = link.begin(ctx, l.config.ClusterID, session.ForwardHello{
		Node: l.hello.Node, Incarnation: l.hello.Incarnation, Term: l.term,
	})
	if !timer.Stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return link, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, errors.Join(fmt.Errorf("forwarding to %s: %w", l.config.Address, err), link.Close())
}

func (l *ForwardLink) begin(ctx context.Context, clusterID string, hello session.ForwardHello) error {
	stream, err := peerv1.NewPeerServiceClient(l.conn).Forward(ctx)
	if err != nil {
		return wire.Domain(err)
	}
	l.stream = stream
	// A failed Send says only that the stream has ended; Recv returns the reason.
	if err = stream.Send(wire.ForwardHelloProto(clusterID, hello)); err != nil && !errors.Is(err, io.EOF) {
		return wire.Domain(err)
	}
	first, err := stream.Recv()
	if err != nil {
		return wire.Domain(err)
	}
	term, err := wire.ForwardWelcomeFrom(first)
	if err == nil && term != hello.Term {
		err = &session.FieldError{Field: "welcome.term", Limit: fmt.Sprintf("%d, as in the hello", hello.Term)}
	}
	return err
}

// Send sends a message to the leader. It waits while the leader reads nothing, at most for [PeerConfig.Silence]. An
// error ends the stream; Recv returns why the stream ended.
func (l *ForwardLink) Send(m session.ForwardMessage) error {
	if err := l.stream.Send(wire.ForwardProto(m)); err != nil {
		return fmt.Errorf("sending writes to the leader: %w", wire.Domain(err))
	}
	return nil
}

// Recv returns the next writes that the leader refuses, or the domain error that ended the stream. It returns io.EOF
// when the leader ended the stream without an error. An invalid message ends the stream.
func (l *ForwardLink) Recv() ([]session.WriteRefusal, error) {
	p, err := l.stream.Recv()
	if err != nil {
		return nil, wire.Domain(err)
	}
	all, err := wire.WriteRefusalsFrom(p)
	if err != nil {
		err = fmt.Errorf("reading refusals of the leader: %w", err)
		l.cancel(err)
		return nil, err
	}
	return all, nil
}

// Close ends the stream and its connection.
func (l *ForwardLink) Close() error {
	l.cancel(session.ErrClosed)
	return l.conn.Close()
}
