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
func (r *running) stop(tb testing.TB) {
	tb.Helper()
	whole.StopAll(tb, r.Life)
}

// startBound bounds the wait for a cluster.
const startBound = time.Minute

// begin starts a cluster, whose configurations may be changed before.
func begin(tb testing.TB, change func(c *config.Config)) *cluster {
	tb.Helper()
	c := &cluster{}
	c.t, _ = tb.(*testing.T)
	log, err := os.Create(filepath.Join(tb.ArtifactDir(), "nodes.log"))
	timeout.Check(tb, err)
	tb.Cleanup(func() { log.Close() }) // what is missing at its end helps nobody
	c.log = log
	c.configs = whole.OnLoopback(tb, 3)
	for i := range c.configs {
		if change != nil {
			change(&c.configs[i])
		}
	}
	for _, cfg := range c.configs {
		c.run(tb, cfg)
	}
	bound := time.After(startBound)
	for i, n := range c.nodes {
		select {
		case <-n.Ready():
		case <-bound:
			timeout.Fatalf(tb, "node %d does not serve after %v", i+1, startBound)
		}
	}
	return c
}

// run starts a node, which runs until the end of the test unless it is stopped before.
func (c *cluster) run(tb testing.TB, cfg config.Config) {
	tb.Helper()
	cut := &cutter{http: cfg.Listen.HTTP}
	n, err := whole.Begin(cfg, node.Options{
		Logger:   hclog.New(&hclog.LoggerOptions{Name: fmt.Sprint("n", cfg.Node), Level: hclog.Info, Output: c.log}),
		Platform: node.Platform{Network: cut}, Console: console.ForNode,
	})
	timeout.Check(tb, err)
	r := &running{n, cut}
	tb.Cleanup(func() { r.stop(tb) })
	c.nodes = append(c.nodes, r)
}

// connect gives the cluster a client, which a test ends.
func (c *cluster) connect(tb testing.TB) *client.Client {
	tb.Helper()
	return c.connectAs(tb, client.Config{})
}

// connectAs is connect for a client that says who it is.
func (c *cluster) connectAs(tb testing.TB, cfg client.Config) *client.Client {
	tb.Helper()
	for i := range c.configs {
		cfg.Endpoints = append(cfg.Endpoints, c.configs[i].Listen.Client)
	}
	cl, err := client.New(cfg)
	timeout.Check(tb, err)
	tb.Cleanup(func() { cl.Close() }) // the cluster may be gone
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
func (c *cluster) leader(tb testing.TB) int {
	tb.Helper()
	members, err := c.client.Members(tb.Context())
	timeout.Check(tb, err)
	for i, m := range members {
		if m.Leader {
			return i
		}
	}
	tb.Fatal("no leader")
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
		c.Close() // it is to be gone
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
		c.Close() // it is to be gone
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
		c.Close() // it is to be gone
	}
}
