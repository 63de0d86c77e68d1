package ports

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/clientport"
	"holdfast/transport/secure"
)

// Console serves people with a browser, in /ui/ on the HTTP port. The node lets in whom its settings of access allow.
type Console interface {
	http.Handler
	// Run keeps what the console shows until ctx ends.
	Run(ctx context.Context) error
	// Stop ends requests that would not end by themselves. It is called when the HTTP port stops.
	Stop()
}

// ConsoleHost is what a node has for its console. Its functions are safe for concurrent use.
type ConsoleHost struct {
	Logger hclog.Logger
	Node   session.Node
	// ClusterID, Version and Address, that of the client port, are the node's.
	ClusterID, Version, Address string
	// Authenticated says that callers have roles: see [auth.From]. Otherwise anyone can do anything.
	Authenticated bool
	// Glance says how the node is.
	Glance func() clientport.NodeStatus
	// Removed reports whether the node was removed from its cluster for good.
	Removed func() bool
	// Metrics are those of /metrics.
	Metrics prometheus.Gatherer
	// Settings are those of the node, without secrets.
	Settings []config.Shown
	// Dialer returns what connects to client ports for whoever makes a request. Connections to the node's own address
	// have the address and the certificate of that caller; others show the node's certificate.
	Dialer func(r *http.Request) func(ctx context.Context, address string) (net.Conn, error)
}

// newConsole returns the console of a node, nil if it has none.
func (p *Ports) newConsole(s Services) Console {
	if p.cfg.Console == nil {
		return nil
	}
	settings := &p.cfg.Settings
	self, _ := settings.Self() // a complete configuration has it
	return p.cfg.Console(ConsoleHost{
		Logger: p.cfg.Logger.Named("console"), Node: settings.Node, ClusterID: settings.ClusterID,
		Version: p.cfg.Version, Address: self.Client, Authenticated: settings.Auth.On(), Metrics: s.Metrics,
		Glance: s.Glance, Removed: s.Removed, Settings: settings.Shown(p.cfg.Origins),
		Dialer: p.dialerFor(self.Client),
	})
}

// dialerFor returns what connects to client ports for callers of the HTTP port; own is the address of this node's.
func (p *Ports) dialerFor(own string) func(r *http.Request) func(ctx context.Context, address string) (net.Conn, error) {
	mode := p.cfg.Settings.TLS.Clients
	others := &secure.Dialer{
		Store: p.security.store, Mode: mode, Dial: p.cfg.Network.Dial, Protocols: grpcProtocols(),
		Names:  atAddress(&p.cfg.Settings, func(string) session.Node { return 0 }),
		Theirs: "client_tls", Ours: fmt.Sprintf("client_tls is %s on node %d", mode, p.cfg.Settings.Node),
	}
	return func(r *http.Request) func(ctx context.Context, address string) (net.Conn, error) {
		caller := secure.ConnOf(r.Context())
		return func(ctx context.Context, address string) (net.Conn, error) {
			if address == own {
				return p.inside.Dial(ctx, caller)
			}
			return others.DialContext(ctx, address)
		}
	}
}

// runConsole runs the console until ctx ends.
func (p *Ports) runConsole(ctx context.Context) error {
	if p.console == nil {
		return nil
	}
	return p.console.Run(ctx)
}
