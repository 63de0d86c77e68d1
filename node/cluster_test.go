package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/learner"
	"holdfast/node/config"
	"holdfast/node/ports"
	"holdfast/session"
	"holdfast/test/sim/simnet"
	"holdfast/transport/authz"
	"holdfast/transport/raftnet"
)

// testCluster are whole nodes on a simulated network, in a bubble.
type testCluster struct {
	*simnet.Network
	t     *testing.T
	dir   string
	nodes []*testNode
	// change alters every configuration.
	change func(*config.Config)
	// clock is every node's wall clock; nil is the bubble's.
	clock func() time.Time
	// console is that of every node that starts, nil for none.
	console func(ports.ConsoleHost) ports.Console
	// noNotices keeps nodes that start from sending notices of commits.
	noNotices bool
	// opens numbers the sessions that open has opened.
	opens byte
}

// testNode is a node's place in the cluster, through all its lives.
type testNode struct {
	*Node
	name  string
	disk  *faultyDisk
	log   *syncBuffer
	hook  func(index, term uint64, changes []session.Change)
	heard func(term uint64, from session.Node, sent time.Time)
	// writes are the node's writes, in the place of those of its clients.
	writes learner.PendingWrites
	// jump is how far the watchdog's time is ahead, in nanoseconds.
	jump   atomic.Int64
	cancel context.CancelFunc
	ended  chan struct{}
	// err is what Run returned, set before ended is closed.
	err error
}

// newTestCluster starts a cluster, which is stopped by stop: a bubble must not be left with a goroutine.
func newTestCluster(t *testing.T, size int, change func(*config.Config)) *testCluster {
	t.Helper()
	c := &testCluster{
		Network: simnet.New(func(string, string) time.Duration { return time.Millisecond }),
		t:       t, dir: t.TempDir(), change: change,
	}
	time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
	c.add(size)
	for _, n := range c.nodes {
		c.start(n)
	}
	return c
}

// add adds nodes that are not started.
func (c *testCluster) add(size int) {
	for range size {
		c.nodes = append(
			c.nodes, &testNode{name: fmt.Sprintf("n%d", len(c.nodes)+1), disk: &faultyDisk{}, log: &syncBuffer{}},
		)
	}
}

func (c *testCluster) config(n *testNode) config.Config {
	cfg := config.Default()
	cfg.Auth.Mode = authz.None
	cfg.Resources.DiskLimit = 100 // the disk of this machine is not the test's
	cfg.DataDir = filepath.Join(c.dir, n.name)
	for i, other := range c.nodes {
		cfg.Peers = append(cfg.Peers, config.Peer{
			Node: session.Node(i + 1), Raft: other.name + ":7401", Peer: other.name + ":7402",
			Client: other.name + ":7400",
		})
		if other == n {
			cfg.Node = session.Node(i + 1)
		}
	}
	if c.change != nil {
		c.change(&cfg)
	}
	return cfg
}

// make makes a node without running it.
func (c *testCluster) make(n *testNode) (*Node, error) {
	return New(c.config(n), Options{
		Logger: hclog.New(
			&hclog.LoggerOptions{Name: n.name, Level: hclog.Info, Output: n.log, TimeFormat: "15:04:05.000"},
		),
		Version: "test",
		Console: c.console,
		Platform: Platform{
			Network:   c.Host(n.name),
			Disk:      n.disk.wrap,
			Clock:     c.clock,
			writes:    n.writes,
			noNotices: c.noNotices,
			monotonic: func() time.Time { return time.Now().Add(time.Duration(n.jump.Load())) },
		},
		Observers: Observers{
			OnAnswer: n.heard,
			Applied: func(index, term uint64, changes []session.Change) {
				if n.hook != nil {
					n.hook(index, term, changes)
				}
			},
		},
	})
}

// raftAddress is the address of n's Raft as others know it.
func (n *testNode) raftAddress() raft.ServerAddress {
	return raftnet.At(n.name+":7401", n.membership.OwnDirectory())
}

// start begins a life of n.
func (c *testCluster) start(n *testNode) {
	c.t.Helper()
	made, err := c.make(n)
	if err != nil {
		c.t.Fatalf("start of %s: %v", n.name, err)
	}
	n.Node = made
	c.run(n)
}

// run runs what was made of n.
func (c *testCluster) run(n *testNode) {
	ctx, cancel := context.WithCancel(context.Background())
	made := n.Node
	n.cancel, n.ended = cancel, make(chan struct{})
	go func() {
		defer close(n.ended)
		n.err = made.Run(ctx)
	}()
}

// end stops n in order, and returns what Run did.
func (c *testCluster) end(n *testNode) error {
	n.cancel()
	<-n.ended
	return n.err
}

// stop ends all nodes.
func (c *testCluster) stop() {
	for _, n := range c.nodes {
		n.cancel()
	}
	for _, n := range c.nodes {
		<-n.ended
	}
	if c.t.Failed() {
		for _, n := range c.nodes {
			c.t.Logf("log of %s:\n%s", n.name, n.log)
		}
	}
}

