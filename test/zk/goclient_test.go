//go:build e2e

package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"holdfast/session"
	"holdfast/test/proc"
	"holdfast/test/timeout"
)

var open = gozk.WorldACL(gozk.PermAll)

type silent struct{}

func (silent) Printf(string, ...any) {}

const manyEvents = 10_000

// goClient returns an unmodified client of go-zookeeper with a session.
func goClient(t *testing.T, addresses []string, wanted time.Duration) (*gozk.Conn, <-chan gozk.Event) {
	t.Helper()
	events := make(chan gozk.Event, manyEvents) // the library drops what does not fit into its own
	z, _, err := gozk.Connect(addresses, wanted,
		gozk.WithLogger(silent{}), gozk.WithLogInfo(false), gozk.WithEventCallback(func(e gozk.Event) { events <- e }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	await(t, events, gozk.StateHasSession)
	return z, events
}

func await(t *testing.T, events <-chan gozk.Event, state gozk.State) {
	t.Helper()
	late := time.After(startWait)
	for {
		select {
		case e := <-events:
			if e.State == state {
				return
			}
		case <-late:
			timeout.Fatalf(t, "no event of the state %v", state)
		}
	}
}

// TestGoZooKeeper has the calls of go-zookeeper that the tests of package zk lack, and faults of whole processes.
func TestGoZooKeeper(t *testing.T) {
	nodes := nodesOf(t)
	addresses := begin(t, nodes)
	t.Run("calls", func(t *testing.T) { calls(t, addresses) })
	t.Run("words", func(t *testing.T) { wordsOf(t, addresses) })
	t.Run("locks", func(t *testing.T) { locks(t, addresses) })
	t.Run("a node is killed", func(t *testing.T) { moved(t, nodes, (*proc.Process).Kill) })
	t.Run("a node is stopped", func(t *testing.T) { moved(t, nodes, (*proc.Process).Stop) })
	t.Run("a thousand clients", func(t *testing.T) { crowd(t, addresses) })
}

func calls(t *testing.T, addresses []string) {
	t.Helper()
	z, _ := goClient(t, addresses, sessionWait)
	if z.State() != gozk.StateHasSession || !slices.Contains(addresses, z.Server()) {
		t.Errorf("state %v at %s", z.State(), z.Server())
	}
	for _, create := range []func() (string, error){
		func() (string, error) { return z.Create("/calls", nil, 0, open) },
		func() (string, error) { return z.CreateContainer("/calls/container", nil, gozk.FlagContainer, open) },
		func() (string, error) { return z.CreateTTL("/calls/ttl", nil, gozk.FlagTTL, open, time.Hour) },
		func() (string, error) {
			return z.CreateTTL("/calls/ttl-", nil, gozk.FlagPersistentSequentialWithTTL, open, time.Hour)
		},
		func() (string, error) { return z.CreateProtectedEphemeralSequential("/calls/mine-", nil, open) },
	} {
		path, err := create()
		if err != nil {
			t.Fatal(err)
		}
		if there, _, err := z.Exists(path); !there || err != nil {
			t.Errorf("%s: %v %v", path, there, err)
		}
	}
	if names, _, err := z.Children("/calls"); err != nil || len(names) != 4 || !slices.Contains(names, "ttl-0000000002") {
		t.Errorf("children %q %v", names, err)
	}
	own := gozk.DigestACL(gozk.PermAll, "ann", "secret")
	if stat, err := z.SetACL("/calls", own, 0); err != nil || stat.Aversion != 1 {
		t.Errorf("SetACL: %+v %v", stat, err)
	}
	if _, err := z.SetACL("/calls", own, 1); !errors.Is(err, gozk.ErrNoAuth) {
		t.Errorf("SetACL of a closed entry: %v", err)
	}
	if err := z.AddAuth("digest", []byte("ann:secret")); err != nil {
		t.Error(err)
	}
	if acl, _, err := z.GetACL("/calls"); err != nil || !slices.Equal(acl, own) {
		t.Errorf("GetACL: %+v %v", acl, err)
	}
	if _, err := z.SetACL("/calls", open, 0); !errors.Is(err, gozk.ErrBadVersion) {
		t.Errorf("SetACL of another version: %v", err)
	}
	if _, err := z.IncrementalReconfig([]string{"server.4=n4:1:2;3"}, nil, -1); err == nil {
		t.Error("reconfig was taken")
	}
	if _, err := z.Reconfig([]string{"server.4=n4:1:2;3"}, -1); err == nil {
		t.Error("reconfig was taken")
	}
	if path, err := z.Sync("/calls"); err != nil || path != "/calls" {
		t.Errorf("the connection has ended: %q %v", path, err)
	}
}

func wordsOf(t *testing.T, addresses []string) {
	t.Helper()
	goClient(t, addresses, 10*time.Second)
	for i, ok := range gozk.FLWRuok(addresses, answerWait) {
		if !ok {
			t.Errorf("ruok: %s is not", addresses[i])
		}
	}
	stats, ok := gozk.FLWSrvr(addresses, answerWait)
	var modes []string
	for _, s := range stats {
		modes = append(modes, s.Mode.String())
	}
	if slices.Sort(modes); !ok || !slices.Equal(modes, []string{"follower", "follower", "leader"}) {
		t.Errorf("srvr: %q %v", modes, ok)
	}
	clients, ok := gozk.FLWCons(addresses, answerWait)
	with := 0
	for _, c := range clients {
		for _, one := range c.Clients {
			if one.SessionID != 0 && one.Timeout == 10_000 {
				with++
			}
		}
	}
	if !ok || with == 0 {
		t.Errorf("cons: no client with a session: %+v %v", clients, ok)
	}
}

// locks lets clients of all nodes take one lock in turn.
func locks(t *testing.T, addresses []string) {
	t.Helper()
	const contenders, turns = 6, 5
	var held atomic.Int32
	var all sync.WaitGroup
	for i := range contenders {
		z, _ := goClient(t, addresses[i%len(addresses):][:1], sessionWait)
		all.Go(func() {
			for range turns {
				l := gozk.NewLock(z, "/locks/one", open)
				if err := l.Lock(); err != nil {
					t.Error(err)
					return
				}
				if held.Add(1) != 1 {
					t.Error("two have the lock")
				}
				held.Add(-1)
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// moved ends the node of a client, which goes on elsewhere with its session, its ephemeral and its watch.
func moved(t *testing.T, nodes []*node, end func(*proc.Process)) {
	t.Helper()
	addresses := []string{nodes[0].address, nodes[1].address, nodes[2].address}
	z, events := goClient(t, addresses, sessionWait)
	at := slices.Index(addresses, z.Server())
	other, _ := goClient(t, addresses[(at+1)%len(addresses):][:1], sessionWait)
	id, path := z.SessionID(), fmt.Sprintf("/moved-%x", z.SessionID())
	for of, flags := range map[string]int32{path: 0, path + "-mine": gozk.FlagEphemeral} {
		if _, err := z.Create(of, nil, flags, open); err != nil {
			t.Fatal(err)
		}
	}
	_, _, changed, err := z.GetW(path)
	if err != nil {
		t.Fatal(err)
	}
	end(nodes[at].process)
	<-nodes[at].process.Ended()
	await(t, events, gozk.StateDisconnected)
	if _, err := again(t, func() (*gozk.Stat, error) { return other.Set(path, []byte("x"), 0) }); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-changed:
		if e.Type != gozk.EventNodeDataChanged || e.Path != path {
			t.Errorf("%+v", e)
		}
	case <-time.After(answerWait):
		if _, stat, err := z.Get(path); err == nil && stat.Version > 0 {
			// The client sees the change. It sends its watches again beside its other requests: the event may still come.
			select {
			case <-changed:
			case <-time.After(answerWait):
				t.Fatalf("the watch was told nothing, and its client has read version %d", stat.Version)
			}
		}
		timeout.Fatalf(t, "the watch was told nothing within %v", answerWait)
	}
	await(t, events, gozk.StateHasSession)
	if z.SessionID() != id || z.Server() == addresses[at] {
		t.Errorf("session %#x at %s, was %#x", z.SessionID(), z.Server(), id)
	}
	if there, stat, err := other.Exists(path + "-mine"); !there || err != nil || stat.EphemeralOwner != id {
		t.Errorf("its ephemeral: %v %+v %v", there, stat, err)
	}
	nodes[at].begin(t)
	nodes[at].serves(t)
}

// again repeats a request while it meets a connection that is lost: an election may be under way.
func again[T any](t *testing.T, ask func() (T, error)) (answer T, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerWait)
	defer cancel()
	for {
		answer, err = ask()
		if !errors.Is(err, gozk.ErrConnectionClosed) && !errors.Is(err, gozk.ErrNoServer) {
			return answer, err
		}
		if session.Sleep(ctx, 50*time.Millisecond) != nil {
			return answer, err
		}
	}
}

// crowd is a thousand clients at once: all are let in, each has an ephemeral that all see, and none has a number twice.
func crowd(t *testing.T, addresses []string) {
	t.Helper()
	const clients = 1000
	z, _ := goClient(t, addresses, 30*time.Second)
	if _, err := z.Create("/crowd", nil, 0, open); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	conns := make([]*gozk.Conn, clients)
	for i := range clients {
		all.Go(func() {
			conn, _, err := gozk.Connect(addresses, 30*time.Second,
				gozk.WithLogger(silent{}), gozk.WithLogInfo(false))
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = conn
			if _, err := again(t, func() (string, error) {
				return conn.Create("/crowd/c-", nil, gozk.FlagEphemeral|gozk.FlagSequence, open)
			}); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if _, err := z.Sync("/"); err != nil {
		t.Fatal(err)
	}
	names, stat, err := z.Children("/crowd")
	if slices.Sort(names); err != nil || len(slices.Compact(names)) != clients || int(stat.NumChildren) != clients {
		t.Errorf("%d children, %+v, %v", len(names), stat, err)
	}
	for _, conn := range conns {
		if conn != nil {
			all.Go(conn.Close)
		}
	}
	all.Wait()
	if _, err := z.Sync("/"); err != nil {
		t.Fatal(err)
	}
	if names, _, err := z.Children("/crowd"); err != nil || len(names) != 0 {
		t.Errorf("%d children after all have closed: %v", len(names), err)
	}
}
