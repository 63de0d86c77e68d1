// Package stream runs the Connect streams of a client: a connection to one node each, a goroutine that receives and one
// that sends.
package stream

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// Listener hears what becomes of a stream: that it is up, its messages, and its end, which comes once and last. Calls
// come from one goroutine, which waits for each to return. Their context ends when the stream is closed: a call made
// then has nothing to say any more, and must return.
type Listener interface {
	Up(ctx context.Context)
	Received(ctx context.Context, m *holdfastv1.ServerMessage)
	Down(ctx context.Context, err error)
}

// Stream is one Connect stream.
type Stream struct {
	cancel context.CancelFunc
	out    chan *holdfastv1.ClientMessage
}

// Start connects to address, and lets listener hear what becomes of that, in goroutines that running counts.
func Start(ctx context.Context, running *sync.WaitGroup, address string, o dial.Options, listener Listener) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{cancel: cancel, out: make(chan *holdfastv1.ClientMessage, window.MaxRequests+window.MaxTouches)}
	running.Go(func() {
		defer cancel()
		listener.Down(ctx, s.serve(ctx, running, address, o, listener))
	})
	return s
}

// Send queues a message. There is room for all that may wait for an answer, so Send does not wait for a slow node.
func (s *Stream) Send(m *holdfastv1.ClientMessage) { s.out <- m }

// Close ends the stream, and the context that its listener is given. It does not wait for the stream's goroutines.
func (s *Stream) Close() { s.cancel() }

// serve runs the stream until it ends. The error is never nil.
func (s *Stream) serve(ctx context.Context, running *sync.WaitGroup, address string, o dial.Options,
	listener Listener,
) error {
	cc, err := dial.Client(address, o)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }() // the stream has ended: there is nothing left to lose
	connect, err := holdfastv1.NewSessionServiceClient(cc).Connect(ctx)
	if err != nil {
		return reason(err)
	}
	listener.Up(ctx)
	running.Go(func() { send(ctx, connect, s.out) })
	for {
		m, err := connect.Recv()
		if err != nil {
			return reason(err)
		}
		listener.Received(ctx, m)
	}
}

// reason returns why a stream ended.
func reason(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("node ended the connection")
	}
	if domain := wire.Domain(err); domain != err { //nolint:errorlint // asks whether Domain found something to say
		return domain
	}
	return errors.New(status.Convert(err).Message())
}

// send writes what is queued. A stream that takes no more has ended, which the receiver tells.
func send(ctx context.Context, to grpc.BidiStreamingClient[holdfastv1.ClientMessage, holdfastv1.ServerMessage],
	out <-chan *holdfastv1.ClientMessage,
) {
	for {
		select {
		case m := <-out:
			if to.Send(m) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
