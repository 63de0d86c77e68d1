package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/certs"
	"holdfast/test/sim/simnet"
	"holdfast/transport/raftnet"
	"holdfast/transport/secure"
)

// secureCluster is a cluster whose nodes have certificates.
type secureCluster struct {
	*testCluster
	ca    *certs.CA
	files map[session.Node]secure.Files
	// modes are what the nodes speak with each other. A node takes up a change with its next start.
	modes map[session.Node]secure.Mode
	// more changes the configurations further; it may be nil.
	more func(cfg *config.Config)
}

// newSecureCluster starts three nodes that speak with each other as mode says.
func newSecureCluster(t *testing.T, mode secure.Mode) *secureCluster {
	t.Helper()
	return newSecureClusterWith(t, mode, nil)
}

func newSecureClusterWith(t *testing.T, mode secure.Mode, more func(cfg *config.Config)) *secureCluster {
	t.Helper()
	c := &secureCluster{
		ca: certs.New(t), files: map[session.Node]secure.Files{}, modes: map[session.Node]secure.Mode{}, more: more,
	}
	for node := session.Node(1); node <= 3; node++ {
		c.files[node] = c.ca.Node(config.Default().ClusterID, node, fmt.Sprintf("n%d", node))
		c.files[node] = c.ownCA(c.files[node])
		c.modes[node] = mode
	}
	c.testCluster = newTestCluster(t, 3, c.set)
	return c
}

// ownCA gives a node a file of CAs of its own.
func (c *secureCluster) ownCA(f secure.Files) secure.Files {
	f.CA = f.Cert + ".ca"
	certs.Write(c.ca.T(), f.CA, c.ca.PEM())
	return f
}

func (c *secureCluster) set(cfg *config.Config) {
	f, mode := c.files[cfg.Node], c.modes[cfg.Node]
	cfg.TLS = config.TLS{
		Nodes: mode, Clients: mode, HTTP: mode, Cert: f.Cert, Key: f.Key, CA: f.CA,
	}
	if c.more != nil {
		c.more(cfg)
	}
}

// serve waits until all nodes serve.
func (c *secureCluster) serve() {
	c.t.Helper()
	c.eventually("all serve", 2*within, func() bool {
		for _, n := range c.nodes {
			if n.health.Check() != nil {
				return false
			}
		}
		return true
	})
}

// dialled returns how a new host dials with a certificate.
func (c *secureCluster) dialled(from string, cert secure.Files, mode secure.Mode,
) func(context.Context, string) (net.Conn, error) {
	c.t.Helper()
	return c.over(c.Host(from), cert, mode)
}

func (c *secureCluster) over(host *simnet.Host, cert secure.Files, mode secure.Mode,
) func(context.Context, string) (net.Conn, error) {
	c.t.Helper()
	d := secure.Dialer{
		Mode: mode, Dial: host.Dial, Ours: "this is a stranger", Theirs: "node_tls",
		ServerName: "localhost",
	}
	if mode != secure.Off {
		store, err := secure.Open(secure.StoreConfig{Files: cert})
		if err != nil {
			c.t.Fatal(err)
		}
		d.Store = store
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		as := d
		as.Protocols = []string{"h2"}
		if strings.HasSuffix(address, ":7401") {
			as.Protocols = []string{"holdfast-raft"}
		}
		if strings.HasSuffix(address, ":7404") {
			as.Protocols = nil // ZooKeeper's clients name none
		}
		if strings.HasSuffix(address, ":7403") {
			as.Protocols = []string{"http/1.1"}
		}
		return as.DialContext(ctx, address)
	}
}

