package transport

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

const (
	// connectionTimeout is how long a new connection may take to become one of HTTP/2.
	connectionTimeout = 5 * time.Second
	// hardStopWait is how long handlers may take to end after their connections were closed under them.
	hardStopWait = 2 * time.Second
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 16 << 10
	// streamWindowBytes and connectionWindowBytes are how much of what a client sends may be under way. gRPC's own windows grow with the
	// speed of the link, up to 16 MiB a stream that may wait unread.
	streamWindowBytes, connectionWindowBytes = 256 << 10, 1 << 20
	// readPatience is how long a client may take nothing of what is written to it.
	readPatience = 30 * time.Second
)

// ErrHandlersLeft says that requests were still being served a while after their connections were closed.
var ErrHandlersLeft = errors.New("requests did not end after their connections were closed")

// port is what the client port and the peer port have in common: a gRPC server with bounds, and its end.
type port struct {
	logger hclog.Logger
	grpc   *grpc.Server
	codec  codec
	// crowd gives connections and calls their places.
	crowd crowd
	// ledger bounds what waits on connections; nil: nothing does.
	ledger *ledger
	// patience is how long a client may take nothing of what is written to it.
	patience time.Duration
	// maxMessageBytes bounds a message from the other side.
	maxMessageBytes int
	// state is told by refusals of unary calls that tell it; nil: none does.
	state func() *holdfastv1.NodeState

	// stopping is closed when Stop begins: streams end.
	stopping chan struct{}
	// ended is closed when streams are to end, and calls are served still.
	ended   chan struct{}
	endOnce sync.Once
	stop    sync.Once
	// pumps are the goroutines that read and write streams. They end a moment after the handler of their stream.
	pumps sync.WaitGroup

	portCounters
}

// portCounters count connections and calls.
type portCounters struct {
	// told are connections that are served to be told why they have no place.
	told atomic.Int64
	// refused are connections, crowded those of them for their address; evicted made room for others.
	refused, crowded, evicted atomic.Uint64
	callsRefused              atomic.Uint64
	panics                    atomic.Uint64
}

// portConfig is what New*Server make a port of.
type portConfig struct {
	logger                                hclog.Logger
	credentials                           credentials.TransportCredentials
	maxMessageBytes                       int
	maxStreams                            int
	maxConnections                        int
	maxPerAddress                         int // connections; 0 is no limit
	maxCalls                              int // under way on all connections; 0 is no limit
	maxWaiting, maxRequests               int // bytes of all, 0 is no limit; requests under way on a stream
	patience                              time.Duration
	keepaliveTime, keepaliveTimeout, ping time.Duration
	maxIdle                               time.Duration // how long a connection may have no stream; 0 is for ever
	state                                 func() *holdfastv1.NodeState
}

func newPort(c portConfig) *port {
	p := &port{
		logger:          c.logger,
		codec:           newCodec(),
		crowd:           crowd{limits: crowdLimits{connections: c.maxConnections, perAddress: c.maxPerAddress, calls: c.maxCalls}},
		maxMessageBytes: c.maxMessageBytes,
		patience:        or(c.patience, readPatience),
		state:           c.state,
		stopping:        make(chan struct{}),
		ended:           make(chan struct{}),
	}
	if c.maxWaiting > 0 {
		p.ledger = newLedger(int64(c.maxWaiting), c.maxRequests)
	}
	if c.credentials == nil {
		c.credentials = insecure.NewCredentials()
	}
	options := []grpc.ServerOption{
		grpc.Creds(c.credentials),
		grpc.ConnectionTimeout(connectionTimeout),
		// Twice the limit, so that a message a little above it is refused by name: gRPC's own refusal has no detail.
		grpc.MaxRecvMsgSize(2 * c.maxMessageBytes),
		grpc.MaxConcurrentStreams(uint32(c.maxStreams)),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ReadBufferSize(readBufferBytes),
		grpc.WriteBufferSize(writeBufferBytes),
		grpc.StaticStreamWindowSize(streamWindowBytes),
		grpc.StaticConnWindowSize(connectionWindowBytes),
		grpc.ForceServerCodecV2(p.codec),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: c.keepaliveTime, Timeout: c.keepaliveTimeout, MaxConnectionIdle: c.maxIdle}),
		// gRPC's own default closes the connection of a client that pings more often than every 5 minutes.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: c.ping, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(p.unary),
		grpc.StreamInterceptor(p.stream),
	}
	if c.maxCalls > 0 {
		options = append(options, grpc.InTapHandle(p.tap))
	}
	p.grpc = grpc.NewServer(options...)
	return p
}

