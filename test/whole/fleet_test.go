package whole_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/loopback"
	"holdfast/test/sim/simnet"
	"holdfast/transport/guard"
)

// fleet are nodes that a test stops and starts in order, on a simulated network or on loopback.
type fleet struct {
	t     *testing.T
	dir   string
	peers []config.Peer
	// listens are the addresses that each node binds; none: those by default, on the node's host.
	listens []config.Listen
	net     *simnet.Network
	nodes   []*running
	// options change those of a node.
	options []func(i int, o *node.Options)
	// configure changes the configuration of a node that begins.
	configure func(i int, c *config.Config)
}

// running is one life of a node.
type running struct {
	*node.Node
	stop  context.CancelFunc
	ended chan error
}

// simulated returns a fleet whose nodes have hosts n1, n2 and so on in a bubble.
func simulated(t *testing.T, size int, options ...func(i int, o *node.Options)) *fleet {
	t.Helper()
	time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
	f := &fleet{
		t: t, dir: t.TempDir(), options: options,
		net: simnet.New(func(string, string) time.Duration { return time.Millisecond }),
	}
	for i := range size {
		f.peers = append(f.peers, peerOf(i))
	}
	f.begin()
	return f
}

// peerOf returns where node i of a simulated fleet is.
func peerOf(i int) config.Peer {
	host := fmt.Sprintf("n%d", i+1)
	return config.Peer{Node: session.Node(i + 1), Raft: host + ":7401", Peer: host + ":7402", Client: host + ":7400"}
}

// onLoopback returns a fleet on ports of this machine.
func onLoopback(t *testing.T, size int) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	for i := range size {
		at := loopback.Free(t, 4)
		f.listens = append(f.listens, config.Listen{Client: at[0], Raft: at[1], Peer: at[2], HTTP: at[3]})
		f.peers = append(f.peers, config.Peer{Node: session.Node(i + 1), Client: at[0], Raft: at[1], Peer: at[2]})
	}
	return f
}

// begin starts all nodes, and returns when they serve.
func (f *fleet) begin() {
	for i := range f.peers {
		f.nodes = append(f.nodes, f.start(i))
	}
	for _, n := range f.nodes {
		<-n.Ready()
	}
}

func (f *fleet) start(i int) *running {
	f.t.Helper()
	cfg := config.Default()
	cfg.Auth.Mode = guard.None
	cfg.Node, cfg.Peers, cfg.DataDir = f.peers[i].Node, f.peers, filepath.Join(f.dir, fmt.Sprint(i))
	if f.configure != nil {
		f.configure(i, &cfg)
	}
	o := node.Options{Logger: hclog.NewNullLogger(), Version: "test"}
	o.Measures.Disk = func() (float64, error) { return 0.5, nil } // the disk of this machine is not the test's
	for _, change := range f.options {
		change(i, &o)
	}
	if f.net != nil {
		o.Network = f.net.Host(fmt.Sprintf("n%d", i+1))
	} else {
		cfg.Listen = f.listens[i]
	}
	n, err := node.New(cfg, o)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{n, stop, make(chan error, 1)}
	go func() { r.ended <- n.Run(ctx) }()
	return r
}

// stop stops a node in order, as SIGTERM does, and returns how long it took.
func (f *fleet) stop(i int) time.Duration {
	f.t.Helper()
	begun := time.Now()
	f.nodes[i].stop()
	if err := <-f.nodes[i].ended; err != nil {
		f.t.Errorf("node %d: %v", i+1, err)
	}
	return time.Since(begun)
}

// restart stops a node, starts it again, and returns when it serves.
func (f *fleet) restart(i int) (stopped time.Duration) {
	f.t.Helper()
	stopped = f.stop(i)
	f.nodes[i] = f.start(i)
	<-f.nodes[i].Ready()
	return stopped
}

// end stops all nodes at once.
func (f *fleet) end() {
	for _, n := range f.nodes {
		n.stop()
	}
	for _, n := range f.nodes {
		<-n.ended
	}
}

// leader returns the node that leads.
func (f *fleet) leader() int {
	for range 300 {
		for i, n := range f.nodes {
			if n.Leads() {
				return i
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatal("no node leads")
	return -1
}

func (f *fleet) endpoints() (all []string) {
	for _, p := range f.peers {
		all = append(all, p.Client)
	}
	return all
}
