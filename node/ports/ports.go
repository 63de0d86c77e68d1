// Package ports has the bound ports of a node, with TLS on them and the decision who may call, and runs the servers on
// all of them but Raft's. It knows what to serve from the [Services] that the node gives it.
package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/census"
	"holdfast/transport/clientport"
	"holdfast/transport/peerport"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/secure"
	"holdfast/zk"
)

// Config is what [Bind] binds ports from.
type Config struct {
	Logger hclog.Logger
	// Audit gets the lines about actions of operators when there is no audit_file; nil is Logger.
	Audit hclog.Logger
	// Settings are complete. Origins says where their values come from, for the console: see [config.Origins].
	Settings config.Config
	Origins  map[string]string
	// Version is shown by the console.
	Version string
	// Network is TCP when nil.
	Network Network
	// Clock is the wall clock.
	Clock func() time.Time
	// Console, when set, makes what serves /ui/ on the HTTP port.
	Console func(ConsoleHost) Console
	// NodeAt returns the node that is expected at an address, 0 if none is.
	NodeAt func(address string) session.Node
}

// Ports are the bound ports of a node, and the servers on all but Raft's. Bind them with [Bind]. Then call in this
// order: MakeServers, Start, Stop, CloseAudit; or Close, if Start is not called. Raft, DialPeer and Warning may be
// called from the beginning, the other methods after MakeServers. Safe for concurrent use.
type Ports struct {
	cfg       Config
	listeners listeners
	// security is the TLS on all ports.
	security *security
	access   *access

	client *clientport.Server
	peers  *peerport.Server
	web    *http.Server
	// console is nil on a node without one. inside is where it reaches the client port.
	console Console
	inside  *port.Inside
	// front serves ZooKeeper's clients, nil if nobody does.
	front *zk.Server
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

// Bind binds the ports, puts TLS on them as their settings say, and reads who may call. Nothing accepts a connection
// yet. Errors say what to do.
func Bind(cfg Config) (*Ports, error) {
	if cfg.Network == nil {
		cfg.Network = tcp{}
	}
	s, err := newSecurity(&cfg)
	if err != nil {
		return nil, err
	}
	l, err := listen(&cfg, s)
	if err != nil {
		return nil, err
	}
	a, err := openAccess(&cfg)
	if err != nil {
		l.close()
		return nil, err
	}
	return &Ports{cfg: cfg, listeners: l, security: s, access: a, inside: port.NewInside()}, nil
}

// listen binds the ports.
func listen(cfg *Config, s *security) (l listeners, err error) {
	if l.parts, err = share(cfg); err != nil {
		return listeners{}, err
	}
	at := cfg.Settings.Listen
	for _, bind := range []struct {
		setting, address string
		to               *net.Listener
	}{
		{"client_listen", at.Client, &l.clients},
		{"raft_listen", at.Raft, &l.raft},
		{"peer_listen", at.Peer, &l.nodes},
		{"http_listen", at.HTTP, &l.http},
		{"zk_listen", at.ZooKeeper, &l.zookeeper},
	} {
		if bind.address == "" {
			continue
		}
		bound, err := cfg.Network.Listen(bind.address)
		if err != nil {
			l.close()
			return listeners{}, fmt.Errorf("listening on %s: %w: %s", bind.address, err, listenAdvice(err, bind.setting))
		}
		*bind.to = bound
	}
	l.http = port.LimitConnections(l.http, l.parts.http)
	if l.zookeeper != nil {
		l.zookeeper = s.zookeeper.Listener(port.LimitClients(l.zookeeper, l.parts.zookeeper,
			cfg.Settings.RateLimits.MaxConnectionsPerAddress, cfg.Logger.Named("zookeeper")))
	}
	for _, secured := range []struct {
		on *net.Listener
		by *secure.Server
	}{{&l.clients, s.client}, {&l.raft, s.raft}, {&l.nodes, s.peers}, {&l.http, s.http}} {
		*secured.on = secured.by.Listener(*secured.on)
	}
	return l, nil
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

// Close closes the audit's file, and ports that were never served.
func (p *Ports) Close() {
	p.CloseAudit()
	p.listeners.close()
}

// CloseAudit closes the audit's file, once nothing calls this node any more.
func (p *Ports) CloseAudit() { p.access.close() }

// RaftPort is what Raft's network gets of the ports.
type RaftPort struct {
	Listener net.Listener
	// Dial connects to the port of Raft of another node.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// MaxHandshakes bounds the connections that have not said who they are.
	MaxHandshakes int
}

// Raft returns the port of Raft, which these ports do not serve.
func (p *Ports) Raft() RaftPort {
	return RaftPort{
		Listener: p.listeners.raft, Dial: p.security.dialRaft, MaxHandshakes: p.listeners.parts.handshakes,
	}
}

// DialPeer connects to the peer port of another node.
func (p *Ports) DialPeer(ctx context.Context, address string) (net.Conn, error) {
	return p.security.dialPeers(ctx, address)
}

// SetServing says what the health service of the client port answers for a service, such as [clientport.HealthNode].
func (p *Ports) SetServing(service string, ok bool) { p.client.SetServing(service, ok) }

// EndStreams ends the streams of clients of the client port.
func (p *Ports) EndStreams() { p.client.EndStreams() }

// Limiter returns the rate limits of the client port and the ZooKeeper port.
func (p *Ports) Limiter() *ratelimit.Limiter { return p.client.Limiter() }

// Warning says that the certificates on disk are not those in use, empty when they are.
func (p *Ports) Warning() string { return p.security.warning() }
