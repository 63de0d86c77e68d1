package ports

import (
	"context"
	"crypto/x509"
	"net"
	"slices"

	"holdfast/auth"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/authz"
	"holdfast/zk"
)

// newZooKeeper returns the front end for ZooKeeper's clients, nil on a node that does not serve them.
func (p *Ports) newZooKeeper(s Services) *zk.Server {
	if p.listeners.zookeeper == nil {
		return nil
	}
	settings := &p.cfg.Settings
	audit := p.access.audit.LaterSupers
	if settings.Tree.Super == "" {
		audit = nil // nobody can be super
	}
	return zk.New(zk.Config{
		Logger:    p.cfg.Logger.Named("zookeeper"),
		Limiter:   p.client.Limiter(),
		Access:    zooKeeperAccess{p.access.authorizer},
		Census:    p.census,
		Super:     settings.Tree.Super,
		Audit:     audit,
		Words:     wordsOf(settings),
		NodeStats: s.ZooKeeperStats,
		Members:   func() string { return "" },
		KeepsLocal: func(other session.Node) bool {
			return settings.Sessions.Local && other != settings.Node && s.IsMember(other)
		},
	}, s.Clients)
}

// wordsOf returns the four-letter words that a node answers. A client of a read-only server asks the others whether
// they take writes, and stays where it is until one says so. So a node that may be read-only answers that word whatever
// zk_4lw_commands are, as ZooKeeper does.
func wordsOf(cfg *config.Config) []string {
	words := cfg.ZooKeeper.Allowed()
	if cfg.ReadOnly && !slices.Contains(words, "isro") {
		words = append(words, "isro")
	}
	return words
}

// zooKeeperAccess asks for roles on ZooKeeper's port: a client needs the role client, and who asks for a four-letter
// word client or reader.
type zooKeeperAccess struct{ authorizer *authz.Authorizer }

// Connect admits a client.
func (a zooKeeperAccess) Connect(certificate *x509.Certificate, from net.Addr) (zk.Caller, error) {
	return a.authorizer.Connection("ZooKeeper's connect", auth.Client, namesOf(certificate), from)
}

// Word admits somebody who asks for a word.
func (a zooKeeperAccess) Word(certificate *x509.Certificate, from net.Addr) error {
	_, err := a.authorizer.Connection("ZooKeeper's four-letter word", auth.Client|auth.Reader, namesOf(certificate), from)
	return err
}

func namesOf(certificate *x509.Certificate) []string {
	if certificate == nil {
		return nil
	}
	return auth.CertificateNames(certificate)
}

// serveZooKeeper serves ZooKeeper's clients until the port is stopped.
func (p *Ports) serveZooKeeper() error {
	if p.front == nil {
		return nil
	}
	return p.front.Serve(p.listeners.zookeeper)
}

// stopZooKeeper stops the server of the ZooKeeper port.
func (p *Ports) stopZooKeeper(ctx context.Context) error {
	if p.front == nil {
		return nil
	}
	return p.front.Stop(ctx)
}
