package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/census"
	"holdfast/transport/clientport"
	"holdfast/transport/dial"
	"holdfast/transport/peerport"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/secure"
	"holdfast/zk"
)

// ports are the four bound ports of a node, and the servers on all but Raft's.
type ports struct {
	listeners
	client *clientport.Server
	peers  *peerport.Server
	web    *http.Server
	// console is nil on a node without one. inside is where it reaches the client port.
	console Console
	inside  *port.Inside
	// front serves ZooKeeper's clients, nil if nobody does.
	front  *zk.Server
	access *access
	// backups are for clients of the client port.
	backups *backups
	// security is the TLS on all four.
	security *security
	// census lists the connections of client and front.
	census *census.Census
}

// listeners are the bound ports, and how many connections each may have.
type listeners struct {
	clients, raft, nodes, http net.Listener
	// zookeeper is nil on a node that does not serve ZooKeeper's clients.
	zookeeper net.Listener
	parts     parts
}

// bindPorts binds the ports, and puts TLS on them as their settings say. Nothing accepts a connection yet. nodeAt
// returns the node that is expected at an address, 0 if none is.
func bindPorts(cfg config.Config, o Options, nodeAt func(address string) session.Node) (*ports, error) {
	var l listeners
	s, err := newSecurity(&cfg, o, nodeAt)
	if err != nil {
		return nil, err
	}
	if l.parts, err = share(cfg, o); err != nil {
		return nil, err
	}
	for _, bind := range []struct {
		setting, address string
		to               *net.Listener
	}{
		{"client_listen", cfg.Listen.Client, &l.clients},
		{"raft_listen", cfg.Listen.Raft, &l.raft},
		{"peer_listen", cfg.Listen.Peer, &l.nodes},
		{"http_listen", cfg.Listen.HTTP, &l.http},
		{"zk_listen", cfg.Listen.ZooKeeper, &l.zookeeper},
	} {
		if bind.address == "" {
			continue
		}
		bound, err := o.Platform.Network.Listen(bind.address)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("listening on %s: %w: %s", bind.address, err, listenAdvice(err, bind.setting))
		}
		*bind.to = bound
	}
	l.http = port.LimitConnections(l.http, l.parts.http)
	if l.zookeeper != nil {
		l.zookeeper = s.zookeeper.Listener(port.LimitClients(l.zookeeper, l.parts.zookeeper,
			cfg.RateLimits.MaxConnectionsPerAddress, o.Logger.Named("zookeeper")))
	}
	for _, secured := range []struct {
		on *net.Listener
		by *secure.Server
	}{{&l.clients, s.client}, {&l.raft, s.raft}, {&l.nodes, s.peers}, {&l.http, s.http}} {
		*secured.on = secured.by.Listener(*secured.on)
	}
	return &ports{listeners: l, security: s, inside: port.NewInside()}, nil
}

// listenAdvice says what an operator can do about an address that the node cannot listen on.
func listenAdvice(err error, setting string) string {
	_, unresolved := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "end what uses the port, or give " + setting + " another"
	case unresolved, errors.Is(err, syscall.EADDRNOTAVAIL):
		return "give " + setting + " an address of this machine, or :PORT for all that it has"
	case errors.Is(err, syscall.EACCES):
		return "give " + setting + " a port above 1023, or the process the right to this one"
	default:
		return "give " + setting + " another address"
	}
}

// close closes ports that were never served.
func (l *listeners) close() {
	for _, one := range []net.Listener{l.clients, l.raft, l.nodes, l.http, l.zookeeper} {
		if one != nil {
			one.Close() //nolint:errcheck // a listener that was never served has nothing to lose
		}
	}
}

// serve makes the servers of a node's ports.
func (p *ports) serve(n *Node) {
	p.backups, p.census = newBackups(n), census.New()
	p.client = clientport.New(clientport.Config{
		Logger:      n.options.Logger.Named("client-port"),
		Limits:      clientLimits(&n.cfg, p.parts.clients),
		RateLimits:  rateLimits(n.cfg.RateLimits),
		TouchWait:   n.cfg.Sessions.CatchUpWait(),
		Clock:       n.options.Platform.Clock,
		Super:       n.cfg.Tree.Super,
		Audit:       p.access.audit,
		Authorizer:  p.access,
		Snapshots:   p.backups,
		Touched:     n.timings.ObserveTouch,
		OnDelivered: n.timings.ObserveEvent,
		Operators: clientport.Operators{
			Admin: n.server, Drains: n.drain,
			Members: n.operator, Census: p.census,
		},
	}, n.traces.service(n.server), n)
	p.peers = peerport.New(peerport.PeerConfig{
		Logger:         n.options.Logger.Named("peer-port"),
		ClusterID:      n.cfg.ClusterID,
		Member:         n.mayFollow,
		MaxConnections: p.parts.peers,
		Silence:        max(time.Minute, 4*n.cfg.Sessions.HeartbeatInterval),
	}, n, n)
	registry := newRegistry(n)
	p.console = newConsole(n, registry)
	p.web = newHTTP(n, registry)
	p.front = newZooKeeper(n, p.zookeeper)
}

// mayFollow reports whether a node may follow over the peer port. This node's own relay does not come over the port: a
// stream that names this node is a stranger's. It would end the stream of the own relay, and the tracker too if it
// answered with a newer term.
func (n *Node) mayFollow(node session.Node) bool { return node != n.cfg.Node && n.view.has(node) }

func (n *Node) peerDial(address string) dial.PeerConfig {
	return dial.PeerConfig{Address: address, ClusterID: n.cfg.ClusterID, Dial: n.ports.security.dialPeers}
}

func (p *ports) serveClients() error { return p.client.Serve(p.clients) }
func (p *ports) serveInside() error  { return p.client.Serve(p.inside) }
func (p *ports) servePeers() error   { return p.peers.Serve(p.nodes) }

func (p *ports) serveHTTP() error {
	if err := p.web.Serve(p.http); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stopHTTP lets requests under way end, and cuts those off that go on when ctx ends.
func (p *ports) stopHTTP(ctx context.Context) error {
	if err := p.web.Shutdown(ctx); ctx.Err() == nil {
		return err
	}
	return p.web.Close()
}

// stop stops the servers side by side, within half of the time that ctx leaves: a client that does not listen
// must not cost Raft its orderly end.
func (p *ports) stop(ctx context.Context) error {
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
	p.backups.close()
	p.census.Close()
	return errors.Join(errs[:]...)
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
