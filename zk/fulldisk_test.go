package zk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/client"
	"holdfast/node/health"
	"holdfast/session"
	"holdfast/test/whole"
)

// fullDisks are the nodes' disks: half of each is free, or none.
type fullDisks [4]atomic.Bool

func (d *fullDisks) of(n session.Node) health.Disk {
	if d[n].Load() {
		return health.Disk{Size: 2 << 30}
	}
	return health.Disk{Size: 2 << 30, Free: 1 << 30}
}

func (d *fullDisks) set(full bool, nodes ...session.Node) {
	for _, n := range nodes {
		d[n].Store(full)
	}
}

// answered fails the test unless a call is answered within so long, and returns its answer.
func answered(t *testing.T, within time.Duration, doing string, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		t.Fatalf("%s: not answered within %v", doing, within)
		return nil
	}
}

// succeeds fails the test unless a call succeeds within 10 s. A call whose connection ends is made again.
func succeeds(t *testing.T, doing string, call func() error) {
	t.Helper()
	begun := time.Now()
	for {
		err := answered(t, 10*time.Second, doing, call)
		if err == nil {
			return
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%s: %v", doing, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestO5OneFullDisk fills the disk of each node in turn, while it follows and while it leads. Another node leads then,
// the clients of both protocols at the full node move to the others, and a client with no other node is served where it
// is. All calls of clients at each node succeed, and none of them hangs.
func TestO5OneFullDisk(t *testing.T) {
	var disks fullDisks
	runSetup(t, whole.Setup{Disk: disks.of}, func(c *world) {
		operator := sdk(c.T, c, "operator")
		var bound []*client.Client // to one node each
		for i, n := range c.Names {
			bound = append(bound, at(c, fmt.Sprint("bound", i+1), client.Config{Endpoints: []string{n + ":7400"}, OnlyEndpoints: true}))
		}
		for i := range 6 {
			full, leader := session.Node(i/2+1), session.Node(i/2+1)
			if i%2 == 0 {
				leader = full%3 + 1
			}
			if err := operator.TransferLeadership(c.T.Context(), leader); err != nil {
				c.T.Fatal(err)
			}
			c.T.Logf("node %d with a full disk, node %d leads", full, leader)
			oneFullDisk(c, operator, bound, &disks, full)
		}
	})
}

// at returns a client on a host of its own.
func at(c *world, host string, cfg client.Config) *client.Client {
	c.T.Helper()
	cfg.Dial = c.Host(host).Dial
	cl, err := client.New(cfg)
	if err != nil {
		c.T.Fatal(err)
	}
	c.ends = append(c.ends, func() { _ = cl.Close() })
	return cl
}

// oneFullDisk fills the disk of a node under its clients.
func oneFullDisk(c *world, operator *client.Client, bound []*client.Client, disks *fullDisks, full session.Node) {
	t := c.T
	t.Helper()
	name, others := c.Names[full-1], []string{c.Names[full%3] + ":7404", c.Names[(full+1)%3] + ":7404"}
	run := fmt.Sprint(time.Now().Unix())
	var stays []*client.Session
	for _, cl := range bound {
		stays = append(stays, c.Session(cl, 10*time.Second))
	}
	goes := c.Session(at(c, run+"goes", client.Config{Endpoints: []string{name + ":7400"}}), 10*time.Second)
	z, events := dial(t, c, run+"z", 10*time.Second, append([]string{name + ":7404"}, others...)...)
	await(t, events, zookeeper.StateHasSession)
	if owner := ownerOf(t, operator, goes.ID()); z.Server() != name+":7404" || owner != full {
		t.Fatalf("the clients are at %s and node %d, want node %d", z.Server(), owner, full)
	}

	disks.set(true, full)
	for i := range 20 {
		path := fmt.Sprintf("/%s-%d", run, i)
		succeeds(t, "create of a client of ZooKeeper", func() error {
			_, err := z.Create(path+"-z", nil, 0, zookeeper.WorldACL(zookeeper.PermAll))
			if errors.Is(err, zookeeper.ErrNodeExists) { // made again
				return nil
			}
			return err
		})
		for j, s := range append(stays, goes) {
			succeeds(t, "create of a client of the SDK", func() error {
				_, err := s.Tree().Create(t.Context(), fmt.Sprint(path, "-", j), nil, client.CreateOptions{})
				return err
			})
		}
		time.Sleep(250 * time.Millisecond)
	}
	st, err := operator.Status(t.Context(), name+":7400")
	if err != nil || st.Leader == full || !st.Ready || !strings.Contains(st.Warning, "the disk is full") {
		t.Errorf("node %d: %+v, %v; want that it serves, does not lead, and warns", full, st, err)
	}
	if z.Server() == name+":7404" {
		t.Errorf("the client of ZooKeeper is still at node %d", full)
	}
	if owner := ownerOf(t, operator, goes.ID()); owner == full {
		t.Errorf("the client of the SDK is still at node %d", full)
	}
	for i, s := range stays {
		if owner := ownerOf(t, operator, s.ID()); owner != session.Node(i+1) {
			t.Errorf("the client that may go nowhere else than to node %d is at node %d", i+1, owner)
		}
	}
	succeeds(t, "open through the node with the full disk", func() error {
		_, failed := bound[full-1].Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
		return failed
	})
	disks.set(false, full)
	time.Sleep(5 * time.Second)
	if st, err = operator.Status(t.Context(), name+":7400"); err != nil || st.Warning != "" {
		t.Errorf("node %d has room again: %q, %v", full, st.Warning, err)
	}
}

func ownerOf(t *testing.T, cl *client.Client, id session.ID) session.Node {
	t.Helper()
	found, err := cl.Get(t.Context(), id)
	if err != nil || found.Certificate != nil {
		t.Fatalf("session %v: %+v, %v", id, found, err)
	}
	return found.Session.Owner
}

// TestO5NoQuorumHasRoom fills two of three disks. Every write is answered with a refusal, in both protocols, and what
// was asked behind it is answered too. The sessions live, and with room again writes go on.
func TestO5NoQuorumHasRoom(t *testing.T) {
	var disks fullDisks
	runSetup(t, whole.Setup{Disk: disks.of}, func(c *world) {
		t := c.T
		cl := sdk(t, c, "s")
		s := c.Session(cl, 10*time.Second)
		z, _ := served(t, c, "z", 10*time.Second)
		id := z.SessionID()
		write := func() error {
			_, err := z.Create("/a", nil, 0, zookeeper.WorldACL(zookeeper.PermAll))
			return err
		}
		disks.set(true, 1, 2)
		time.Sleep(5 * time.Second)
		for range 50 {
			done := make(chan error, 1)
			go func() { _, _, err := z.Get("/"); done <- err }()
			err := answered(t, time.Second, "create without room", write)
			if err == nil || !strings.HasSuffix(err.Error(), " -7") {
				t.Fatalf("create without room: %v, want the code -7", err)
			}
			if err = answered(t, time.Second, "read behind it", func() error { return <-done }); err != nil {
				t.Fatalf("read behind it: %v", err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := s.Tree().Create(short, "/b", nil, client.CreateOptions{})
		if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != "disk_limit" {
			t.Errorf("create without room by the SDK: %v, want a refusal for disk_limit", err)
		}
		time.Sleep(20 * time.Second)
		if z.SessionID() != id || s.Context().Err() != nil {
			t.Errorf("the sessions have ended: %v, %v", z.SessionID() != id, s.Context().Err())
		}
		disks.set(false, 1, 2)
		time.Sleep(5 * time.Second)
		if err = answered(t, time.Second, "create with room", write); err != nil {
			t.Errorf("create with room: %v", err)
		}
		if _, err = s.Tree().Create(t.Context(), "/c", nil, client.CreateOptions{}); err != nil {
			t.Errorf("create with room by the SDK: %v", err)
		}
	})
}
