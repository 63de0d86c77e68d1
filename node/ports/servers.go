package ports

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/authz"
	"holdfast/transport/census"
	"holdfast/transport/clientport"
	"holdfast/transport/peerport"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/secure"
	"holdfast/zk"
)

// Services are the parts of a node that its ports serve. All must be set, and are safe for concurrent use.
type Services struct {
	// Clients serves the requests of clients, of the client port and of the ZooKeeper port.
	Clients session.Service
	// Cluster, Admin, Drains, Members and Snapshots serve operators at the client port.
	Cluster   clientport.Cluster
	Admin     session.Administration
	Drains    clientport.Drains
	Members   clientport.Memberships
	Snapshots clientport.Snapshots
	// Leader serves the streams of other nodes while this node leads. MayFollow reports whether a node may open one.
	Leader    Leader
	MayFollow func(session.Node) bool

	// Health returns why the node does not serve, nil when it serves. HealthWarning describes problems that do not keep
	// it from serving.
	Health        func() error
	HealthWarning func() string
	// Glance says for the console how the node is. Removed reports whether it was removed from its cluster for good.
	Glance  func() clientport.NodeStatus
	Removed func() bool
	// Metrics are those of /metrics. Touched and Delivered measure the client port: see [clientport.Config].
	Metrics   prometheus.Gatherer
	Touched   func(left time.Duration)
	Delivered func(index uint64)

	// ZooKeeperStats returns what four-letter words tell of the node. IsMember reports whether a node is a member.
	ZooKeeperStats func() zk.NodeStats
	IsMember       func(session.Node) bool
}

// Leader serves the streams of other nodes.
type Leader interface {
	peerport.Follower
	peerport.Forwarder
}

// MakeServers makes the servers of the ports. They do not serve yet.
func (p *Ports) MakeServers(s Services) {
	settings := &p.cfg.Settings
	p.census = census.New()
	p.client = clientport.New(clientport.Config{
		Logger:      p.cfg.Logger.Named("client-port"),
		Limits:      clientLimits(settings, p.listeners.parts.clients),
		RateLimits:  rateLimits(settings.RateLimits),
		TouchWait:   settings.Sessions.CatchUpWait(),
		Clock:       p.cfg.Clock,
		Super:       settings.Tree.Super,
		Audit:       p.access.audit,
		Authorizer:  p.access.authorizer,
		Snapshots:   s.Snapshots,
		Touched:     s.Touched,
		OnDelivered: s.Delivered,
		Operators:   clientport.Operators{Admin: s.Admin, Drains: s.Drains, Members: s.Members, Census: p.census},
	}, s.Clients, s.Cluster)
	p.peers = peerport.New(peerport.PeerConfig{
		Logger:         p.cfg.Logger.Named("peer-port"),
		ClusterID:      settings.ClusterID,
		Member:         s.MayFollow,
		MaxConnections: p.listeners.parts.peers,
		Silence:        max(time.Minute, 4*settings.Sessions.HeartbeatInterval),
	}, s.Leader, s.Leader)
	p.console = p.newConsole(s)
	p.web = p.newHTTP(s)
	p.front = p.newZooKeeper(s)
}

// Start runs the parts of the ports: start is called with the name of each. The servers run until Stop, the other parts
// until ctx ends.
func (p *Ports) Start(ctx context.Context, start func(name string, run func() error)) {
	start("peer port", func() error { return p.peers.Serve(p.listeners.nodes) })
	start("client port", func() error { return p.client.Serve(p.listeners.clients) })
	start("client port, inside", func() error { return p.client.Serve(p.inside) })
	start("console", func() error { return p.runConsole(ctx) })
	start("auth file", func() error { return p.access.run(ctx) })
	start("http port", p.serveHTTP)
	start("ZooKeeper port", p.serveZooKeeper)
	start("certificates", func() error { return p.security.run(ctx) })
}

// Stop stops the servers side by side, within half of the time that ctx leaves: a client that does not listen must not
// cost Raft its orderly end.
func (p *Ports) Stop(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = half
	}
	var wg sync.WaitGroup
	var errs [4]error
	for i, stop := range []func(context.Context) error{
		p.client.Stop, p.peers.Stop, p.stopHTTP, p.stopZooKeeper,
	} {
		wg.Go(func() { errs[i] = stop(ctx) })
	}
	wg.Wait()
	p.census.Close()
	return errors.Join(errs[:]...)
}

func (p *Ports) serveHTTP() error {
	if err := p.web.Serve(p.listeners.http); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stopHTTP lets requests under way end, and cuts those off that go on when ctx ends.
func (p *Ports) stopHTTP(ctx context.Context) error {
	if err := p.web.Shutdown(ctx); ctx.Err() == nil {
		return err
	}
	return p.web.Close()
}

// touchesPerSecond is above what a node can serve, and far above what its connections need: one message touches all
// sessions of a connection.
const touchesPerSecond = 1_000_000

// clientLimits returns the limits of a client port with so many connections.
func clientLimits(c *config.Config, connections int) port.Limits {
	return port.Limits{
		MessageBytes:          c.Clients.MaxMessageBytes,
		Connections:           connections,
		ConnectionsPerAddress: c.RateLimits.MaxConnectionsPerAddress,
		WaitingBytes:          c.Clients.MaxBufferedBytes,
	}
}

// rateLimits returns the rate limits of the client port.
func rateLimits(c config.RateLimits) ratelimit.Config {
	return ratelimit.Config{
		Opens: c.MaxOpensPerSecond, Resumes: c.MaxResumesPerSecond, Touches: touchesPerSecond,
		Writes:                    c.MaxWritesPerSecond,
		OpensAndResumesPerAddress: c.MaxOpensAndResumesPerSecondPerAddress,
		OpensAndResumesPerClient:  c.MaxOpensAndResumesPerSecondPerClient,
	}
}

// Stats describe the ports for metrics.
type Stats struct {
	Client clientport.Stats
	// ZooKeeper is zero on a node that does not serve ZooKeeper's clients.
	ZooKeeper zk.Stats
	// TLS is zero on a node without certificates. Refused counts the connections that each port refused for TLS.
	TLS     secure.Stats
	Refused Refused
	// Denied counts denied calls. AuthFileFailing says that the last read of auth_file failed.
	Denied          authz.Stats
	AuthFileFailing bool
	// Audit counts what operators do.
	Audit *authz.Audit
}

// Refused has a number for each port.
type Refused struct{ Raft, Peer, Client, HTTP, ZooKeeper uint64 }

// Stats returns what the ports have counted.
func (p *Ports) Stats() Stats {
	s := Stats{
		Client: p.client.Stats(), TLS: p.security.stats(), Refused: p.security.refused(),
		Denied: p.access.authorizer.Stats(), AuthFileFailing: p.access.failing(), Audit: p.access.audit,
	}
	if p.front != nil {
		s.ZooKeeper = p.front.Stats()
	}
	return s
}
