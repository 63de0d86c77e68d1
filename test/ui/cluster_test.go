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
	"holdfast/test/timeout"
	"holdfast/test/whole"
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
	*whole.Life
	net *cutter
}

// stop stops the node, if it runs.
func (r *running) stop(t testing.TB) {
	t.Helper()
	whole.StopAll(t, r.Life)
}

// startBound bounds the wait for a cluster.
const startBound = time.Minute

// begin starts a cluster, whose configurations may be changed before.
func begin(t testing.TB, change func(c *config.Config)) *cluster {
	t.Helper()
	c := &cluster{}
	c.t, _ = t.(*testing.T)
	log, err := os.Create(filepath.Join(t.ArtifactDir(), "nodes.log"))
	timeout.Check(t, err)
	t.Cleanup(func() { log.Close() }) //nolint:errcheck // what is missing at its end helps nobody
	c.log = log
	c.configs = whole.OnLoopback(t, 3)
	for i := range c.configs {
		if change != nil {
			change(&c.configs[i])
		}
	}
	for _, cfg := range c.configs {
		c.run(t, cfg)
	}
	bound := time.After(startBound)
	for i, n := range c.nodes {
		select {
		case <-n.Ready():
		case <-bound:
			timeout.Fatalf(t, "node %d does not serve after %v", i+1, startBound)
		}
	}
	return c
}

// run starts a node, which runs until the end of the test unless it is stopped before.
func (c *cluster) run(t testing.TB, cfg config.Config) {
	t.Helper()
	net := &cutter{http: cfg.Listen.HTTP}
	n, err := whole.Begin(cfg, node.Options{
		Logger:  hclog.New(&hclog.LoggerOptions{Name: fmt.Sprint("n", cfg.Node), Level: hclog.Info, Output: c.log}),
		Network: net, Console: console.ForNode,
	})
	timeout.Check(t, err)
	r := &running{n, net}
	t.Cleanup(func() { r.stop(t) })
	c.nodes = append(c.nodes, r)
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
