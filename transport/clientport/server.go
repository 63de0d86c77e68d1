// Package clientport serves the client port: sessions, the tree, ids, the cluster's status, health and reflection.
package clientport

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// Names of the health services.
const (
	// HealthNode is the service that is SERVING while the node serves.
	HealthNode = ""
	// HealthLeader is the service that is SERVING on the leader only.
	HealthLeader = "leader"
)

// Server serves the client port: SessionService, TreeService, ClusterService, IdService, health and reflection. It is
// safe for concurrent use.
type Server struct {
	port    *port.Port
	health  *health.Server
	limiter *ratelimit.Limiter
	stats   counters
	// streamsEnd is closed when Connect streams are to end while calls are still served.
	streamsEnd chan struct{}
	endOnce    sync.Once
}

// counters count streams, their sessions and their failures.
type counters struct {
	streams, sessions   atomic.Int64
	slowReaders, failed atomic.Uint64
	tree                treeCounters
}

// treeCounters count the clients' requests of the tree, and the events sent to them.
type treeCounters struct {
	reads, writes, watches, events atomic.Uint64
	// blocked and stuck count streams that ended (G8 request bounds, G9 answer bounds).
	blocked, stuck atomic.Uint64
}

// Stats are gauges and counters of the client port.
type Stats struct {
	port.Stats
	// Refusals counts opens, resumes and touches that the rate limits refused.
	Refusals ratelimit.Refusals
	// Streams is the number of open Connect streams. Sessions is the number of sessions that were opened or resumed
	// through them and have not ended or moved.
	Streams, Sessions int64
	// SlowReaders counts Connect streams ended because the client did not read.
	SlowReaders uint64
	// Failed counts requests on Connect streams that were answered by Failed.
	Failed uint64
	// TreeReads, TreeWrites and TreeWatches count requests of the tree that went to the node, in calls and on Connect
	// streams; TreeWatches counts the requests to add watches. TreeEvents counts sent events.
	TreeReads, TreeWrites, TreeWatches, TreeEvents uint64
	// StreamsBlocked counts Connect streams that ended because the node accepted no more requests of the tree for too long
	// (G8). TreeSlowReaders counts streams whose client read nothing of the tree for too long (G9); SlowReaders counts these
	// too.
	StreamsBlocked, TreeSlowReaders uint64
}

// New returns a server of service and cluster. It starts no goroutine, and is NOT_SERVING until [Server.SetServing].
func New(cfg Config, service session.Service, cluster Cluster) *Server {
	cfg = cfg.withDefaults()
	s := &Server{health: health.NewServer(), limiter: ratelimit.New(cfg.RateLimits), streamsEnd: make(chan struct{})}
	s.port = port.New(port.Config{
		Logger:            cfg.Logger,
		Credentials:       cfg.Credentials,
		Limits:            cfg.Limits,
		RequestsPerStream: cfg.Stream.Requests,
		ReadTimeout:       cfg.ReadTimeout,
		Keepalive:         cfg.Keepalive,
		Authorizer:        cfg.Authorizer,
		State:             func() *holdfastv1.NodeState { return wire.StateProto(service.State()) },
	})
	s.SetServing(HealthNode, false)
	s.SetServing(HealthLeader, false)
	sessions := &sessionServer{
		cfg: cfg, service: service, port: s.port, limiter: s.limiter, stats: &s.stats, streamsEnd: s.streamsEnd,
	}
	holdfastv1.RegisterSessionServiceServer(s.port, sessions)
	holdfastv1.RegisterTreeServiceServer(s.port, &treeServer{node: sessions})
	holdfastv1.RegisterClusterServiceServer(s.port, &clusterServer{
		cluster: cluster, node: sessions, snapshots: cfg.Snapshots,
		drains: cfg.Drains, memberActs: memberActs{members: cfg.Members},
	})
	holdfastv1.RegisterIdServiceServer(s.port, &idServer{clock: cfg.Clock, service: service})
	if cfg.Admin != nil {
		holdfastv1.RegisterAdminServiceServer(s.port, &adminServer{admin: cfg.Admin})
	}
	healthpb.RegisterHealthServer(s.port, s.health)
	reflection.Register(s.port)
	return s
}

// Serve accepts connections from listener, which it closes, until [Server.Stop]; the error is nil then.
func (s *Server) Serve(listener net.Listener) error { return s.port.Serve(listener) }

// Stop sets health to NOT_SERVING, ends Connect streams with STOPPING once their requests in flight are answered, and
// lets unary calls finish. When ctx ends, it closes every connection. The error is [port.ErrHandlersLeft] when requests
// still run then.
func (s *Server) Stop(ctx context.Context) error {
	s.health.Shutdown()
	return s.port.Halt(ctx)
}

// EndStreams ends Connect streams as Stop does, including streams that begin later. Unary calls are still served.
func (s *Server) EndStreams() { s.endOnce.Do(func() { close(s.streamsEnd) }) }

// SetServing sets the health of a service, [HealthNode] or [HealthLeader]. After Stop it has no effect.
//
//nolint:revive // flag-parameter: health has two states, and callers have a bool
func (s *Server) SetServing(service string, ok bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if ok {
		state = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, state)
}

// Stats returns the present gauges and counters.
func (s *Server) Stats() Stats {
	return Stats{
		Stats:           s.port.Stats(),
		Refusals:        s.limiter.Refused(),
		Streams:         s.stats.streams.Load(),
		Sessions:        s.stats.sessions.Load(),
		SlowReaders:     s.stats.slowReaders.Load(),
		Failed:          s.stats.failed.Load(),
		TreeReads:       s.stats.tree.reads.Load(),
		TreeWrites:      s.stats.tree.writes.Load(),
		TreeWatches:     s.stats.tree.watches.Load(),
		TreeEvents:      s.stats.tree.events.Load(),
		StreamsBlocked:  s.stats.tree.blocked.Load(),
		TreeSlowReaders: s.stats.tree.stuck.Load(),
	}
}

// Limiter returns the port's rate limiter, which another port may share.
func (s *Server) Limiter() *ratelimit.Limiter { return s.limiter }