// Whole nodes speak TLS with each other, elect, commit, and go on when one of them has ended.
func TestAClusterOverTLS(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newSecureCluster(t, secure.Require)
		defer c.stop()
		c.serve()
		lead := c.leader(within)
		granted := c.mustOpen(c.others(lead)[0], within)
		c.agree(within)
		c.kill(lead)
		next := c.leader(within, lead)
		if _, err := next.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
			t.Errorf("a session from before: %v", err)
		}
		c.start(lead)
		c.serve()
		for _, n := range c.nodes {
			if s := n.ports.Stats().Refused; s.Raft != 0 || s.Peer != 0 {
				t.Errorf("%s refused members: %s", n.name, n.log)
			}
		}
	})
}

// Nothing that a stranger says gets past the handshake: not what Raft would believe, and not what a leader would.
// The last stranger is the control: with a node's own certificate its messages arrive.
func TestNothingOfAStrangerGetsPastTheHandshake(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newSecureCluster(t, secure.Require)
		defer c.stop()
		c.serve()
		lead := c.leader(within)
		as := c.others(lead)[0]
		foreign, cluster := certs.New(t), lead.cfg.ClusterID
		third := c.others(as)
		other := third[0]
		if other == lead {
			other = third[1]
		}
		for _, tt := range []struct {
			name  string
			mode  secure.Mode
			files secure.Files
			// says is what the nodes log; none for the control.
			says string
		}{
			{
				"without TLS", secure.Off,
				secure.Files{},
				"it speaks without TLS, and this port requires TLS: node_tls is require here",
			},
			{"without a certificate", secure.Require, secure.Files{CA: c.ca.File}, "didn't provide a certificate"},
			{
				"with a certificate of another CA", secure.Require, withCA(foreign.Node(cluster, as.cfg.Node), c.ca),
				"its certificate is not accepted: it is of node",
			},
			{
				"with a node's certificate of another cluster", secure.Require, c.ca.Node("elsewhere", as.cfg.Node),
				`of cluster "elsewhere", want a node of cluster "holdfast"`,
			},
			{
				"with a client's certificate", secure.Require, c.ca.Client(cluster, "eve"),
				`the certificate is of client eve of cluster "holdfast", want a node of cluster "holdfast"`,
			},
			{"with the certificate of another node", secure.Require, c.files[other.cfg.Node], "with the certificate of node"},
			{"with its own certificate", secure.Require, c.files[as.cfg.Node], ""},
		} {
			c.strange(tt.name, lead, as, func(host *simnet.Host) func(context.Context, string) (net.Conn, error) {
				return c.over(host, tt.files, tt.mode)
			}, tt.says)
		}
		c.mustOpen(c.leader(within), within)
		c.agree(within)
	})
}

func withCA(f secure.Files, ca *certs.CA) secure.Files {
	f.CA = ca.File
	return f
}

// strange says everything that a node can say, in the name of as, to lead. says is what lead logs of it.
func (c *secureCluster) strange(kind string, lead, as *testNode,
	over func(*simnet.Host) func(context.Context, string) (net.Conn, error), says string,
) {
	t := c.t
	t.Helper()
	refused := says != ""
	time.Sleep(11 * time.Second) // changed files are loaded within 10 s, and a refusal is logged at most every 10 s
	before, term := len(lead.log.String()), lead.membership.Term()
	host := c.Host("stranger")
	listener, err := host.Listen("stranger:7401")
	if err != nil {
		t.Fatal(err)
	}
	dials := over(host)
	s := stranger{raftnet.New(raftnet.Config{
		ClusterID: lead.cfg.ClusterID, Settings: lead.cfg.ClusterSettings(), Node: as.cfg.Node,
		Key: as.dir.Identity().Key, Advertise: "stranger:7401", Listener: listener, Dial: dials,
	}), c.testCluster, dials}
	tr := raftnet.NewTransport(s.Layer, 0).NetworkTransport
	for name, request := range absurd(lead, as) {
		told := say(tr, raftnet.At(lead.name+":7401", lead.membership.OwnDirectory()), request)
		if told == nil {
			t.Errorf("%s: %s was not refused", kind, name)
		}
		said := fmt.Sprint(told)
		if handshake := strings.Contains(said, "TLS") || strings.Contains(said, "certificate"); handshake != refused {
			t.Errorf("%s: %s: %v; refused by the handshake: want %v", kind, name, told, refused)
		}
	}
	defer func() { _ = tr.Close() }()
	if _, err = s.Meet(t.Context(), lead.name+":7401", []byte("{}")); (err != nil) != refused {
		t.Errorf("%s: meeting: %v", kind, err)
	}
	hello := as.streams.Newest()
	hello.Incarnation++ // a later process's, which the leader would take
	link, err := s.follow(lead, hello)
	if err == nil {
		_ = link.Close()
	}
	if (err != nil) != refused {
		t.Errorf("%s: following: %v", kind, err)
	}
	if !refused {
		return
	}
	if got := strings.ReplaceAll(lead.log.String()[before:], `\"`, `"`); !strings.Contains(got, says) {
		t.Errorf("%s: the log does not say %q:\n%s", kind, says, got)
	}
	if lead.membership.Term() != term {
		t.Errorf("term %d, was %d", lead.membership.Term(), term)
	}
}

