package ui

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client"
	"holdfast/console"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/loopback"
	"holdfast/test/timeout"
)

// cluster is three nodes in this process, with consoles.
type cluster struct {
	t       *testing.T
	log     io.Writer
	configs []config.Config
	nodes   []*running
	client  *client.Client
}

// running is a node that runs, with what cuts it off.
type running struct {
	stop func()
	net  *cutter
}

// startBound bounds the wait for a cluster.
const startBound = time.Minute

// begin starts a cluster, whose configurations may be changed before.
func begin(t testing.TB, change func(c *config.Config)) *cluster {
	t.Helper()
	c := &cluster{}
	c.t, _ = t.(*testing.T)
	var peers []config.Peer
	at := loopback.Free(t, 4*3)
	for i := range 3 {
		peers = append(peers, config.Peer{Node: session.Node(i + 1), Client: at[4*i], Raft: at[4*i+1], Peer: at[4*i+2]})
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(t.ArtifactDir(), "nodes.log"))
	timeout.Check(t, err)
	t.Cleanup(func() { log.Close() }) //nolint:errcheck // what is missing at its end helps nobody
	c.log = log
	for i, p := range peers {
		cfg := config.Default()
		cfg.Node, cfg.Peers, cfg.DataDir = p.Node, peers, filepath.Join(dir, fmt.Sprint(p.Node))
		cfg.Listen.Client, cfg.Listen.Raft, cfg.Listen.Peer, cfg.Listen.HTTP = p.Client, p.Raft, p.Peer, at[4*i+3]
		if change != nil {
			change(&cfg)
		}
		c.configs = append(c.configs, cfg)
	}
	var serve []<-chan struct{}
	for _, cfg := range c.configs {
		serve = append(serve, c.run(t, cfg))
	}
	bound := time.After(startBound)
	for i, ready := range serve {
		select {
		case <-ready:
		case <-bound:
			timeout.Fatalf(t, "node %d does not serve after %v", i+1, startBound)
		}
	}
	return c
}

// run starts a node. ready is closed once it serves.
func (c *cluster) run(t testing.TB, cfg config.Config) (ready <-chan struct{}) {
	t.Helper()
	r := &running{net: &cutter{http: cfg.Listen.HTTP}}
	n, err := node.New(cfg, node.Options{
		Logger:  hclog.New(&hclog.LoggerOptions{Name: fmt.Sprint("n", cfg.Node), Level: hclog.Info, Output: c.log}),
		Network: r.net, Version: "test", Console: console.ForNode,
	})
	timeout.Check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("node %d: %v", cfg.Node, err)
		}
	})
	t.Cleanup(r.stop)
	c.nodes = append(c.nodes, r)
	return n.Ready()
}

// connect gives the cluster a client, which a test ends.
func (c *cluster) connect(t testing.TB) *client.Client {
	t.Helper()
	return c.connectAs(t, client.Config{})
}

// connectAs is connect for a client that says who it is.
func (c *cluster) connectAs(t testing.TB, cfg client.Config) *client.Client {
	t.Helper()
	for i := range c.configs {
		cfg.Endpoints = append(cfg.Endpoints, c.configs[i].Listen.Client)
	}
	cl, err := client.New(cfg)
	timeout.Check(t, err)
	t.Cleanup(func() { cl.Close() }) //nolint:errcheck // the cluster may be gone
	c.client = cl
	return cl
}

// url returns the address of a page at a node, counted from 0.
func (c *cluster) url(at int, page string) string {
	if c.configs[at].TLS.HTTP.Secure() {
		return "https://" + c.configs[at].Listen.HTTP + "/ui/" + page
	}
	return "http://" + c.configs[at].Listen.HTTP + "/ui/" + page
}

// leader returns which node leads, counted from 0.
func (c *cluster) leader(t testing.TB) int {
	t.Helper()
	members, err := c.client.Members(t.Context())
	timeout.Check(t, err)
	for i, m := range members {
		if m.Leader {
			return i
		}
	}
	t.Fatal("no leader")
	return -1
}

// cutter is TCP that can be cut: connections to other nodes end, and new ones are refused, in both directions.
type cutter struct {
	// http is the address of the port that is never cut.
	http  string
	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
}

// cut cuts the node off the others, but not off its browser: the HTTP port goes on.
func (n *cutter) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isCut = true
	for c := range n.conns {
		c.Close() //nolint:errcheck // it is to be gone
	}
	n.conns = nil
}

func (n *cutter) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isCut = false
}

// keep notes a connection to or from another node, and reports whether it may live.
func (n *cutter) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isCut {
		return false
	}
	if n.conns == nil {
		n.conns = make(map[net.Conn]bool)
	}
	n.conns[c] = true
	return true
}

func (n *cutter) Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if address == n.http {
		return l, err
	}
	return &listener{l, n}, err
}

func (n *cutter) Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if !n.keep(c) {
		c.Close() //nolint:errcheck // it is to be gone
		return nil, net.ErrClosed
	}
	return c, nil
}

// listener refuses connections while the node is cut off.
type listener struct {
	net.Listener
	cutter *cutter
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.cutter.keep(c) {
			return c, err
		}
		c.Close() //nolint:errcheck // it is to be gone
	}
}
