// Package port is what the client port and the peer port have in common: a gRPC server that bounds connections, calls
// and waiting bytes, and ends in order.
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
	// ConnectionTimeout is how long a new connection may take to set up HTTP/2.
	ConnectionTimeout = 5 * time.Second
	// HardStopWait is how long handlers may take to end after their connections were closed.
	HardStopWait = 2 * time.Second
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 16 << 10
	// streamWindowBytes and connectionWindowBytes bound what a client may send ahead of the reader. gRPC's own windows
	// grow with the speed of the link, up to 16 MiB a stream that may wait unread.
	streamWindowBytes, connectionWindowBytes = 256 << 10, 1 << 20
	// ReadPatience is how long a client may take nothing of what is written to it.
	ReadPatience = 30 * time.Second
)

// ErrHandlersLeft says that requests were still being served a while after their connections were closed.
var ErrHandlersLeft = errors.New("requests did not end after their connections were closed")

// Limits bound what clients may make a port hold. 0 is no limit, but for MessageBytes and StreamsPerConnection, which
// must be positive.
type Limits struct {
	// MessageBytes is the size of the largest message that a client may send.
	MessageBytes int
	// StreamsPerConnection is the number of calls under way on one connection. Further calls wait.
	StreamsPerConnection int
	// Connections is the number of connections. One more evicts an idle connection or is refused.
	Connections int
	// ConnectionsPerAddress is the number of connections of one address.
	ConnectionsPerAddress int
	// Calls is the number of calls under way on all connections. One more evicts an idle connection or is refused.
	Calls int
	// WaitingBytes is how many bytes of unread answers, requests under way and incomplete messages the port holds,
	// beyond what the sessions of connections account for. Above it the connections that hold most end.
	WaitingBytes int
}

// Keepalive says when a port tests quiet connections.
type Keepalive struct {
	// Time is how long a connection is quiet before it is tested, Timeout how long the answer may take. gRPC allows no
	// Time below 1 s.
	Time, Timeout time.Duration
	// MinTime is the shortest interval at which a client may ping. A client that pings more often loses its connection.
	MinTime time.Duration
}

// Config configures a [Port].
type Config struct {
	Logger hclog.Logger
	// Credentials of the transport; nil takes TLS from the listener, if that has TLS.
	Credentials credentials.TransportCredentials
	Limits      Limits
	// RequestsPerStream is how many requests may be under way on one stream: each connection has room for them.
	RequestsPerStream int
	// Patience is how long a client may take nothing of what is written to it; default [ReadPatience].
	Patience  time.Duration
	Keepalive Keepalive
	// MaxIdle is how long a connection may have no stream; 0 is for ever.
	MaxIdle time.Duration
	// Guard, when set, decides about each call once the port has room for it. Its interceptors return domain errors.
	Guard Guard
	// State is the node's state, which refusals of calls and streams carry; nil: none does.
	State func() *holdfastv1.NodeState
}

// Guard decides about calls, around their handlers.
type Guard interface {
	Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error)
	Stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error
}

// open is the guard of a port that has none.
type open struct{}

// Unary lets the call through.
func (open) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(ctx, req)
}

// Stream lets the call through.
func (open) Stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, s)
}

// Port is a gRPC server with bounds and an orderly end. It is a [grpc.ServiceRegistrar]: services are registered before
// Serve. Safe for concurrent use.
type Port struct {
	logger hclog.Logger
	grpc   *grpc.Server
	codec  codec
	// limiter gives connections and calls their slots.
	limiter limiter
	// ledger bounds the waiting bytes of connections; nil: there is no bound.
	ledger *Ledger
	// patience is how long a client may take nothing of what is written to it.
	patience        time.Duration
	maxMessageBytes int
	state           func() *holdfastv1.NodeState
	guard           Guard

	// stopping is closed when Halt begins: streams end.
	stopping chan struct{}
	stop     sync.Once
	// pumps are the goroutines that read and write streams. They end a moment after the handler of their stream.
	pumps sync.WaitGroup

	counters
}

// counters count connections and calls.
type counters struct {
	// refusing is how many refused connections are served now, until their calls were refused with a reason.
	refusing atomic.Int64
	// refused counts refused connections, refusedPerAddress those of them whose address was at its own limit.
	refused, refusedPerAddress atomic.Uint64
	// evicted counts connections that made room for others.
	evicted              atomic.Uint64
	callsRefused, panics atomic.Uint64
}

// Stats are gauges and counters of a port.
type Stats struct {
	// Connections are open now, Calls under way on them.
	Connections, Calls int64
	// Refused counts connections refused because there were too many, RefusedCalls calls.
	Refused, RefusedCalls uint64
	// Evicted counts idle connections that made room for others.
	Evicted uint64
	// RefusedPerAddress counts the refused connections whose address was at its own limit.
	RefusedPerAddress uint64
	// Waiting is how many bytes wait, as [Limits.WaitingBytes] counts them.
	Waiting int64
	// Overfull counts connections ended for their own waiting bytes, Relieved those ended for the port's.
	Overfull, Relieved uint64
	// Panics counts handlers that panicked; each is a fault of the program.
	Panics uint64
}

// New returns a port that serves nothing yet.
func New(c Config) *Port {
	p := &Port{
		logger:          c.Logger,
		codec:           newCodec(),
		limiter:         limiter{limits: c.Limits},
		patience:        cmp.Or(c.Patience, ReadPatience),
		maxMessageBytes: c.Limits.MessageBytes,
		state:           c.State,
		guard:           open{},
		stopping:        make(chan struct{}),
	}
	if c.Guard != nil {
		p.guard = c.Guard
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
		// Twice the limit, so that inspect refuses a message a little above it by name: gRPC's own refusal has no detail.
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
		// gRPC's own default closes the connection of a client that pings more often than every 5 minutes.
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

// GetServiceInfo returns the registered services: gRPC's reflection asks for them.
func (p *Port) GetServiceInfo() map[string]grpc.ServiceInfo { return p.grpc.GetServiceInfo() }

// Serve accepts connections until Halt; the error is nil then. It closes listener.
func (p *Port) Serve(listener net.Listener) error {
	err := p.grpc.Serve(p.limit(listener))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Pump runs f, which reads or writes a stream, in a goroutine that Halt waits for.
func (p *Port) Pump(f func()) { p.pumps.Go(f) }

// Stopping is closed when Halt begins: streams end.
func (p *Port) Stopping() <-chan struct{} { return p.stopping }

// Halt ends streams, lets other requests finish until ctx ends, then closes every connection. It returns when no
// handler is left, or [ErrHandlersLeft] when some are left a while after that.
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
	go p.grpc.Stop() // makes GracefulStop return; itself it waits for handlers
	last := time.NewTimer(HardStopWait)
	defer last.Stop()
	select {
	case <-ended:
		return nil
	case <-last.C:
		return ErrHandlersLeft
	}
}

// Stats returns the gauges and counters of now.
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
