package node

import (
	"context"

	"holdfast/node/ports"
	"holdfast/session"
	"holdfast/transport/clientport"
	"holdfast/transport/dial"
	"holdfast/zk"
)

// bindPorts binds the ports of this node.
func (n *Node) bindPorts() (*ports.Ports, error) {
	return ports.Bind(ports.Config{
		Logger: n.options.Logger, Audit: n.options.Audit, Settings: n.cfg, Origins: n.options.Origins,
		Version: n.options.Version, Network: n.options.Platform.Network, Clock: n.options.Platform.Clock,
		Console: n.options.Console, NodeAt: n.membership.NodeAt,
	})
}

// services returns what the ports serve.
func (n *Node) services() ports.Services {
	return ports.Services{
		Clients: n.traces.service(n.server), Cluster: n, Admin: n.server, Drains: n.drain, Members: n.operator,
		Snapshots: n.backups,
		Leader:    n, MayFollow: n.mayFollow,
		Health:        func() error { return n.health.Check() },
		HealthWarning: func() string { return n.health.Warning() },
		Glance:        n.glance, Removed: n.admission.WasRemoved,
		Metrics: n.newRegistry(), Touched: n.timings.ObserveTouch, Delivered: n.timings.ObserveEvent,
		ZooKeeperStats: n.zooKeeperStats,
		IsMember:       func(node session.Node) bool { return n.membership.DirectoryOf(node) != 0 },
	}
}

// mayFollow reports whether a node may follow over the peer port. This node's own relay does not come over the port: a
// stream that names this node is a stranger's. It would end the stream of the own relay, and the tracker too if it
// answered with a newer term.
func (n *Node) mayFollow(node session.Node) bool { return node != n.cfg.Node && n.view.has(node) }

func (n *Node) peerDial(address string) dial.PeerConfig {
	return dial.PeerConfig{Address: address, ClusterID: n.cfg.ClusterID, Dial: n.ports.DialPeer}
}

// glance returns what the console shows of this node.
func (n *Node) glance() clientport.NodeStatus {
	s, _ := n.Status(context.Background()) //nolint:forbidigo // it does not fail, and waits for nothing
	s.Excluded, _ = n.server.Excluded()
	return s
}

// zooKeeperStats returns what four-letter words tell of the node.
func (n *Node) zooKeeperStats() zk.NodeStats {
	t := n.treeStatus()
	//nolint:gosec // counters
	return zk.NodeStats{
		Release: n.options.Version, Leads: n.Leads(), Members: len(n.membership.Members()), Node: n.cfg.Node,
		Entries: int64(t.Entries), Ephemerals: int64(t.Ephemerals), Bytes: int64(t.Bytes), Watches: int64(t.Watches),
		Sessions: int64(n.view.Sessions()), DataDir: n.cfg.DataDir, ClientPort: n.cfg.Listen.ZooKeeper,
		MaxConnections: n.cfg.RateLimits.MaxConnectionsPerAddress,
		MinTimeout:     n.cfg.Sessions.MinTimeout, MaxTimeout: n.cfg.Sessions.MaxTimeout,
	}
}
