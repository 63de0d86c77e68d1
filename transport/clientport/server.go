// Package clientport serves the client port: sessions, ids, the cluster's status, health and reflection.
package clientport

import (
	"cmp"
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/gate"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// Names of the health services.
const (
	// HealthNode is SERVING while the node serves.
	HealthNode = ""
	// HealthLeader is SERVING on the leader only.
	HealthLeader = "leader"
)

// Config configures a [Server]. The zero value of a field is its default.
type Config struct {
	Logger hclog.Logger
	// Credentials of the transport; nil is plaintext.
	Credentials credentials.TransportCredentials
	// MaxMessageBytes is the largest message a client may send; default 1 MiB.
	MaxMessageBytes int
	// MaxStreams is the number of calls under way on one connection; default 64.
	MaxStreams int
	// MaxConnections is the number of connections; default 20,000. When one more comes, one makes room that serves
	// nothing, or it is refused.
	MaxConnections int
	// MaxCalls is the number of calls under way on all connections; default 25,000. As with MaxConnections.
	MaxCalls int
	// MaxSessions is the number of sessions that one Connect stream serves; default 100,000.
	MaxSessions int
	// MaxRequests is the number of opens, resumes, upgrades and closes under way on one Connect stream; default 1,024.
	MaxRequests int
	// MaxOutgoing is the number of messages that wait for a client that does not read; default 4,096, or twice
	// MaxRequests if that is more: all of them may be answered at once. One more ends its stream with
	// RESOURCE_EXHAUSTED.
	MaxOutgoing int
	// MaxWaiting is how many bytes of answers that are not read, requests under way and incomplete messages the port
	// holds, beyond what the sessions of connections account for; default 256 MiB. Above it the connections that hold
	// most end.
	MaxWaiting int
	// Patience is how long a client may read nothing of what waits for it, after a large message a little longer;
	// default 30 s.
	Patience time.Duration
	// KeepaliveTime is how long a connection is quiet before it is tested, KeepaliveTimeout how long the answer may
	// take; default 30 s and 10 s.
	KeepaliveTime, KeepaliveTimeout time.Duration
	// KeepaliveMinTime is how often a client may ping; default 5 s. One that pings more often loses its connection.
	KeepaliveMinTime time.Duration
	// Gate says how much of what clients ask for the node takes on in a second; zero is no limit.
	Gate gate.Config
	// TouchWait bounds what one TouchSessions waits for tokens that are newer than this node; default 1 s.
	TouchWait time.Duration
	// Clock is the wall clock that ids are made from (O1); nil is time.Now.
	Clock func() time.Time
}

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, wire.DefaultMessageBytes)
	c.MaxStreams = cmp.Or(c.MaxStreams, 64)
	c.MaxConnections = cmp.Or(c.MaxConnections, 20_000)
	c.MaxCalls = cmp.Or(c.MaxCalls, 25_000)
	c.MaxSessions = cmp.Or(c.MaxSessions, 100_000)
	c.MaxRequests = cmp.Or(c.MaxRequests, 1024)
	c.MaxOutgoing = cmp.Or(c.MaxOutgoing, max(4096, 2*c.MaxRequests))
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 256<<20)
	c.Patience = cmp.Or(c.Patience, port.ReadPatience)
	c.KeepaliveTime = cmp.Or(c.KeepaliveTime, 30*time.Second)
	c.KeepaliveTimeout = cmp.Or(c.KeepaliveTimeout, 10*time.Second)
	c.KeepaliveMinTime = cmp.Or(c.KeepaliveMinTime, 5*time.Second)
	c.TouchWait = cmp.Or(c.TouchWait, time.Second)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// Server serves the client port: SessionService, ClusterService, IdService, health and reflection. Safe for concurrent
// use.
type Server struct {
	port   *port.Port
	health *health.Server
	gate   *gate.Gate
	stats  clientCounters
}

// clientCounters are what [Stats] is read from.
type clientCounters struct {
	streams, sessions         atomic.Int64
	slowReaders, failedOnConn atomic.Uint64
}

