package ports

import (
	"fmt"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

const (
	// ownDescriptors are for the data directory, for listeners, and for the rest of the process.
	ownDescriptors = 64
	// memberDescriptors are for the connections with one other node, in both directions: raftnet keeps up to 6 that the
	// other node has opened.
	memberDescriptors = 12
	// minClients is the number of connections that a node must have for clients, and the least share of any port.
	minClients = 8
)

// parts is how many connections each port may have.
type parts struct{ clients, handshakes, peers, http, zookeeper int }

// defaultParts are the parts in a process with enough descriptors. Over HTTP/1.1 each open page of the console holds
// two connections, one for its stream of events and one for its loads: 200 pages hold 400. The others are for pages
// that are being opened, with up to six connections each for a moment, for metrics and for health. A connection costs
// up to 50 KB with TLS, so all of them 32 MB.
func defaultParts(clients int) parts {
	return parts{clients: clients, handshakes: 64, peers: 256, http: 640}
}

// within returns the parts of the ports when the process may open limit files. The node's own needs come first, then
// small parts for the ports of nodes and HTTP, and clients get the rest. Without parts, one connection of a client
// could take the last descriptor, and Raft, snapshots and health would fail.
func (p parts) within(limit, others int) (parts, error) {
	part := func(most, of int) int { return min(most, max(limit/of, minClients)) }
	p.handshakes, p.peers, p.http = part(p.handshakes, 16), part(p.peers, 8), part(p.http, 16)
	reserved := ownDescriptors + others*memberDescriptors + p.handshakes + p.peers + p.http
	if least := reserved + minClients; limit < least {
		return parts{}, fmt.Errorf("the process may open %d files, but needs at least %d: raise the limit, with "+
			"ulimit -n, LimitNOFILE of systemd, or ulimits of a container", limit, least)
	}
	rest := limit - reserved
	if p.zookeeper > 0 { // ZooKeeper's clients get as many as the others
		rest /= 2
	}
	p.clients, p.zookeeper = min(p.clients, rest), min(p.zookeeper, rest)
	return p, nil
}

// descriptorLimit raises the limit of open files as far as the process may, and returns it.
func descriptorLimit() (int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("asking for the limit of open files: %w", err)
	}
	if l.Cur < l.Max {
		raised := syscall.Rlimit{Cur: l.Max, Max: l.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err == nil {
			l = raised
		}
	}
	return int(min(l.Cur, 1<<30)), nil
}

// share decides how many connections each port may have.
func share(c *Config) (parts, error) {
	cfg := &c.Settings
	p := defaultParts(cfg.Clients.MaxConnections)
	if cfg.Listen.ZooKeeper != "" {
		p.zookeeper = p.clients
	}
	if _, files := c.Network.(tcp); !files { // the connections of a simulation are no files
		return p, nil
	}
	limit, err := descriptorLimit()
	if err != nil {
		return parts{}, err
	}
	p, err = p.within(limit, len(cfg.Peers)-1)
	if err == nil && p.clients < cfg.Clients.MaxConnections {
		_, asked := c.Origins["max_connections"]
		c.Logger.Log(fewerClients(asked), "too few file descriptors for max_connections: clients get the rest after Raft, "+
			"the disk and HTTP",
			"max_connections", cfg.Clients.MaxConnections, "descriptors", limit, "clients", p.clients)
	}
	return p, err
}

// fewerClients is the level of the line that says that clients may have fewer connections than max_connections. It is a
// warning where somebody asked for more than the process may have, and no news where the default is above the usual
// limits of machines.
//
//nolint:revive // flag-parameter: it is what is judged
func fewerClients(asked bool) hclog.Level {
	if asked {
		return hclog.Warn
	}
	return hclog.Info
}
