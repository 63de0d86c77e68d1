package ports

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/secure"
)

// security is the TLS of a node: its certificates, and the sides of its ports.
type security struct {
	// store is nil on a node whose ports all speak without TLS.
	store                     *secure.Store
	raft, peers, client, http *secure.Server
	// zookeeper speaks as client does, to clients of another protocol.
	zookeeper *secure.Server
	// dialRaft and dialPeers connect to these ports of other nodes.
	dialRaft, dialPeers func(ctx context.Context, address string) (net.Conn, error)
}

// Protocols of the ports, as ALPN has them. A caller that takes one port for another is told so by TLS.
func raftProtocols() []string { return []string{"holdfast-raft"} }
func grpcProtocols() []string { return []string{"h2"} }
func httpProtocols() []string { return []string{"http/1.1"} }

// newSecurity loads the certificates of a node. Its error names the setting.
func newSecurity(c *Config) (*security, error) {
	s, cfg := &security{}, &c.Settings
	if cfg.TLS.On() {
		var err error
		if s.store, err = secure.Open(secure.StoreConfig{
			Files: cfg.TLS.Files(), Clock: c.Clock, Logger: c.Logger.Named("tls"),
			Check: func(m *secure.Material, now time.Time) error { return fitting(cfg, m, now) },
		}); err != nil {
			return nil, fmt.Errorf("loading tls_cert, tls_key and tls_ca: %w", err)
		}
	}
	least := uint16(tls.VersionTLS13)
	if cfg.TLS.AllowTLS12 {
		least = tls.VersionTLS12
	}
	nodes := secure.ServerConfig{
		Store: s.store, Mode: cfg.TLS.Nodes, Setting: "node_tls", Port: "raft_listen", Auth: secure.AuthRequire, Nodes: true,
		Names: s.ofNode(cfg), Protocols: raftProtocols(), Mute: true, Logger: c.Logger.Named("tls"),
	}
	s.raft = secure.NewServer(nodes)
	nodes.Port, nodes.Protocols, nodes.Mute = "peer_listen", grpcProtocols(), false
	s.peers = secure.NewServer(nodes)
	callers := secure.ServerConfig{
		Store: s.store, Mode: cfg.TLS.Clients, Setting: "client_tls", Port: "client_listen", Auth: cfg.TLS.ClientAuth,
		Names: ofCluster(cfg.ClusterID), Protocols: grpcProtocols(), MinVersion: least, Logger: c.Logger.Named("tls"),
	}
	s.client = secure.NewServer(callers)
	callers.Port, callers.Protocols = "zk_listen", nil
	s.zookeeper = secure.NewServer(callers)
	callers.Mode, callers.Setting, callers.Port = cfg.TLS.HTTP, "http_tls", "http_listen"
	callers.Auth, callers.Protocols = cfg.TLS.HTTPAuth, httpProtocols()
	s.http = secure.NewServer(callers)
	dialer := func(protocols []string) func(ctx context.Context, address string) (net.Conn, error) {
		return (&secure.Dialer{
			Store: s.store, Mode: cfg.TLS.Nodes, Dial: c.Network.Dial, Names: atAddress(cfg, c.NodeAt), Protocols: protocols,
			Theirs: "node_tls", Ours: fmt.Sprintf("node_tls is %s on node %d: make them the same, by way of prefer",
				cfg.TLS.Nodes, cfg.Node),
		}).DialContext
	}
	s.dialRaft, s.dialPeers = dialer(raftProtocols()), dialer(grpcProtocols())
	return s, nil
}

// fitting refuses certificates with which this node could not work: those of another node or cluster, those that its
// own CAs did not sign, and those that have expired.
func fitting(cfg *config.Config, m *secure.Material, now time.Time) error {
	of, err := secure.NodeOf(m.Pair.Leaf, cfg.ClusterID)
	switch {
	case err != nil:
		return fmt.Errorf("tls_cert %s: %w", cfg.TLS.Cert, err)
	case of != cfg.Node:
		return fmt.Errorf("tls_cert %s: the certificate is of node %d, and this is node %d", cfg.TLS.Cert, of, cfg.Node)
	}
	if err = m.Trusted(now); err != nil {
		return fmt.Errorf("tls_cert %s is not accepted by tls_ca %s: %w", cfg.TLS.Cert, cfg.TLS.CA, err)
	}
	return nil
}

// ofNode takes the certificates of other nodes of the cluster.
func (*security) ofNode(cfg *config.Config) func(*x509.Certificate) error {
	cluster, self := cfg.ClusterID, cfg.Node
	return func(c *x509.Certificate) error {
		of, err := secure.NodeOf(c, cluster)
		switch {
		case err != nil:
			return fmt.Errorf("this is node %d of cluster %q: %w", self, cluster, err)
		case of == self:
			return fmt.Errorf("this is node %d of cluster %q, and so is the owner of the certificate: each number is used "+
				"once", self, cluster)
		}
		return nil
	}
}

// ofCluster refuses the certificates that name another cluster.
func ofCluster(cluster string) func(*x509.Certificate) error {
	return func(c *x509.Certificate) error {
		name, err := secure.NameOf(c)
		if err == nil && name != (secure.Name{}) && name.Cluster != cluster {
			err = fmt.Errorf("this is cluster %q, and the certificate is of %v", cluster, name)
		}
		return err
	}
}

// atAddress takes the certificate of the node that is expected at an address, and of any other node of the cluster
// where none is known to be.
func atAddress(cfg *config.Config, nodeAt func(address string) session.Node,
) func(address string, c *x509.Certificate) error {
	cluster, self := cfg.ClusterID, cfg.Node
	return func(address string, c *x509.Certificate) error {
		of, err := secure.NodeOf(c, cluster)
		if err != nil {
			return fmt.Errorf("node %d of cluster %q dialled it: %w", self, cluster, err)
		}
		if want := nodeAt(address); want != 0 && of != want {
			return fmt.Errorf("node %d dialled node %d there, and the certificate is of node %d: check peers and the "+
				"certificates of both", self, want, of)
		}
		return nil
	}
}

// run loads the files anew when they change, until ctx ends.
func (s *security) run(ctx context.Context) error {
	if s.store == nil {
		return nil
	}
	return s.store.Run(ctx)
}

// stats are zero without TLS.
func (s *security) stats() secure.Stats {
	if s.store == nil {
		return secure.Stats{}
	}
	return s.store.Stats()
}

// refused counts the connections that each port has refused.
func (s *security) refused() Refused {
	return Refused{
		Raft: s.raft.Refused(), Peer: s.peers.Refused(), Client: s.client.Refused(), HTTP: s.http.Refused(),
		ZooKeeper: s.zookeeper.Refused(),
	}
}

// warning says that the files on disk are not those in use, empty when they are.
func (s *security) warning() string {
	if s.store == nil {
		return ""
	}
	if err := s.store.LoadError(); err != nil {
		return "certificates not reloaded: " + err.Error()
	}
	return ""
}
