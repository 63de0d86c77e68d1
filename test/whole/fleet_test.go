package whole_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/sim/simnet"
	"holdfast/test/whole"
	"holdfast/transport/authz"
)

// fleet are nodes that a test stops and starts in order, on a simulated network or on loopback.
type fleet struct {
	t     *testing.T
	dir   string
	peers []config.Peer
	// configs are those of nodes on loopback; none on a simulated network.
	configs []config.Config
	net     *simnet.Network
	nodes   []*whole.Life
	// options change those of a node.
	options []func(i int, o *node.Options)
	// configure changes the configuration of a node that begins.
	configure func(i int, c *config.Config)
}

// simulated returns a fleet whose nodes have hosts n1, n2 and so on in a bubble.
func simulated(t *testing.T, size int, options ...func(i int, o *node.Options)) *fleet {
	t.Helper()
	f := &fleet{t: t, options: options}
	f.simulate(size)
	return f
}

// simulate begins nodes on hosts of a simulated network.
func (f *fleet) simulate(size int) {
	f.t.Helper()
	time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
	f.dir = f.t.TempDir()
	f.net = simnet.New(func(string, string) time.Duration { return time.Millisecond })
	for i := range size {
		f.peers = append(f.peers, whole.PeerOf(i))
	}
	f.begin()
}

// onLoopback returns a fleet on ports of this machine.
func onLoopback(t *testing.T, size int) *fleet {
	t.Helper()
	configs := whole.OnLoopback(t, size)
	return &fleet{t: t, configs: configs, peers: configs[0].Peers}
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

func (f *fleet) start(i int) *whole.Life {
	f.t.Helper()
	cfg, o := config.Default(), node.Options{}
	if f.net != nil {
		cfg.Node, cfg.Peers, cfg.DataDir = f.peers[i].Node, f.peers, filepath.Join(f.dir, fmt.Sprint(i))
		o.Platform.Network = f.net.Host(fmt.Sprintf("n%d", i+1))
	} else {
		cfg = f.configs[i]
	}
	cfg.Auth.Mode = authz.None
	if f.configure != nil {
		f.configure(i, &cfg)
	}
	for _, change := range f.options {
		change(i, &o)
	}
	n, err := whole.Begin(cfg, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// stop stops a node in order, as SIGTERM does, and returns how long it took.
func (f *fleet) stop(i int) time.Duration {
	f.t.Helper()
	begun := time.Now()
	if err := f.nodes[i].Stop(); err != nil {
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

// end stops all nodes at once. What a node that died has returned is no fault.
func (f *fleet) end() {
	var stopping sync.WaitGroup
	for _, n := range f.nodes {
		stopping.Go(func() { _ = n.Stop() })
	}
	stopping.Wait()
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