// Stats are gauges and counters of the client port.
type Stats struct {
	// Connections are open now, Calls under way on them.
	Connections, Calls int64
	// Refused counts connections refused because there were too many, RefusedCalls calls.
	Refused, RefusedCalls uint64
	// Evicted counts connections that served nothing, and made room for others.
	Evicted uint64
	// Crowded counts refused connections of addresses that had as many as they may have.
	Crowded uint64
	// Refusals counts opens, resumes and touches that the gate refused.
	Refusals gate.Refusals
	// Streams are the Connect streams open now, Sessions what was opened or resumed through them and has not ended or
	// moved.
	Streams, Sessions int64
	// Waiting is how many bytes wait, as [Config.MaxWaiting] counts them.
	Waiting int64
	// Overfull counts connections ended because too much waited on them, Relieved those ended because too much waited
	// on the node.
	Overfull, Relieved uint64
	// SlowReaders counts Connect streams ended because the client did not read.
	SlowReaders uint64
	// Failed counts requests on Connect streams that were answered by Failed.
	Failed uint64
	// Panics counts handlers that panicked; each is a fault of the program.
	Panics uint64
}

// New returns a server of service and cluster. It starts nothing, and is NOT_SERVING until [Server.SetServing].
func New(cfg Config, service session.Service, cluster Cluster) *Server {
	cfg = cfg.withDefaults()
	s := &Server{health: health.NewServer(), gate: gate.New(cfg.Gate)}
	s.port = port.New(port.Config{
		Logger:           cfg.Logger,
		Credentials:      cfg.Credentials,
		MaxMessageBytes:  cfg.MaxMessageBytes,
		MaxStreams:       cfg.MaxStreams,
		MaxConnections:   cfg.MaxConnections,
		MaxCalls:         cfg.MaxCalls,
		MaxPerAddress:    cfg.Gate.ConnectionsPerAddress,
		MaxWaiting:       cfg.MaxWaiting,
		MaxRequests:      cfg.MaxRequests,
		Patience:         cfg.Patience,
		KeepaliveTime:    cfg.KeepaliveTime,
		KeepaliveTimeout: cfg.KeepaliveTimeout,
		Ping:             cfg.KeepaliveMinTime,
		State:            func() *holdfastv1.NodeState { return wire.StateProto(service.State()) },
	})
	s.SetServing(HealthNode, false)
	s.SetServing(HealthLeader, false)
	holdfastv1.RegisterSessionServiceServer(s.port.Grpc,
		&sessionServer{cfg: cfg, service: service, port: s.port, gate: s.gate, stats: &s.stats})
	holdfastv1.RegisterClusterServiceServer(s.port.Grpc, &clusterServer{cluster: cluster})
	holdfastv1.RegisterIdServiceServer(s.port.Grpc, &idServer{cfg: cfg, service: service})
	healthpb.RegisterHealthServer(s.port.Grpc, s.health)
	reflection.Register(s.port.Grpc)
	return s
}

// Serve accepts connections from listener, which it closes, until [Server.Stop]; the error is nil then.
func (s *Server) Serve(listener net.Listener) error { return s.port.Serve(listener) }

// Stop turns health to NOT_SERVING, ends Connect streams with STOPPING once their requests under way are answered, and
// lets unary calls finish, until ctx ends; then it closes every connection. The error is [port.ErrHandlersLeft] when
// requests go on even then.
func (s *Server) Stop(ctx context.Context) error {
	s.health.Shutdown()
	return s.port.Halt(ctx)
}

// EndStreams ends Connect streams, those that begin later too, as Stop does. Calls are served still.
func (s *Server) EndStreams() { s.port.EndOnce.Do(func() { close(s.port.Ended) }) }

// SetServing sets what the health service says of a service: [HealthNode] or [HealthLeader]. After Stop it has no
// effect.
//
//nolint:revive // flag-parameter: health has two states, and callers have a bool
func (s *Server) SetServing(service string, ok bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if ok {
		state = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, state)
}

// Stats returns the gauges and counters of now.
func (s *Server) Stats() Stats {
	connections, calls := s.port.Crowd.Open()
	return Stats{
		Connections: int64(connections), Calls: int64(calls),
		Refused: s.port.Refused.Load(), RefusedCalls: s.port.CallsRefused.Load(),
		Evicted:     s.port.Evicted.Load(),
		Crowded:     s.port.Crowded.Load(),
		Refusals:    s.gate.Refused(),
		Streams:     s.stats.streams.Load(),
		Sessions:    s.stats.sessions.Load(),
		Waiting:     s.port.Ledger.Total.Load(),
		Overfull:    s.port.Ledger.Ended[port.OfConnection].Load(),
		Relieved:    s.port.Ledger.Ended[port.OfNode].Load(),
		SlowReaders: s.stats.slowReaders.Load(),
		Failed:      s.stats.failedOnConn.Load(),
		Panics:      s.port.Panics.Load(),
	}
}
