//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

const (
	// callWithin bounds each call of a client while a disk is full.
	callWithin = 10 * time.Second
	// leftFree is what is left free on a disk of 128 MiB, of which the reserve is a tenth.
	leftFree = 8 << 20
	// fullFor is how long clients call while a disk is full.
	fullFor = 8 * time.Second
)

// TestNearlyFullDisk fills the disk of each node in turn beyond its reserve, while it leads or while it follows. Clients
// of both protocols at each node write all the time. No call hangs and none of the SDK fails, the node leads no more, and
// its clients go to nodes with room.
func TestNearlyFullDisk(t *testing.T) {
	t.Parallel()
	c := create(t, 3, "nearly-full-disk.yaml")
	t.Cleanup(c.down)
	c.awaitServing(healWithin, c.all()...)
	operator := c.watcher(c.all()...)
	for i, victim := range c.roundsOfFullDisks() {
		leads := victim
		if i%2 == 1 {
			leads = c.but(victim)[0]
		}
		ctx, cancel := context.WithTimeout(t.Context(), healWithin)
		timeout.Check(t, operator.TransferLeadership(ctx, session.Node(leads)))
		cancel()
		c.awaitServing(healWithin, c.all()...)
		t.Logf("node %d gets a full disk while node %d leads", victim, leads)
		c.oneFullDisk(operator, victim)
	}
	for _, n := range c.all() {
		if got := c.restarts(n); got != 0 {
			t.Errorf("node %d has ended %d times", n, got)
		}
	}
}

// roundsOfFullDisks returns the nodes whose disks are to be filled: those at even places lead.
func (c *cluster) roundsOfFullDisks() []int {
	if full {
		return []int{1, 1, 2, 2, 3, 3}
	}
	return []int{1, 2, 3}
}

// oneFullDisk fills a node's disk under its clients, and makes room again.
func (c *cluster) oneFullDisk(operator *client.Client, victim int) {
	t := c.t
	t.Helper()
	l := c.newLedger()
	run := fmt.Sprintf("/%d", time.Now().UnixNano())
	var calls sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop(); calls.Wait() }()
	var callers []*caller
	var atFull *account
	var zkAtFull *zk.Conn
	for _, n := range c.all() {
		_, accounts := l.clientAt(n, 1, minTimeout)
		conn := c.zookeeper(n)
		defer conn.Close()
		if n == victim {
			atFull, zkAtFull = accounts[0], conn
		}
		s := accounts[0].session
		callers = append(callers,
			&caller{name: fmt.Sprint("SDK at node ", n), call: func(i int) error {
				within, cancel := context.WithTimeout(ctx, callWithin)
				defer cancel()
				_, err := s.Tree().Create(within, fmt.Sprintf("%s-s%d-%d", run, n, i), nil, client.CreateOptions{})
				return err
			}},
			&caller{name: fmt.Sprint("ZooKeeper at node ", n), moves: true, call: func(i int) error {
				_, err := conn.Create(fmt.Sprintf("%s-z%d-%d", run, n, i), nil, 0, zk.WorldACL(zk.PermAll))
				return err
			}})
	}
	for _, one := range callers {
		calls.Go(func() { one.run(ctx) })
	}
	freed := must(t, "docker", "run", "--rm", "-v", c.volume(victim), "holdfast-cut", "fill",
		fmt.Sprint("--leave=", leftFree), "/data")
	begun := time.Now()
	c.await(healWithin, fmt.Sprintf("node %d says that its disk is full", victim), func() (bool, string) {
		st, err := c.status(victim)
		return err == nil && strings.Contains(st.Warning, "the disk is full"), fmt.Sprintf("%+v %v", st, err)
	})
	c.await(healWithin, fmt.Sprintf("node %d has given its clients and leadership away", victim), func() (bool, string) {
		st, err := c.status(victim)
		found, unread := operator.Get(ctx, atFull.session.ID())
		at := zkAtFull.Server()
		return err == nil && unread == nil && int(st.Leader) != victim && st.Leader != 0 &&
				int(found.Session.Owner) != victim && at != c.zkAddress(victim),
			fmt.Sprintf("led by node %d, the client of the SDK is at node %d, that of ZooKeeper at %s: %v, %v", st.Leader,
				found.Session.Owner, at, err, unread)
	})
	took(t, "a full disk's node has given all away after", time.Since(begun))
	time.Sleep(fullFor)
	stop()
	calls.Wait()
	made := 0
	for _, one := range callers {
		made += one.made
		if one.err != nil {
			t.Errorf("%s: %v", one.name, one.err)
		}
		if one.made == 0 {
			t.Errorf("%s has made no entry", one.name)
		}
	}
	count(t, "entries made with a full disk", "", made)
	t.Logf("%s bytes of ballast", freed)
	must(t, "docker", "run", "--rm", "-v", c.volume(victim), "holdfast-cut", "free", "/data")
	c.await(healWithin, fmt.Sprintf("node %d has room again", victim), func() (bool, string) {
		st, err := c.status(victim)
		return err == nil && st.Warning == "", fmt.Sprintf("%+v %v", st, err)
	})
}

// caller makes calls one after the other. Its fields are the test's once run has returned.
type caller struct {
	name string
	// call makes the i-th call. Its error ends the calls, unless the client moves: then a lost connection is an answer.
	call  func(i int) error
	moves bool
	made  int
	err   error
}

func (a *caller) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		done := make(chan error, 1)
		begun := time.Now()
		go func() { done <- a.call(i) }()
		select {
		case err := <-done:
			switch {
			case err == nil:
				a.made++
			case ctx.Err() != nil:
				return
			case !a.moves || !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer):
				a.err = fmt.Errorf("call %d, after %v: %w", i, time.Since(begun), err)
				return
			}
		case <-time.After(callWithin + time.Second):
			a.err = fmt.Errorf("call %d hangs", i)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *cluster) zkAddress(n int) string { return fmt.Sprintf("127.0.0.1:%d%d4", c.ports, n) }

// quiet writes nothing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// zookeeper returns a client of ZooKeeper that is at node n, and knows all nodes.
func (c *cluster) zookeeper(n int) *zk.Conn {
	c.t.Helper()
	order := &turns{servers: []string{c.zkAddress(n)}}
	for _, other := range c.but(n) {
		order.servers = append(order.servers, c.zkAddress(other))
	}
	conn, events, err := zk.Connect(order.servers, minTimeout, zk.WithHostProvider(order),
		zk.WithLogger(quiet{}))
	timeout.Check(c.t, err)
	late := time.After(healWithin)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn
			}
		case <-late:
			conn.Close()
			timeout.Fatalf(c.t, "no session of ZooKeeper at node %d", n)
		}
	}
}

// turns gives out servers in turn. The client asks it from one goroutine.
type turns struct {
	servers []string
	next    int
}

func (*turns) Init([]string) error { return nil }
func (o *turns) Len() int          { return len(o.servers) }
func (*turns) Connected()          {}
func (o *turns) Next() (server string, retryStart bool) {
	server = o.servers[o.next%len(o.servers)]
	o.next++
	return server, false
}