// A node whose certificate is not its own does not start, and says whose it is.
func TestANodeStartsWithItsOwnCertificateOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newSecureCluster(t, secure.Require)
		defer c.stop()
		c.serve()
		foreign := certs.New(t)
		n := c.nodes[0]
		good := c.files[1]
		for name, tt := range map[string]struct {
			files secure.Files
			says  string
		}{
			"another node's":  {c.files[2], "the certificate is of node 2, and this is node 1"},
			"another cluster": {c.ca.Node("elsewhere", 1), `node 1 of cluster "elsewhere", want a node of cluster "holdfast"`},
			"a client's":      {c.ca.Client("holdfast", "ann"), "client ann"},
			"another CA's":    {withCA(foreign.Node("holdfast", 1), c.ca), "is not accepted by tls_ca"},
			"no file":         {secure.Files{Cert: "/nowhere/c", Key: "/nowhere/k", CA: c.ca.File}, "/nowhere/c"},
		} {
			if failed := c.end(n); failed != nil {
				t.Error(failed)
			}
			c.files[1] = tt.files
			made, err := c.make(n)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v, want %q", name, err, tt.says)
			}
			if err == nil {
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_ = made.Run(ended)
			}
			c.files[1] = good
			c.start(n)
		}
		c.serve()
	})
}

// From plain to TLS and back, one node after the other, by way of prefer: a session that is open all the time lives on,
// and the cluster serves after each step. Without prefer between, the two sides are told.
func TestChangeToTLSAndBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newSecureCluster(t, secure.Off)
		defer c.stop()
		c.serve()
		granted := c.mustOpen(c.leader(within), within)
		roll := func(mode secure.Mode) {
			t.Helper()
			for _, n := range c.nodes {
				c.modes[n.cfg.Node] = mode
				c.restart(n)
				c.serve()
				_, err := c.leader(within).server.Find(t.Context(), granted.Session.ID, session.ReadOptions{})
				if err != nil {
					t.Fatalf("%s is %s: the session: %v", n.name, mode, err)
				}
				c.agree(within)
			}
		}
		for _, mode := range []secure.Mode{secure.Prefer, secure.Require, secure.Prefer, secure.Off} {
			roll(mode)
			as := map[bool]secure.Mode{true: secure.Require, false: secure.Off}[mode.Secure()]
			conn, err := c.dialled("stranger", c.files[3], as)(t.Context(), "n1:7401")
			if err != nil {
				t.Fatalf("after the change to %s: %v", mode, err)
			}
			_ = conn.Close()
		}
		// One step too many: the other nodes speak without TLS.
		n := c.nodes[0]
		c.modes[1] = secure.Require
		c.restart(n)
		c.eventually("both sides are told", within, func() bool {
			said := c.nodes[1].log.String()
			return strings.Contains(n.log.String(), "node_tls is require here") &&
				strings.Contains(said, "node_tls is require there")
		})
		if n.health.Check() == nil {
			t.Error("it serves, and speaks with nobody")
		}
		c.modes[1] = secure.Off
		c.restart(n)
		c.serve()
	})
}

