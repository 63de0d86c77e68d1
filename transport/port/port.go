// Package port is the common part of the client port and the peer port: a gRPC server that bounds connections, calls
// and waiting bytes, and stops in order.
package port

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/secure"
	"holdfast/transport/wire"
)

const (
	// ConnectionTimeout is the time limit for the HTTP/2 setup of a new connection.
	ConnectionTimeout = 5 * time.Second
	// HardStopWait is the time that handlers have to end after their connections were closed.
	HardStopWait = 2 * time.Second
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 16 << 10
	// streamWindowBytes and connectionWindowBytes bound the bytes that a client may send ahead of the reader. gRPC's
	// own windows grow with the speed of the link, up to 16 MiB of unread bytes for each stream.
	streamWindowBytes, connectionWindowBytes = 256 << 10, 1 << 20
	// ReadTimeout is the longest time for which a client may read nothing while bytes wait for it.
	ReadTimeout = 30 * time.Second
)

// ErrHandlersLeft says that requests were still running some time after their connections were closed.
var ErrHandlersLeft = errors.New("requests did not end after their connections were closed")

// Limits bound what a port holds for its clients. 0 is no limit, but MessageBytes and StreamsPerConnection must be
// positive.
type Limits struct {
	// MessageBytes is the size of the largest message that a client may send.
	MessageBytes int
	// StreamsPerConnection is the largest number of calls in flight on one connection. Further calls wait.
	StreamsPerConnection int
	// Connections is the largest number of connections. One more evicts an idle connection or is refused.
	Connections int
	// ConnectionsPerAddress is the largest number of connections of one address.
	ConnectionsPerAddress int
	// Calls is the largest number of calls in flight on all connections. One more evicts an idle connection or is
	// refused.
	Calls int
	// WaitingBytes bounds the bytes of unread answers, requests in flight and incomplete messages, beyond the allowance
	// of the connections' sessions. Above the bound, the connections with most bytes end.
	WaitingBytes int
}

// Keepalive says when a port tests quiet connections.
type Keepalive struct {
	// Time is the time after which a quiet connection is tested, Timeout the time limit for the answer. gRPC permits no
	// Time below 1 s.
	Time, Timeout time.Duration
	// MinTime is the shortest interval at which a client may ping. A client that pings more often loses its connection.
	MinTime time.Duration
}

// Config configures a [Port].
type Config struct {
	Logger hclog.Logger
	// Credentials of the transport; nil uses the listener's TLS, if it has any.
	Credentials credentials.TransportCredentials
	Limits      Limits
	// RequestsPerStream is the largest number of requests in flight on one stream: the byte bound of each connection
	// includes them.
	RequestsPerStream int
	// ReadTimeout is the longest time for which a client may read nothing while bytes wait for it; default
	// [ReadTimeout].
	ReadTimeout time.Duration
	Keepalive   Keepalive
	// MaxIdle is the longest time for which a connection may have no stream; 0 is no limit.
	MaxIdle time.Duration
	// Authorizer, if set, authorizes each call that the port's limits admit. Its interceptors return domain errors.
	Authorizer Authorizer
	// State returns the node's state for refusals of calls and streams; nil: refusals carry no state.
	State func() *holdfastv1.NodeState
}

// Authorizer authorizes calls, around their handlers.
type Authorizer interface {
	Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error)
	Stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error
}

// open is the authorizer of a port without authorization.
type open struct{}

// Unary permits the call.
func (open) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(ctx, req)
}

// Stream permits the call.
func (open) Stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, s)
}

// Port is a gRPC server with bounds and an orderly end. It is a [grpc.ServiceRegistrar]: services are registered before
// Serve. Safe for concurrent use.
type Port struct {
	logger hclog.Logger
	grpc   *grpc.Server
	codec  codec
	// limiter assigns slots to connections and calls.
	limiter limiter
	// ledger bounds the waiting bytes of connections; nil: there is no bound.
	ledger *Ledger
	// readTimeout is the longest time for which a client may read nothing while bytes wait for it.
	readTimeout     time.Duration
	maxMessageBytes int
	state           func() *holdfastv1.NodeState
	authorizer      Authorizer

	// stopping is closed when Halt begins: streams end.
	stopping chan struct{}
	stop     sync.Once
	// pumps are the goroutines that read and write streams. They end a moment after the handler of their stream.
	pumps sync.WaitGroup

	counters
}

// counters count connections and calls.
type counters struct {
	// refusing is the number of refused connections that are being served, to refuse their calls with a reason.
	refusing atomic.Int64
	// refused counts refused connections, refusedPerAddress those among them whose address was at its own limit.
	refused, refusedPerAddress atomic.Uint64
	// evicted counts connections that were closed in favour of others.
	evicted              atomic.Uint64
	callsRefused, panics atomic.Uint64
}

