// Package port is what the client port and the peer port have in common: a gRPC server that bounds connections, calls
// and waiting bytes, and ends in order.
package port

import (
	"cmp"
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
	"holdfast/transport/wire"
)

const (
	// ConnectionTimeout is how long a new connection may take to become one of HTTP/2.
	ConnectionTimeout = 5 * time.Second
	// HardStopWait is how long handlers may take to end after their connections were closed under them.
	HardStopWait = 2 * time.Second
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 16 << 10
	// streamWindowBytes and connectionWindowBytes are how much of what a client sends may be under way. gRPC's own
	// windows grow with the speed of the link, up to 16 MiB a stream that may wait unread.
	streamWindowBytes, connectionWindowBytes = 256 << 10, 1 << 20
	// ReadPatience is how long a client may take nothing of what is written to it.
	ReadPatience = 30 * time.Second
)

// ErrHandlersLeft says that requests were still being served a while after their connections were closed.
var ErrHandlersLeft = errors.New("requests did not end after their connections were closed")

// Port is what the client port and the peer port have in common: a gRPC server with bounds, and its end.
type Port struct {
	Logger hclog.Logger
	Grpc   *grpc.Server
	Codec  codec
	// Crowd gives connections and calls their places.
	Crowd Crowd
	// Ledger bounds what waits on connections; nil: nothing does.
	Ledger *ledger
	// patience is how long a client may take nothing of what is written to it.
	patience time.Duration
	// MaxMessageBytes bounds a message from the other side.
	MaxMessageBytes int
	// State is told by refusals of unary calls that tell it; nil: none does.
	State func() *holdfastv1.NodeState

	// Stopping is closed when Stop begins: streams end.
	Stopping chan struct{}
	// Ended is closed when streams are to end, and calls are served still.
	Ended   chan struct{}
	EndOnce sync.Once
	stop    sync.Once
	// Pumps are the goroutines that read and write streams. They end a moment after the handler of their stream.
	Pumps sync.WaitGroup

	portCounters
}

// portCounters count connections and calls.
type portCounters struct {
	// Told are connections that are served to be told why they have no place.
	Told atomic.Int64
	// Refused are connections, crowded those of them for their address; evicted made room for others.
	Refused, Crowded, Evicted atomic.Uint64
	CallsRefused              atomic.Uint64
	Panics                    atomic.Uint64
}

// Config is what New*Server make a port of.
type Config struct {
	Logger                                hclog.Logger
	Credentials                           credentials.TransportCredentials
	MaxMessageBytes                       int
	MaxStreams                            int
	MaxConnections                        int
	MaxPerAddress                         int // connections; 0 is no limit
	MaxCalls                              int // under way on all connections; 0 is no limit
	MaxWaiting, MaxRequests               int // bytes of all, 0 is no limit; requests under way on a stream
	Patience                              time.Duration
	KeepaliveTime, KeepaliveTimeout, Ping time.Duration
	MaxIdle                               time.Duration // how long a connection may have no stream; 0 is for ever
	State                                 func() *holdfastv1.NodeState
}

// New returns a port that serves nothing yet.
func New(c Config) *Port {
	p := &Port{
		Logger: c.Logger,
		Codec:  NewCodec(),
		Crowd: Crowd{
			Limits: CrowdLimits{Connections: c.MaxConnections, PerAddress: c.MaxPerAddress, Calls: c.MaxCalls},
		},
		MaxMessageBytes: c.MaxMessageBytes,
		patience:        cmp.Or(c.Patience, ReadPatience),
		State:           c.State,
		Stopping:        make(chan struct{}),
		Ended:           make(chan struct{}),
	}
	if c.MaxWaiting > 0 {
		p.Ledger = NewLedger(int64(c.MaxWaiting), c.MaxRequests)
	}
	if c.Credentials == nil {
		c.Credentials = insecure.NewCredentials()
	}
	options := []grpc.ServerOption{
		grpc.Creds(c.Credentials),
		grpc.ConnectionTimeout(ConnectionTimeout),
		// Twice the limit, so that a message a little above it is refused by name: gRPC's own refusal has no detail.
		grpc.MaxRecvMsgSize(2 * c.MaxMessageBytes),
		grpc.MaxConcurrentStreams(uint32(c.MaxStreams)),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ReadBufferSize(wire.ReadBufferBytes),
		grpc.WriteBufferSize(wire.WriteBufferBytes),
		grpc.StaticStreamWindowSize(streamWindowBytes),
		grpc.StaticConnWindowSize(connectionWindowBytes),
		grpc.ForceServerCodecV2(p.Codec),
		grpc.KeepaliveParams(
			keepalive.ServerParameters{
				Time: c.KeepaliveTime, Timeout: c.KeepaliveTimeout, MaxConnectionIdle: c.MaxIdle,
			},
		),
		// gRPC's own default closes the connection of a client that pings more often than every 5 minutes.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: c.Ping, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(p.Unary),
		grpc.StreamInterceptor(p.stream),
	}
	if c.MaxCalls > 0 {
		options = append(options, grpc.InTapHandle(p.tap))
	}
	p.Grpc = grpc.NewServer(options...)
	return p
}