// eventually waits until ok, and fails the test when it is not within the bound; it returns how long it took.
func (c *testCluster) eventually(what string, within time.Duration, ok func() bool) time.Duration {
	c.t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > within {
			c.t.Errorf("%s: not within %v", what, within)
			return within
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begun)
}

// leader waits for a node that leads and serves, other than the given nodes.
func (c *testCluster) leader(within time.Duration, but ...*testNode) *testNode {
	c.t.Helper()
	var leads *testNode
	c.eventually("a leader", within, func() bool {
		for _, n := range c.nodes {
			if n.Leads() && n.server.Ready() == nil && !slices.Contains(but, n) {
				leads = n
				return true
			}
		}
		return false
	})
	if leads == nil {
		c.stop()
		c.t.FailNow()
	}
	return leads
}

// others are the nodes that n is not.
func (c *testCluster) others(n *testNode) []*testNode {
	var others []*testNode
	for _, one := range c.nodes {
		if one != n {
			others = append(others, one)
		}
	}
	return others
}

// open opens a session through n.
func (c *testCluster) open(n *testNode, within time.Duration) (session.Grant, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	conn, err := n.server.Connect(nil)
	if err != nil {
		return session.Grant{}, err
	}
	c.opens++
	return conn.Open(ctx, session.OpenRequest{
		RequestID: session.RequestID{c.opens}, Spec: session.Spec{Timeout: 40 * time.Second},
		MS: session.MS(time.Now()),
	})
}

// mustOpen opens a session through n.
func (c *testCluster) mustOpen(n *testNode, within time.Duration) session.Grant {
	c.t.Helper()
	g, err := c.open(n, within)
	if err != nil {
		c.t.Errorf("open through %s: %v", n.name, err)
	}
	return g
}

// agree waits until all nodes have applied what the foremost of them has, and have its digest.
func (c *testCluster) agree(within time.Duration) {
	c.t.Helper()
	c.eventually("one digest", within, func() bool {
		newest, digest := c.nodes[0].view.Digest()
		for _, n := range c.nodes[1:] {
			if index, d := n.view.Digest(); index > newest {
				newest, digest = index, d
			}
		}
		for _, n := range c.nodes {
			if got, ok := n.Digest(newest); !ok || got != digest {
				return false
			}
		}
		return true
	})
}

// faultyDisk is a disk whose writes can be made slow, hang or fail. Safe for concurrent use.
type faultyDisk struct {
	mu sync.Mutex
	// guarded by mu: how long each write takes; closed when writes hang no more, nil when they do not; what they fail
	// with, and which ones; how many hang now, and how many were made.
	delay time.Duration
	hung  chan struct{}
	fails func(doing string) error
	hangs int
	made  map[string]int
}

func (d *faultyDisk) wrap(logs raft.LogStore, stable raft.StableStore) (raft.LogStore, raft.StableStore) {
	return &faultyLogs{logs, d}, &faultyStable{stable, d}
}

func (d *faultyDisk) set(change func(d *faultyDisk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// hang makes writes hang from now on, until release.
func (d *faultyDisk) hang() { d.set(func(d *faultyDisk) { d.hung = make(chan struct{}) }) }

func (d *faultyDisk) release() {
	d.set(func(d *faultyDisk) {
		close(d.hung)
		d.hung = nil
	})
}

// fail makes writes fail from now on.
func (d *faultyDisk) fail(err error) {
	d.set(func(d *faultyDisk) { d.fails = func(string) error { return err } })
}

func (d *faultyDisk) hanging() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hangs
}

// write is what every write goes through.
func (d *faultyDisk) write(doing string, do func() error) error {
	d.mu.Lock()
	if d.made == nil {
		d.made = map[string]int{}
	}
	d.made[doing]++
	delay, hung, fails := d.delay, d.hung, d.fails
	d.mu.Unlock()
	time.Sleep(delay)
	if hung != nil {
		d.set(func(d *faultyDisk) { d.hangs++ })
		<-hung
		d.set(func(d *faultyDisk) { d.hangs-- })
	}
	if fails != nil {
		if err := fails(doing); err != nil {
			return err
		}
	}
	return do()
}

type faultyLogs struct {
	raft.LogStore
	disk *faultyDisk
}

func (l *faultyLogs) StoreLog(one *raft.Log) error { return l.StoreLogs([]*raft.Log{one}) }

func (l *faultyLogs) StoreLogs(logs []*raft.Log) error {
	return l.disk.write("StoreLogs", func() error { return l.LogStore.StoreLogs(logs) })
}

func (l *faultyLogs) DeleteRange(first, last uint64) error {
	return l.disk.write("DeleteRange", func() error { return l.LogStore.DeleteRange(first, last) })
}

type faultyStable struct {
	raft.StableStore
	disk *faultyDisk
}

func (s *faultyStable) Set(key, value []byte) error {
	return s.disk.write("Set", func() error { return s.StableStore.Set(key, value) })
}

func (s *faultyStable) SetUint64(key []byte, value uint64) error {
	return s.disk.write("SetUint64", func() error { return s.StableStore.SetUint64(key, value) })
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer // guarded by mu
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}

var errDisk = errors.New("input/output error")
