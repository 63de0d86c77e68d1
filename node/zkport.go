package node

import (
	"context"
	"crypto/x509"
	"net"
	"slices"

	"holdfast/auth"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/zk"
)

// newZooKeeper returns the front end for ZooKeeper's clients, nil on a node that does not serve them.
func newZooKeeper(n *Node, l net.Listener) *zk.Server {
	if l == nil {
		return nil
	}
	audit := n.ports.access.audit.LaterSupers
	if n.cfg.Tree.Super == "" {
		audit = nil // nobody can be super
	}
	return zk.New(zk.Config{
		Logger:    n.options.Logger.Named("zookeeper"),
		Limiter:   n.ports.client.Limiter(),
		Access:    zooKeeperAccess{n.ports.access},
		Census:    n.ports.census,
		Super:     n.cfg.Tree.Super,
		Audit:     audit,
		Words:     wordsOf(n.cfg),
		NodeStats: n.zooKeeperStats,
		Members:   func() string { return "" },
		KeepsLocal: func(other session.Node) bool {
			return n.cfg.Sessions.Local && other != n.cfg.Node && n.membership.DirectoryOf(other) != 0
		},
	}, n.traces.service(n.server))
}

// wordsOf returns the four-letter words that a node answers. A client of a read-only server asks the others whether
// they take writes, and stays where it is until one says so. So a node that may be read-only answers that word whatever
// zk_4lw_commands are, as ZooKeeper does.
func wordsOf(cfg config.Config) []string {
	words := cfg.ZooKeeper.Allowed()
	if cfg.ReadOnly && !slices.Contains(words, "isro") {
		words = append(words, "isro")
	}
	return words
}

// zooKeeperAccess asks for roles on ZooKeeper's port: a client needs the role client, and who asks for a four-letter
// word client or reader.
type zooKeeperAccess struct{ access *access }

// Connect admits a client.
func (a zooKeeperAccess) Connect(certificate *x509.Certificate, from net.Addr) (zk.Caller, error) {
	return a.access.Connection("ZooKeeper's connect", auth.Client, namesOf(certificate), from)
}

// Word admits somebody who asks for a word.
func (a zooKeeperAccess) Word(certificate *x509.Certificate, from net.Addr) error {
	_, err := a.access.Connection("ZooKeeper's four-letter word", auth.Client|auth.Reader, namesOf(certificate), from)
	return err
}

func namesOf(certificate *x509.Certificate) []string {
	if certificate == nil {
		return nil
	}
	return auth.CertificateNames(certificate)
}

// serveZooKeeper serves ZooKeeper's clients until the port is stopped.
func (p *ports) serveZooKeeper() error {
	if p.front == nil {
		return nil
	}
	return p.front.Serve(p.zookeeper)
}

// stopZooKeeper stops that.
func (p *ports) stopZooKeeper(ctx context.Context) error {
	if p.front == nil {
		return nil
	}
	return p.front.Stop(ctx)
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
