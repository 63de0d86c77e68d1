package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/bench/system"
	"holdfast/client"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/loopback"
	"holdfast/test/proc"
	"holdfast/transport/authz"
)

// The tests of this file play small works against three nodes in this process, and hold them to counts: log entries,
// bytes on the network, allocations. Counts show what a change costs on any machine; times do not, and nothing here
// fails on a time. Each bound is a few times what was measured when it was set.

const (
	size = 3
	// entryTime is how long a batch of log entries takes here, at least: as a disk's syncs do. Without it a fast disk
	// leaves an open no time to wait for others.
	entryTime = 3 * time.Millisecond
	// bound is the time in which something must happen, or the test fails. It is no measure.
	bound = 2 * time.Minute
)

// cluster are three nodes in this process.
type cluster struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // the life of the nodes
	nodes []*node.Node
	peers []config.Peer
	http  []string
	// zk are the ports for ZooKeeper's clients.
	zk []string
	// peerBytes counts what nodes have sent to the leader's peer port.
	peerBytes atomic.Int64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	at, err := loopback.Own(5 * size)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &cluster{t: t, ctx: ctx, http: at[3*size : 4*size], zk: at[4*size:]}
	for i := range size {
		c.peers = append(c.peers, config.Peer{
			Node: session.Node(i + 1), Client: at[i], Raft: at[size+i], Peer: at[2*size+i],
		})
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for i, p := range c.peers {
		cfg := config.Default()
		cfg.Auth.Mode = authz.None
		cfg.Node, cfg.Peers = p.Node, c.peers
		cfg.DataDir, cfg.RateLimits = filepath.Join(t.TempDir(), "data"), config.RateLimits{} // no limit: a refusal is no open
		cfg.Listen.Client, cfg.Listen.Raft, cfg.Listen.Peer, cfg.Listen.HTTP = p.Client, p.Raft, p.Peer, c.http[i]
		cfg.Listen.ZooKeeper = c.zk[i]
		n, err := node.New(cfg, node.Options{
			Logger: hclog.NewNullLogger(),
			Platform: node.Platform{
				Network: &network{c},
				Disk: func(logs raft.LogStore, stable raft.StableStore) (raft.LogStore, raft.StableStore) {
					return slowLog{logs}, stable
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
		running.Go(func() {
			if err := n.Run(ctx); err != nil {
				t.Errorf("node %d: %v", p.Node, err)
			}
		})
	}
	for _, n := range c.nodes {
		select {
		case <-n.Ready():
		case <-time.After(bound):
			t.Fatal("the nodes do not serve")
		}
	}
	return c
}

// leader returns the index of the node that leads.
func (c *cluster) leader() int {
	c.t.Helper()
	for i, n := range c.nodes {
		if n.Leads() {
			return i
		}
	}
	c.t.Fatal("no node leads")
	return 0
}

// sum adds up a metric of all nodes.
func (c *cluster) sum(name string) (total float64) {
	c.t.Helper()
	for _, address := range c.http {
		v, err := system.Metric(c.ctx, "http://"+address+"/metrics", name)
		if err != nil {
			c.t.Fatal(err)
		}
		total += v
	}
	return total
}

func (c *cluster) connect(server int) *system.Stream {
	c.t.Helper()
	s, err := system.Dial(c.ctx, c.peers[server].Client)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// opens opens n sessions, 1,024 in flight, through all streams in turn.
func (c *cluster) opens(n int, over []*system.Stream) {
	c.t.Helper()
	places := make(chan struct{}, 1024)
	failed := make(chan error, n)
	for i := range n {
		places <- struct{}{}
		over[i%len(over)].Open(40*time.Second, func(_ system.Session, err error) {
			if err != nil {
				failed <- err
			}
			<-places
		})
	}
	for range cap(places) {
		places <- struct{}{}
	}
	if len(failed) > 0 {
		c.t.Fatalf("%d opens failed, the first: %v", len(failed), <-failed)
	}
}

// slowLog is a log with slow batches.
type slowLog struct{ raft.LogStore }

func (l slowLog) StoreLogs(logs []*raft.Log) error {
	time.Sleep(entryTime)
	return l.LogStore.StoreLogs(logs)
}

func (l slowLog) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// network counts the bytes that are sent to peer ports.
type network struct{ cluster *cluster }

func (*network) Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

func (n *network) Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	for _, p := range n.cluster.peers {
		if p.Peer == address {
			return counted{conn, &n.cluster.peerBytes}, nil
		}
	}
	return conn, nil
}

// counted is a connection whose sent bytes are counted.
type counted struct {
	net.Conn
	sent *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// Opens that wait at the same time share log entries, and an open makes few allocations on its whole way: client, its
// node, leader, and the state of three nodes.
func TestOpensShareEntries(t *testing.T) {
	const (
		warm, n = 2048, 8 * 1024
		// least opens of an entry, and most allocations of an open.
		least, most = 64, 220
	)
	c := newCluster(t)
	var streams []*system.Stream
	for i := range size {
		streams = append(streams, c.connect(i))
		defer streams[i].End()
	}
	c.opens(warm, streams)
	entries := c.sum("holdfast_log_entries_proposed_total")
	allocations := mallocs()
	c.opens(n, streams)
	each := float64(mallocs()-allocations) / n
	entries = c.sum("holdfast_log_entries_proposed_total") - entries
	t.Logf("%d opens: %.0f entries, %.0f opens an entry, %.0f allocations an open", n, entries, n/entries, each)
	if entries < 1 || n/entries < least {
		t.Errorf("%d opens made %.0f entries: %.1f opens an entry, want %d at least", n, entries, n/entries, least)
	}
	if !bubble.Race && each > most {
		t.Errorf("an open makes %.0f allocations, want %d at most", each, most)
	}
}

// One message of the SDK touches all sessions of a client; the nodes report touches to each other in a few bytes each;
// a touch makes no log entry.
func TestTouchesShareMessages(t *testing.T) {
	const (
		sessions = 4000
		rounds   = 4
		// most bytes of a touch from the client, and from node to node.
		mostSent, mostBetween = 0.05, 6
		// most entries meanwhile: none is for touches.
		mostEntries = 5
	)
	c := newCluster(t)
	follower := (c.leader() + 1) % size
	var sent atomic.Int64
	sdk, err := client.New(client.Config{
		Endpoints: []string{c.peers[follower].Client},
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", c.peers[follower].Client) // no other node, whatever it learns of
			if err != nil {
				return nil, err
			}
			return counted{conn, &sent}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sdk.Close() }()
	openSDK(t, sdk, sessions)
	touched := func() float64 { return c.sum("holdfast_leader_touches_total") }
	c.await("all sessions are touched once", touched, touched()+sessions)
	begin, bytes, between := touched(), sent.Load(), c.peerBytes.Load()
	entries := c.sum("holdfast_log_entries_proposed_total")
	c.await("all sessions are touched again", touched, begin+rounds*sessions)
	each := func(all int64) float64 { return float64(all) / (touched() - begin) }
	entries = c.sum("holdfast_log_entries_proposed_total") - entries
	fromClient, toLeader := each(sent.Load()-bytes), each(c.peerBytes.Load()-between)
	t.Logf("a touch: %.4f bytes of the client, %.2f bytes between nodes; %.0f entries", fromClient, toLeader, entries)
	if fromClient > mostSent {
		t.Errorf("the client sent %.2f bytes for a touch, want %v at most: one message for all", fromClient, mostSent)
	}
	if toLeader > mostBetween {
		t.Errorf("nodes sent %.1f bytes for a touch, want %d at most", toLeader, mostBetween)
	}
	if entries > mostEntries {
		t.Errorf("%.0f log entries while sessions were only touched, want %d at most", entries, mostEntries)
	}
}

// A message that touches all sessions of a connection allocates for the message, and not for each session.
func TestTouchesAllocateNothingEach(t *testing.T) {
	const (
		sessions, messages = 1000, 1000
		// most allocations of a touched session, in all three nodes and the client.
		most = 0.15
	)
	if bubble.Race {
		t.Skip("the race detector allocates too: make test runs this package without it as well")
	}
	c := newCluster(t)
	s := c.connect((c.leader() + 1) % size)
	defer s.End()
	c.opens(sessions, []*system.Stream{s})
	before := mallocs()
	for range messages {
		answer := make(chan error, 1)
		s.Touch(func(err error) { answer <- err })
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
	}
	each := float64(mallocs()-before) / (messages * sessions)
	t.Logf("a touched session: %.3f allocations, a message of %d: %.0f", each, sessions, each*sessions)
	if each > most {
		t.Errorf("a touched session makes %.2f allocations, want %v at most", each, most)
	}
}

// openSDK opens sessions of the shortest timeout, many at a time.
func openSDK(t *testing.T, c *client.Client, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	places := make(chan struct{}, 256)
	var opening sync.WaitGroup
	var failed atomic.Pointer[error]
	for range n {
		places <- struct{}{}
		opening.Go(func() {
			defer func() { <-places }()
			if _, err := c.Open(ctx, client.SessionOptions{Timeout: 4 * time.Second}); err != nil {
				failed.Store(&err)
			}
		})
	}
	opening.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

// await waits until a count has come to a number.
func (c *cluster) await(what string, count func() float64, to float64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, bound)
	defer cancel()
	if err := proc.Until(ctx, 200*time.Millisecond, func(context.Context) error {
		if now := count(); now < to {
			return fmt.Errorf("%.0f of %.0f", now, to)
		}
		return nil
	}); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
