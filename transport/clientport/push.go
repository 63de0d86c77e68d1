package clientport

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"holdfast/session"
	"holdfast/transport/port"
)

// timedSender sends messages of a stream. It gives up on a client that reads no message for too long, as [outbox] does.
type timedSender struct {
	send    func(proto.Message) error
	timeout time.Duration
	late    *time.Timer
	// before is the size of the previous message: gRPC accepts a message when the previous one has gone.
	before int
	once   sync.Once
	// stuck is closed when the client has read nothing for too long.
	stuck chan struct{}
}

func newTimedSender(timeout time.Duration, send func(proto.Message) error) *timedSender {
	p := &timedSender{send: send, timeout: timeout, stuck: make(chan struct{})}
	p.late = time.AfterFunc(timeout, func() { p.once.Do(func() { close(p.stuck) }) })
	p.late.Stop()
	return p
}

// deliver sends a message.
func (p *timedSender) deliver(m proto.Message) error {
	p.late.Reset(p.timeout + slowness(p.before))
	defer p.late.Stop()
	p.before = proto.Size(m)
	return p.send(m)
}

// slowness is the extra time that a client gets to read the given number of bytes.
func slowness(bytes int) time.Duration { return time.Duration(bytes) * time.Second / minReadRate }

// sendTimeoutError is the error that ends the stream of a client that reads nothing.
func sendTimeoutError(timeout time.Duration) *session.LimitError {
	return &session.LimitError{
		Name: "outgoing_timeout",
		Limit: fmt.Sprintf("%v, and a second for each %d KiB of a message, in which the client has not read it",
			timeout, minReadRate>>10),
	}
}

// push serves a stream on which only the node sends: the callback serve sends messages until it returns, or until the
// node or the client ends the stream. The callback has a goroutine of its own, because a send to a client that does not
// read ends only after the handler.
func (s *sessionServer) push(ctx context.Context, method string, send func(proto.Message) error,
	serve func(ctx context.Context, send func(proto.Message) error) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	network, p, served := port.ConnOf(ctx), newTimedSender(s.cfg.ReadTimeout, send), make(chan error, 1)
	s.port.Pump(func() {
		served <- func() (err error) {
			defer s.port.Recovered(method, &err)
			return serve(ctx, p.deliver)
		}()
	})
	select {
	case err := <-served:
		return err
	case <-p.stuck:
		s.stats.slowReaders.Add(1)
		return sendTimeoutError(s.cfg.ReadTimeout)
	case <-network.Condemned():
		s.stats.slowReaders.Add(1)
		return network.Err()
	case <-s.port.Stopping():
		return session.ErrStopping
	case <-s.streamsEnd:
		return session.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}
