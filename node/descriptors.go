package node

import (
	"fmt"
	"syscall"

	"holdfast/node/config"
)

const (
	// ownDescriptors are those of the data directory, of listeners, and of what the process has beside a node.
	ownDescriptors = 64
	// memberDescriptors are those of the connections with one other node, both ways: raftnet keeps up to 6 that the
	// other has opened.
	memberDescriptors = 12
	// leastClients is how many clients a node must be able to serve.
	leastClients = 8
)

// parts is how many connections each port may have.
type parts struct{ clients, handshakes, peers, http int }

// defaultParts are those of a process with descriptors enough.
func defaultParts(clients int) parts {
	return parts{clients: clients, handshakes: 64, peers: 256, http: 64}
}

// within returns what the ports may have of so many file descriptors. What the node itself needs comes first, then
// little for strangers on the ports of peers and HTTP, and clients get the rest: when accepting one more takes the last
// descriptor, Raft, snapshots and health fail with it.
func (p parts) within(limit, others int) (parts, error) {
	part := func(most, of int) int { return min(most, max(limit/of, leastClients)) }
	p.handshakes, p.peers, p.http = part(p.handshakes, 16), part(p.peers, 8), part(p.http, 16)
	reserved := ownDescriptors + others*memberDescriptors + p.handshakes + p.peers + p.http
	if least := reserved + leastClients; limit < least {
		return parts{}, fmt.Errorf("the process may open %d files, and needs %d at least: raise the limit, with "+
			"ulimit -n, LimitNOFILE of systemd, or "+
			"ulimits of a container", limit, least)
	}
	p.clients = min(p.clients, limit-reserved)
	return p, nil
}

// descriptorLimit returns how many files the process may open, after it has raised that as far as it may.
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
func share(cfg config.Config, o Options) (parts, error) {
	p := defaultParts(cfg.Clients.MaxConnections)
	if _, files := o.Network.(tcp); !files { // connections of another network may be no files
		return p, nil
	}
	limit, err := descriptorLimit()
	if err != nil {
		return parts{}, err
	}
	p, err = p.within(limit, len(cfg.Peers)-1)
	if err == nil && p.clients < cfg.Clients.MaxConnections {
		o.Logger.Warn("too few file descriptors for max_connections: clients get what is left beside Raft, the disk "+
			"and HTTP",
			"max_connections", cfg.Clients.MaxConnections, "descriptors", limit, "clients", p.clients)
	}
	return p, err
}