// Stats are gauges and counters of a port.
type Stats struct {
	// Connections is the number of open connections, Calls of calls in flight on them.
	Connections, Calls int64
	// Refused counts connections refused because there were too many, RefusedCalls calls.
	Refused, RefusedCalls uint64
	// Evicted counts idle connections that were closed in favour of others.
	Evicted uint64
	// RefusedPerAddress counts the refused connections whose address was at its own limit.
	RefusedPerAddress uint64
	// Waiting is the number of waiting bytes, as [Limits.WaitingBytes] counts them.
	Waiting int64
	// Overfull counts connections that ended for their own waiting bytes, Relieved for the port's.
	Overfull, Relieved uint64
	// Panics counts handlers that panicked; each is a bug.
	Panics uint64
}

// New returns a port without services.
func New(c Config) *Port {
	p := &Port{
		logger:          c.Logger,
		codec:           newCodec(),
		limiter:         limiter{limits: c.Limits},
		readTimeout:     cmp.Or(c.ReadTimeout, ReadTimeout),
		maxMessageBytes: c.Limits.MessageBytes,
		state:           c.State,
		authorizer:      open{},
		stopping:        make(chan struct{}),
	}
	if c.Authorizer != nil {
		p.authorizer = c.Authorizer
	}
	if c.Limits.WaitingBytes > 0 {
		p.ledger = NewLedger(int64(c.Limits.WaitingBytes), c.RequestsPerStream)
	}
	if c.Credentials == nil {
		c.Credentials = secure.Credentials()
	}
	options := []grpc.ServerOption{
		grpc.Creds(c.Credentials),
		grpc.ConnectionTimeout(ConnectionTimeout),
		// Twice the limit, so that inspect can name the limit for a message slightly above: gRPC's own refusal has no
		// detail.
		grpc.MaxRecvMsgSize(2 * c.Limits.MessageBytes),
		grpc.MaxConcurrentStreams(uint32(c.Limits.StreamsPerConnection)),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ReadBufferSize(wire.ReadBufferBytes),
		grpc.WriteBufferSize(wire.WriteBufferBytes),
		grpc.StaticStreamWindowSize(streamWindowBytes),
		grpc.StaticConnWindowSize(connectionWindowBytes),
		grpc.ForceServerCodecV2(p.codec),
		grpc.KeepaliveParams(
			keepalive.ServerParameters{
				Time: c.Keepalive.Time, Timeout: c.Keepalive.Timeout, MaxConnectionIdle: c.MaxIdle,
			},
		),
		// gRPC's default closes the connection of a client that pings more often than every 5 minutes.
		grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: c.Keepalive.MinTime, PermitWithoutStream: true},
		),
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(p.Unary),
		grpc.StreamInterceptor(p.stream),
	}
	if c.Limits.Calls > 0 {
		options = append(options, grpc.InTapHandle(p.tap))
	}
	p.grpc = grpc.NewServer(options...)
	return p
}

// RegisterService adds a service, before Serve.
func (p *Port) RegisterService(desc *grpc.ServiceDesc, service any) {
	p.grpc.RegisterService(desc, service)
}

// GetServiceInfo returns the registered services, for gRPC's reflection.
func (p *Port) GetServiceInfo() map[string]grpc.ServiceInfo { return p.grpc.GetServiceInfo() }

// Serve accepts connections until Halt; the error is nil then. It closes listener.
func (p *Port) Serve(listener net.Listener) error {
	err := p.grpc.Serve(p.limit(listener))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Pump runs f, which reads or writes a stream, in a goroutine for which Halt waits.
func (p *Port) Pump(f func()) { p.pumps.Go(f) }

// Stopping is closed when Halt begins: streams end.
func (p *Port) Stopping() <-chan struct{} { return p.stopping }

// Halt ends streams, lets other requests finish until ctx ends, then closes every connection. It returns when no
// handler is left, or [ErrHandlersLeft] when some are left after a further wait.
func (p *Port) Halt(ctx context.Context) error {
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
	go p.grpc.Stop() // makes GracefulStop return; Stop itself waits for handlers
	last := time.NewTimer(HardStopWait)
	defer last.Stop()
	select {
	case <-ended:
		return nil
	case <-last.C:
		return ErrHandlersLeft
	}
}

// Stats returns the present gauges and counters.
func (p *Port) Stats() Stats {
	connections, calls := p.limiter.open()
	s := Stats{
		Connections: int64(connections), Calls: int64(calls),
		Refused: p.refused.Load(), RefusedCalls: p.callsRefused.Load(),
		Evicted: p.evicted.Load(), RefusedPerAddress: p.refusedPerAddress.Load(), Panics: p.panics.Load(),
	}
	if p.ledger != nil {
		s.Waiting = p.ledger.Waiting()
		s.Overfull, s.Relieved = p.ledger.ended[ofConnection].Load(), p.ledger.ended[ofNode].Load()
	}
	return s
}
