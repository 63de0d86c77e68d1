package node

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"holdfast/node/config"
	"holdfast/transport/clientport"
	"holdfast/transport/dial"
	"holdfast/transport/gate"
	"holdfast/transport/peerport"
	"holdfast/transport/port"
)

func (n *Node) newClientServer() *clientport.Server {
	return clientport.New(clientport.Config{
		Logger: n.logger.Named("client-port"),
		Limits: clientLimits(&n.cfg, n.listeners.parts.clients),
		Stream: clientport.StreamLimits{
			Sessions: n.cfg.Clients.MaxSessionsPerConnection, Requests: n.cfg.Clients.MaxRequestsPerConnection,
		},
		Gate:      gateConfig(n.cfg.Gate),
		TouchWait: n.cfg.Clients.LaggingWait,
		Clock:     n.options.Clock,
	}, n.server, n)
}

func (n *Node) newPeerServer() *peerport.Server {
	return peerport.New(peerport.PeerConfig{
		Logger:         n.logger.Named("peer-port"),
		ClusterID:      n.cfg.ClusterID,
		Member:         n.mayFollow,
		MaxConnections: n.listeners.parts.peers,
		Silence:        max(time.Minute, 4*n.cfg.Sessions.HeartbeatInterval),
	}, n)
}

func (n *Node) peerDial(address string) dial.PeerConfig {
	return dial.PeerConfig{Address: address, ClusterID: n.cfg.ClusterID, Dial: n.network.Dial}
}

// listeners are the node's bound ports, and how many connections each may have.
type listeners struct {
	client, raft, peer, http net.Listener
	parts                    parts
}

func (n *Node) listen() (listeners, error) {
	var l listeners
	var err error
	if l.parts, err = n.share(); err != nil {
		return listeners{}, err
	}
	for _, bind := range []struct {
		setting, address string
		to               *net.Listener
	}{
		{"client_listen", n.cfg.Listen.Client, &l.client},
		{"raft_listen", n.cfg.Listen.Raft, &l.raft},
		{"peer_listen", n.cfg.Listen.Peer, &l.peer},
		{"http_listen", n.cfg.Listen.HTTP, &l.http},
	} {
		bound, err := n.network.Listen(bind.address)
		if err != nil {
			l.close()
			return listeners{}, fmt.Errorf("listening on %s: %w: %s", bind.address, err,
				listenAdvice(err, bind.setting))
		}
		*bind.to = bound
	}
	l.http = port.LimitConnections(l.http, l.parts.http)
	return l, nil
}

// listenAdvice says what can be done about an address that cannot be listened on.
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
	for _, one := range []net.Listener{l.client, l.raft, l.peer, l.http} {
		if one != nil {
			one.Close() //nolint:errcheck // a listener that was never served has nothing to lose
		}
	}
}

// clientLimits returns the limits of a client port with so many connections.
func clientLimits(c *config.Config, connections int) port.Limits {
	return port.Limits{
		MessageBytes:          c.Clients.MaxMessageBytes,
		StreamsPerConnection:  c.Clients.MaxStreamsPerConnection,
		Connections:           connections,
		ConnectionsPerAddress: c.Gate.MaxConnectionsPerAddress,
		Calls:                 c.Clients.MaxStreams,
		WaitingBytes:          c.Clients.MaxWaitingBytes,
	}
}

// gateConfig returns the budgets of the client port.
func gateConfig(c config.Gate) gate.Config {
	return gate.Config{
		Opens: c.MaxOpensPerSecond, Resumes: c.MaxResumesPerSecond, Touches: c.MaxTouchesPerSecond,
		ArrivalsPerAddress: c.MaxArrivalsPerSecondPerAddress, ArrivalsPerPrincipal: c.MaxArrivalsPerSecondPerPrincipal,
	}
}