// The certificates and the CA of a whole cluster are replaced while it runs: nothing restarts, and no session is lost.
// Connections of the former CA end once it is gone.
func TestRotationOfTheCA(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newSecureCluster(t, secure.Require)
		defer c.stop()
		c.serve()
		lead := c.leader(within)
		granted := c.mustOpen(lead, within)
		former := c.ca
		next := certs.New(t)
		all := func(do func(node session.Node, f secure.Files)) {
			for node, f := range c.files {
				do(node, f)
			}
			time.Sleep(11 * time.Second) // changed files are loaded within 10 s
			for _, n := range c.nodes {
				if complaint := n.ports.Warning(); complaint != "" {
					t.Fatal(complaint)
				}
			}
		}
		all(func(_ session.Node, f secure.Files) { certs.Write(t, f.CA, former.PEM(), next.PEM()) })
		all(func(node session.Node, f secure.Files) {
			next.Replace(f, secure.NodeName("holdfast", node), certs.Always(), fmt.Sprintf("n%d", node))
		})
		term := lead.membership.Term()
		if lead != c.leader(within) {
			t.Error("another node leads, though no connection had to end")
		}
		for _, n := range c.nodes {
			if got := n.ports.Stats().TLS; got.Closed != 0 || got.Reloads < 2 {
				t.Errorf("%s: %d reloads, %d connections closed; want 2 and none", n.name, got.Reloads, got.Closed)
			}
		}
		if got := lead.membership.Term(); got != term {
			t.Errorf("term %d, was %d", got, term)
		}
		all(func(_ session.Node, f secure.Files) { certs.Write(t, f.CA, next.PEM()) })
		closed := uint64(0)
		for _, n := range c.nodes {
			closed += n.ports.Stats().TLS.Closed
		}
		if closed == 0 {
			t.Error("connections that the former CA vouched for go on")
		}
		c.serve()
		if _, err := c.leader(within).server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
			t.Errorf("the session: %v", err)
		}
		outdated := withCA(former.Node("holdfast", 3), next)
		conn, err := c.dialled("stranger", outdated, secure.Require)(t.Context(), "n1:7401")
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		if !errors.Is(err, session.ErrTLS) {
			t.Errorf("a certificate of the former CA: %v", err)
		}
		c.agree(within)
	})
}

// absurd are requests that a node refuses, in the name of as.
func absurd(lead, as *testNode) map[string]any {
	const term = ^uint64(0) - 1
	header := raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(raftnet.ServerID(as.cfg.Node, as.membership.OwnDirectory())),
		Addr: []byte(raftnet.At(as.name+":7401", as.membership.OwnDirectory())),
	}
	return map[string]any{
		"append":    &raft.AppendEntriesRequest{RPCHeader: header, Term: term, PrevLogEntry: 1, PrevLogTerm: 1},
		"heartbeat": &raft.AppendEntriesRequest{RPCHeader: header, Term: term},
		"vote":      &raft.RequestVoteRequest{RPCHeader: header, Term: term, LastLogIndex: 1, LeadershipTransfer: true},
		"pre-vote":  &raft.RequestPreVoteRequest{RPCHeader: header, Term: term, LastLogIndex: 1},
		"snapshot": &raft.InstallSnapshotRequest{
			RPCHeader: header, SnapshotVersion: 1, Term: term, LastLogTerm: 1, LastLogIndex: 1, Size: 7,
			Configuration: raft.EncodeConfiguration(lead.consensus.Raft.GetConfiguration().Configuration()),
		},
	}
}
