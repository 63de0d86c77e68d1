package system

import (
	"context"
	"time"

	"holdfast/test/proc"
)

// ZooServed is a Cluster that serves ZooKeeper's clients.
type ZooServed interface {
	Bounded
	// ZooAddresses are the servers' ports for such clients, in the order of the servers.
	ZooAddresses() []string
	// ZooTimeout is the timeout of the session of a client to which the server has granted one.
	ZooTimeout(granted time.Duration) time.Duration
}

// ZooAddresses are the servers' ports.
func (e *ensemble) ZooAddresses() []string { return e.addresses }

// ZooTimeout is the granted timeout.
func (*ensemble) ZooTimeout(granted time.Duration) time.Duration { return granted }

// ZooPort is a build of Holdfast, spoken to as ZooKeeper's clients do, at the port for them.
type ZooPort struct{ Holdfast }

// Name is that of the column.
func (z ZooPort) Name() string { return z.Column + ", ZooKeeper's port" }

// Start starts the nodes.
func (z ZooPort) Start(ctx context.Context, dir string, size int) (Cluster, error) {
	n, err := z.start(ctx, dir, size, func(n *nodes, i int) []string {
		return []string{"--zk-listen", n.address(i, zoo)}
	})
	if err != nil {
		return nil, err
	}
	return &zooNodes{n}, nil
}

// zooNodes are a cluster of Holdfast that serves ZooKeeper's clients.
type zooNodes struct{ *nodes }

// ZooAddresses are the nodes' ports.
func (n *zooNodes) ZooAddresses() []string {
	var all []string
	for i := range n.all {
		all = append(all, n.address(i, zoo))
	}
	return all
}

// ZooTimeout is 7/6 of the granted timeout (Z4).
func (*zooNodes) ZooTimeout(granted time.Duration) time.Duration { return granted * 7 / 6 }

// Connect makes a client whose sessions are at one node. Each session is a connection.
func (n *zooNodes) Connect(ctx context.Context, server int) (Conn, error) {
	return newZooConn(ctx, n.address(server, zoo)), nil
}

// Watchers makes clients of a node. A client is a connection.
func (n *zooNodes) Watchers(ctx context.Context, server, count int) ([]Watcher, error) {
	return zooWatchers(ctx, n.address(server, zoo), count), nil
}

// Most is bounded as that of ZooKeeper is.
func (n *zooNodes) Most() int { return zooMost(len(n.all)) }

// zooMost is bounded by the files of this process, and by the ports of loopback: some 28,000 for each server.
func zooMost(size int) int {
	const spare, ports = 500, 25_000
	return min(proc.Files()-spare, size*ports)
}
