package port

import (
	"context"
	"errors"
	"runtime/debug"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Unary is the [grpc.UnaryServerInterceptor] of the port: it checks and counts the request, converts the handler's
// error to a status, and recovers from panics. It answers with a [Reply].
func (p *Port) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	next grpc.UnaryHandler,
) (answer any, err error) {
	defer func() { err = p.refusal(info.FullMethod, err) }()
	defer p.Recovered(info.FullMethod, &err)
	c, bytes := callOf(ctx), proto.Size(messageOf(req))
	c.speaks()
	c.conn.complete(bytes)
	if err = c.err(); err != nil {
		return nil, err
	}
	c.conn.SetBusy()
	defer c.conn.SetIdle()
	if err = p.inspect(messageOf(req), bytes); err != nil {
		return nil, err
	}
	if err = c.conn.Reserve(bytes); err != nil {
		return nil, err
	}
	defer c.conn.Add(-bytes)
	if answer, err = p.authorizer.Unary(traced(ctx), req, info, next); err != nil {
		return nil, err
	}
	return Reply{Message: messageOf(answer), account: c.conn.Account}, nil
}

// refusal converts the error of a handler to a status, and adds the node's state where refusals carry it.
func (p *Port) refusal(method string, err error) error {
	applied := wire.FromApplied(err)
	if err = p.answer(method, err); err == nil || p.state == nil || !wire.CarriesState(method) {
		return err
	}
	state := p.state()
	if applied {
		state.Mode = holdfastv1.Mode_MODE_READ_ONLY
	}
	return wire.WithState(err, state)
}

// traced returns the context of a call with its trace, from W3C's traceparent in its metadata.
func traced(ctx context.Context) context.Context {
	if header := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(header) == 1 {
		return session.WithTrace(ctx, session.ParseTrace(header[0]))
	}
	return ctx
}

// inspect refuses a message that could not be decoded, or is larger than the limit.
func (p *Port) inspect(m proto.Message, bytes int) error {
	if err := p.codec.unreadable(m); err != nil {
		return err
	}
	if bytes > p.maxMessageBytes {
		return &session.LimitError{Name: "max_message_bytes", Limit: strconv.Itoa(p.maxMessageBytes) +
			" bytes a message"}
	}
	return nil
}

// stream converts the errors of streams to statuses and recovers from panics. It ends the streams of gRPC's own
// services, such as a health watch, when the port stops.
func (p *Port) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() { err = p.refusal(info.FullMethod, err) }()
	defer p.Recovered(info.FullMethod, &err)
	c := callOf(s.Context())
	if err = c.err(); err != nil {
		return err
	}
	s = &measured{ServerStream: s, port: p, call: c}
	if wire.Ours(info.FullMethod) {
		// Connect and Follow call SetBusy and SetIdle themselves.
		if info.FullMethod != wire.ConnectMethod && info.FullMethod != wire.FollowMethod {
			c.conn.SetBusy()
			defer c.conn.SetIdle()
		}
		return p.authorizer.Stream(srv, s, info, next) // ends by itself, after the requests in flight
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	p.Pump(func() {
		select {
		case <-p.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	return p.authorizer.Stream(srv, stoppable{ServerStream: s, ctx: ctx}, info, next)
}

// measured is a stream that counts its messages, both ways.
type measured struct {
	grpc.ServerStream
	port *Port
	call *call
	// next is the message that RecvMsg receives. It belongs to the goroutine that receives.
	next received
}

// RecvMsg receives the next message, or a LimitError for a message that is too large.
func (m *measured) RecvMsg(msg any) error {
	m.next.message = messageOf(msg)
	defer func() { m.next.message = nil }() // a quiet stream keeps nothing
	if err := m.ServerStream.RecvMsg(&m.next); err != nil {
		return err
	}
	m.call.speaks()
	m.call.conn.complete(m.next.bytes)
	return m.port.inspect(m.next.message, m.next.bytes)
}

// SendMsg sends a message, which counts on the connection until it is written.
func (m *measured) SendMsg(msg any) error {
	if a, ok := msg.(Appender); ok {
		return m.ServerStream.SendMsg(written{a, m.call.conn.Account})
	}
	return m.ServerStream.SendMsg(Reply{Message: messageOf(msg), account: m.call.conn.Account})
}

// stoppable is a stream whose context ends when the port stops.
type stoppable struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // this is how gRPC hands a stream its context
}

// Context returns the stream's context.
func (s stoppable) Context() context.Context { return s.ctx }

// answer converts err once: a status stays unchanged, a domain error becomes a status.
func (p *Port) answer(method string, err error) error {
	if err == nil {
		return nil
	}
	if st, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		// Only err itself may be a status: a wrapped status is not meant for the client.
		return st.GRPCStatus().Err()
	}
	p.Note(method, err)
	return wire.Status(err)
}

// Note logs an error that is not reported to the client. It counts a panic, and logs it with its stack.
func (p *Port) Note(method string, err error) {
	panicked, ok := errors.AsType[*session.PanicError](err)
	switch {
	case errors.Is(err, errPanic): // counted and logged where it was recovered
	case ok:
		p.panicked(method, panicked)
	case wire.Code(err) == codes.Internal:
		p.logger.Error("request met an unexpected error", "method", method, "error", err)
	}
}

// errPanic is the error of a request whose handler panicked. The panic has been counted and logged.
var errPanic = errors.New("panic while serving a request")

// Recovered turns a panic of the calling function into errPanic, counted and logged with its stack.
func (p *Port) Recovered(method string, err *error) {
	if r := recover(); r != nil {
		p.panicked(method, &session.PanicError{Value: r, Stack: debug.Stack()})
		*err = errPanic
	}
}

// panicked counts and logs the panic of a request.
func (p *Port) panicked(method string, e *session.PanicError) {
	p.panics.Add(1)
	p.logger.Error("panic while serving a request", "method", method, "panic", e.Value, "stack", string(e.Stack))
}