// serve accepts connections until Stop; the error is nil then. It closes listener.
func (p *port) serve(listener net.Listener) error {
	err := p.grpc.Serve(p.limit(listener))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// halt ends streams, lets other requests finish until ctx ends, then closes every connection. It returns when no handler
// is left, or [ErrHandlersLeft] when some are left a while after that.
func (p *port) halt(ctx context.Context) error {
	p.stop.Do(func() { close(p.stopping) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.grpc.GracefulStop()
		p.pumps.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	go p.grpc.Stop() // makes GracefulStop return; itself it waits for handlers
	last := time.NewTimer(hardStopWait)
	defer last.Stop()
	select {
	case <-ended:
		return nil
	case <-last.C:
		return ErrHandlersLeft
	}
}

// unary maps the errors of unary calls, and recovers.
func (p *port) unary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		applied := fromApplied(err)
		if err = p.answer(call.FullMethod, err); err != nil && p.state != nil && tellsState(call.FullMethod) {
			state := p.state()
			if applied {
				state.Mode = holdfastv1.Mode_MODE_READ_ONLY
			}
			err = withState(err, state)
		}
	}()
	defer p.recovered(call.FullMethod, &err)
	c, bytes := callOf(ctx), proto.Size(messageOf(req))
	c.speaks()
	wire := c.wire
	wire.complete(bytes)
	if err = c.err(); err != nil {
		return nil, err
	}
	p.crowd.engage(&wire.seat)
	defer p.crowd.disengage(&wire.seat)
	if err = p.inspect(messageOf(req), bytes); err != nil {
		return nil, err
	}
	if err = wire.reserve(bytes); err != nil {
		return nil, err
	}
	defer wire.add(-bytes)
	if answer, err = next(ctx, req); err != nil {
		return nil, err
	}
	return parcel{message: messageOf(answer), account: wire.account}, nil
}

// inspect refuses a message that could not be read, or is larger than the limit.
func (p *port) inspect(m proto.Message, bytes int) error {
	if err := p.codec.unreadable(m); err != nil {
		return err
	}
	if bytes > p.maxMessageBytes {
		return &session.LimitError{Name: "max_message_bytes", Limit: strconv.Itoa(p.maxMessageBytes) + " bytes a message"}
	}
	return nil
}

// measured is a stream whose messages are measured, both ways.
type measured struct {
	grpc.ServerStream
	port *port
	call *inbound
}

// RecvMsg receives the next message, or a LimitError for one that is too large.
func (m measured) RecvMsg(msg any) error {
	if err := m.ServerStream.RecvMsg(msg); err != nil {
		return err
	}
	bytes := proto.Size(messageOf(msg))
	m.call.speaks()
	m.call.wire.complete(bytes)
	return m.port.inspect(messageOf(msg), bytes)
}

// SendMsg sends a message, which counts on the connection until it is written.
func (m measured) SendMsg(msg any) error {
	return m.ServerStream.SendMsg(parcel{message: messageOf(msg), account: m.call.wire.account})
}

// stream maps the errors of streams, recovers, and ends streams of others, such as a health watch, when the port stops.
func (p *port) stream(srv any, s grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() { err = p.answer(call.FullMethod, err) }()
	defer p.recovered(call.FullMethod, &err)
	c := callOf(s.Context())
	if err = c.err(); err != nil {
		return err
	}
	s = measured{ServerStream: s, port: p, call: c}
	if ours(call.FullMethod) {
		if call.FullMethod != connectMethod && call.FullMethod != followMethod { // which say themselves when they serve something
			p.crowd.engage(&c.wire.seat)
			defer p.crowd.disengage(&c.wire.seat)
		}
		return next(srv, s) // ends by itself, after the requests that are under way
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	p.pumps.Go(func() {
		select {
		case <-p.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	return next(srv, stoppable{ServerStream: s, ctx: ctx})
}

// answer maps err once: a status stays as it is, a domain error becomes one.
func (p *port) answer(method string, err error) error {
	if err == nil {
		return nil
	}
	if st, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		// Only a status itself: one that something else wraps is not ours to tell.
		return st.GRPCStatus().Err()
	}
	p.note(method, err)
	return Status(err)
}

// note logs an error of which the client learns nothing.
func (p *port) note(method string, err error) {
	if Code(err) == codes.Internal {
		p.logger.Error("request met an unexpected error", "method", method, "error", err)
	}
}

// errPanic is what a panic in a handler is answered as.
var errPanic = errors.New("panic while serving a request")

// recovered turns a panic of the calling function into errPanic, logged with its stack.
func (p *port) recovered(method string, err *error) {
	if r := recover(); r != nil {
		p.panics.Add(1)
		p.logger.Error("panic while serving a request", "method", method, "panic", r, "stack", string(debug.Stack()))
		*err = errPanic
	}
}

// stoppable is a stream whose context ends when the port stops.
type stoppable struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // this is how gRPC hands a stream its context
}

// Context returns the stream's context.
func (s stoppable) Context() context.Context { return s.ctx }