// Serve accepts connections until Stop; the error is nil then. It closes listener.
func (p *Port) Serve(listener net.Listener) error {
	err := p.Grpc.Serve(p.limit(listener))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Halt ends streams, lets other requests finish until ctx ends, then closes every connection. It returns when no
// handler is left, or [ErrHandlersLeft] when some are left a while after that.
func (p *Port) Halt(ctx context.Context) error {
	p.stop.Do(func() { close(p.Stopping) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Grpc.GracefulStop()
		p.Pumps.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	go p.Grpc.Stop() // makes GracefulStop return; itself it waits for handlers
	last := time.NewTimer(HardStopWait)
	defer last.Stop()
	select {
	case <-ended:
		return nil
	case <-last.C:
		return ErrHandlersLeft
	}
}

// Unary maps the errors of unary calls, and recovers.
func (p *Port) Unary(ctx context.Context, req any, call *grpc.UnaryServerInfo,
	next grpc.UnaryHandler,
) (answer any, err error) {
	defer func() {
		applied := wire.FromApplied(err)
		if err = p.answer(call.FullMethod, err); err != nil && p.State != nil && wire.TellsState(call.FullMethod) {
			state := p.State()
			if applied {
				state.Mode = holdfastv1.Mode_MODE_READ_ONLY
			}
			err = wire.WithState(err, state)
		}
	}()
	defer p.Recovered(call.FullMethod, &err)
	c, bytes := callOf(ctx), proto.Size(messageOf(req))
	c.speaks()
	own := c.wire
	own.Complete(bytes)
	if err = c.err(); err != nil {
		return nil, err
	}
	p.Crowd.Engage(&own.Seat)
	defer p.Crowd.Disengage(&own.Seat)
	if err = p.inspect(messageOf(req), bytes); err != nil {
		return nil, err
	}
	if err = own.Reserve(bytes); err != nil {
		return nil, err
	}
	defer own.Add(-bytes)
	if answer, err = next(ctx, req); err != nil {
		return nil, err
	}
	return Parcel{Message: messageOf(answer), account: own.Account}, nil
}

// inspect refuses a message that could not be read, or is larger than the limit.
func (p *Port) inspect(m proto.Message, bytes int) error {
	if err := p.Codec.Unreadable(m); err != nil {
		return err
	}
	if bytes > p.MaxMessageBytes {
		return &session.LimitError{Name: "max_message_bytes", Limit: strconv.Itoa(p.MaxMessageBytes) +
			" bytes a message"}
	}
	return nil
}

// measured is a stream whose messages are measured, both ways.
type measured struct {
	grpc.ServerStream
	port *Port
	call *inbound
}

// RecvMsg receives the next message, or a LimitError for one that is too large.
func (m measured) RecvMsg(msg any) error {
	if err := m.ServerStream.RecvMsg(msg); err != nil {
		return err
	}
	bytes := proto.Size(messageOf(msg))
	m.call.speaks()
	m.call.wire.Complete(bytes)
	return m.port.inspect(messageOf(msg), bytes)
}

// SendMsg sends a message, which counts on the connection until it is written.
func (m measured) SendMsg(msg any) error {
	return m.ServerStream.SendMsg(Parcel{Message: messageOf(msg), account: m.call.wire.Account})
}

// stream maps the errors of streams, recovers, and ends streams of others, such as a health watch, when the port stops.
func (p *Port) stream(srv any, s grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() { err = p.answer(call.FullMethod, err) }()
	defer p.Recovered(call.FullMethod, &err)
	c := callOf(s.Context())
	if err = c.err(); err != nil {
		return err
	}
	s = measured{ServerStream: s, port: p, call: c}
	if wire.Ours(call.FullMethod) {
		// which say themselves when they serve something
		if call.FullMethod != wire.ConnectMethod && call.FullMethod != wire.FollowMethod {
			p.Crowd.Engage(&c.wire.Seat)
			defer p.Crowd.Disengage(&c.wire.Seat)
		}
		return next(srv, s) // ends by itself, after the requests that are under way
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	p.Pumps.Go(func() {
		select {
		case <-p.Stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	return next(srv, stoppable{ServerStream: s, ctx: ctx})
}

// answer maps err once: a status stays as it is, a domain error becomes one.
func (p *Port) answer(method string, err error) error {
	if err == nil {
		return nil
	}
	if st, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		// Only a status itself: one that something else wraps is not ours to tell.
		return st.GRPCStatus().Err()
	}
	p.Note(method, err)
	return wire.Status(err)
}

// Note logs an error of which the client learns nothing.
func (p *Port) Note(method string, err error) {
	if wire.Code(err) == codes.Internal {
		p.Logger.Error("request met an unexpected error", "method", method, "error", err)
	}
}

// errPanic is what a panic in a handler is answered as.
var errPanic = errors.New("panic while serving a request")

// Recovered turns a panic of the calling function into errPanic, logged with its stack.
func (p *Port) Recovered(method string, err *error) {
	if r := recover(); r != nil {
		p.Panics.Add(1)
		p.Logger.Error("panic while serving a request", "method", method, "panic", r, "stack", string(debug.Stack()))
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
