// Package whole runs whole nodes in the process of a test: three in a bubble of [testing/synctest], or any number on
// loopback. It is for tests of programs that clients build on them.
package whole

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"holdfast/client"
	"holdfast/learner"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/node/health"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
	"holdfast/transport/authz"
)

// Cluster is three whole nodes and their clients in a bubble.
type Cluster struct {
	*simnet.Network
	// T is the bubble's.
	T *testing.T
	// Names are the names of the nodes' hosts.
	Names []string
	// Setup is how the nodes differ from the default. Dir has their data directories.
	Setup Setup
	Dir   string
}

// Setup describes how the nodes of a cluster differ from the default. The zero value is the default.
type Setup struct {
	// Change changes each configuration.
	Change func(cfg *config.Config)
	// Spans returns the exporter of a node's spans.
	Spans func(of session.Node) sdktrace.SpanExporter
	// Log gets the log of all nodes, at the level trace.
	Log io.Writer
	// WatchLimits bounds the changes that each node keeps for watches.
	WatchLimits learner.WatchLimits
	// Disk returns how much room the disk of a node has; nil: half of it is free.
	Disk func(of session.Node) health.Disk
}

// logger returns the logger of a node.
func (s Setup) logger(name string) hclog.Logger {
	if s.Log == nil {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Trace, Output: s.Log})
}

// Run runs f in a bubble, with a cluster whose nodes are ready.
func Run(t *testing.T, f func(c *Cluster)) {
	t.Helper()
	RunSetup(t, Setup{}, f)
}

// RunSetup is Run with nodes of a setup.
func RunSetup(t *testing.T, setup Setup, f func(c *Cluster)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		c := &Cluster{
			Network: simnet.New(func(string, string) time.Duration { return time.Millisecond }), T: t,
			Names: []string{"n1", "n2", "n3"}, Setup: setup, Dir: t.TempDir(),
		}
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
		nodes := c.start()
		defer StopAll(t, nodes...)
		for _, n := range nodes {
			if err := n.Serves(); err != nil {
				t.Fatal(err)
			}
		}
		f(c)
	})
}

func (c *Cluster) start() (nodes []*Life) {
	var peers []config.Peer
	for i := range c.Names {
		peers = append(peers, PeerOf(i))
	}
	for i, name := range c.Names {
		cfg := config.Default()
		cfg.Auth.Mode = authz.None
		cfg.Node, cfg.DataDir, cfg.Peers = peers[i].Node, filepath.Join(c.Dir, name), peers
		if c.Setup.Change != nil {
			c.Setup.Change(&cfg)
		}
		o := node.Options{
			Logger:   c.Setup.logger(name),
			Platform: node.Platform{Network: c.Host(name), WatchLimits: c.Setup.WatchLimits},
		}
		if c.Setup.Spans != nil {
			o.Platform.Spans = c.Setup.Spans(cfg.Node)
		}
		if c.Setup.Disk != nil {
			o.Platform.Measures.Disk = func() (health.Disk, error) { return c.Setup.Disk(cfg.Node), nil }
		}
		n, err := Begin(cfg, o)
		if err != nil {
			c.T.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// Client returns a client on its own host, with a unique name. A test may kill the host.
func (c *Cluster) Client(host string) *client.Client {
	c.T.Helper()
	return c.ClientWith(host, nil)
}

// ClientWith is Client with TLS.
func (c *Cluster) ClientWith(host string, tls *client.TLS) *client.Client {
	c.T.Helper()
	var endpoints []string
	for _, n := range c.Names {
		endpoints = append(endpoints, n+":7400")
	}
	cl, err := client.New(client.Config{Endpoints: endpoints, Dial: c.Host(host).Dial, TLS: tls})
	if err != nil {
		c.T.Fatal(err)
	}
	return cl
}

// Session opens a session of a client.
func (c *Cluster) Session(cl *client.Client, timeout time.Duration) *client.Session {
	c.T.Helper()
	s, err := cl.Open(context.Background(), client.SessionOptions{Timeout: timeout})
	if err != nil {
		c.T.Fatal(err)
	}
	return s
}

// Apart cuts the nodes off from each other. heal connects them again.
func (c *Cluster) Apart() (heal func()) {
	each := func(do func(from, to string)) {
		for _, from := range c.Names {
			for _, to := range c.Names {
				if from != to {
					do(from, to)
				}
			}
		}
	}
	each(c.Cut)
	return func() { each(c.Heal) }
}

// Sum adds up a metric without labels over all nodes.
func (c *Cluster) Sum(name string) (sum int) {
	c.T.Helper()
	web := Browser(c.Host("operator"))
	for _, n := range c.Names {
		value, err := Metric(web, "http://"+n+":7403/metrics", name)
		if err != nil {
			c.T.Fatal(err)
		}
		sum += value
	}
	return sum
}

// Browser returns a client for pages of nodes that calls from a host.
func Browser(from *simnet.Host) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return from.Dial(ctx, address)
		},
		DisableKeepAlives: true,
	}}
}

// Metric reads a metric without labels from a page.
func Metric(web *http.Client, url, name string) (int, error) {
	answer, err := web.Get(url) //nolint:noctx // nothing on a page waits
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, errors.Join(fmt.Errorf("%s: no metric %s", url, name), lines.Err())
}
