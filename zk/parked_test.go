//go:build linux

package zk_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/loopback"
	"holdfast/test/whole"
	"holdfast/transport/authz"
	"holdfast/transport/port"
)

// bound is the time in which something must happen, or the test fails. It is no measure.
const bound = 30 * time.Second

// pong is how long the answer to a ping is.
const pong = 4 + 16

// sockets is a node on sockets of this machine: those of a bubble cannot be parked.
type sockets struct {
	t        *testing.T
	zk, http string
	end      func()
	ended    chan struct{}
}

// limited is the network of this machine with a limit of connections on one port.
type limited struct {
	address string
	most    int
}

func (l limited) Listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address) //nolint:noctx // binding a port waits for nothing
	if err == nil && address == l.address {
		listener = port.LimitConnections(listener, l.most)
	}
	return listener, err
}

func (limited) Dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// onSockets starts a node whose port for ZooKeeper's clients takes so many connections.
func onSockets(t *testing.T, most int) *sockets {
	t.Helper()
	at := loopback.Free(t, 5)
	cfg := config.Default()
	cfg.Auth.Mode, cfg.Node, cfg.DataDir = authz.None, 1, filepath.Join(t.TempDir(), "data")
	cfg.Listen = config.Listen{Client: at[0], Raft: at[1], Peer: at[2], HTTP: at[3], ZooKeeper: at[4]}
	cfg.Peers = []config.Peer{{Node: 1, Client: at[0], Raft: at[1], Peer: at[2]}}
	n, err := node.New(cfg, node.Options{
		Logger: hclog.NewNullLogger(), Platform: node.Platform{Network: limited{at[4], most}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	s := &sockets{t: t, zk: at[4], http: at[3], end: end, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		if err := n.Run(ctx); err != nil {
			t.Errorf("the node: %v", err)
		}
	}()
	t.Cleanup(func() {
		end()
		<-s.ended
	})
	select {
	case <-n.Ready():
	case <-time.After(bound):
		t.Fatal("the node does not serve")
	}
	return s
}

// has waits until the node has so many connections of ZooKeeper's clients.
func (s *sockets) has(want int) {
	s.t.Helper()
	got := -1
	for late := time.Now().Add(bound); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		var err error
		got, err = whole.Metric(http.DefaultClient, "http://"+s.http+"/metrics", "holdfast_zookeeper_connections")
		if err == nil && got == want {
			return
		}
	}
	s.t.Fatalf("the node has %d connections, want %d", got, want)
}

// enters connects a client, which asks for a session with a timeout, or for its former one.
func (s *sockets) enters(timeout time.Duration, id session.ID, password []byte) (net.Conn, session.ID, []byte) {
	s.t.Helper()
	n, err := net.Dial("tcp", s.zk) //nolint:noctx // the answer is waited for
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = n.Close() })
	_ = n.SetDeadline(time.Now().Add(2 * bound))
	request := connecting(id, password)
	binary.BigEndian.PutUint32(request[16:], uint32(timeout.Milliseconds()))
	if _, err := n.Write(request); err != nil {
		s.t.Fatal(err)
	}
	id, password = connected(s.t, n)
	if id == 0 {
		s.t.Fatal("there is no session")
	}
	return n, id, password
}

// parked waits until no connection has a goroutine.
func (s *sockets) parked() {
	s.t.Helper()
	for late := time.Now().Add(bound); ; time.Sleep(20 * time.Millisecond) {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		readers := bytes.Count(stacks, []byte("zk.(*conn).read(")) + bytes.Count(stacks, []byte("zk.(*conn).run("))
		switch {
		case readers == 0:
			return
		case time.Now().After(late):
			s.t.Fatalf("%d connections wait in goroutines", readers)
		}
	}
}

// answers says something to the node and reads a pong.
func (s *sockets) answers(n net.Conn, says []byte) {
	s.t.Helper()
	if _, err := n.Write(says); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.ReadFull(n, make([]byte, pong)); err != nil {
		s.t.Fatalf("no pong: %v", err)
	}
}

// ends waits until the node closes a connection.
func (s *sockets) ends(n net.Conn, why string) {
	s.t.Helper()
	if _, err := n.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // not wrapped
		s.t.Errorf("%s: the connection does not end: %v", why, err)
	}
}

// long is a timeout that no test comes to: what ends a connection within bound is not that its client is silent.
const long = 3 * bound

// TestParkedClients: clients that say nothing for a second wait without goroutines, and are served like all others (Z10
// idle connections).
func TestParkedClients(t *testing.T) {
	s := onSockets(t, 100)
	first, id, password := s.enters(long, 0, nil)
	second, _, _ := s.enters(long, 0, nil)
	for range 3 {
		s.parked()
		s.answers(first, pulse)
		s.answers(second, pulse)
	}
	s.parked()
	if _, err := second.Write(pulse[:6]); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second / 2) // for longer than a reader waits for a next request
	s.answers(second, pulse[6:])
	s.parked()
	back, _, _ := s.enters(long, id, password)
	s.ends(first, "the session was resumed")
	s.has(2)
	s.answers(back, pulse)
	silent, _, _ := s.enters(4*time.Second, 0, nil)
	s.parked()
	s.ends(silent, "the client was silent")
	s.has(2)
	s.end()
	<-s.ended
	s.ends(second, "the node stops")
	s.ends(back, "the node stops")
}

// TestParkedClientsAreEvicted: a port at its limit of connections ends an idle connection for a new one. The node's
// state of it is freed too, although no goroutine waits for the connection.
func TestParkedClientsAreEvicted(t *testing.T) {
	s := onSockets(t, 2)
	for range 3 {
		one, _, _ := s.enters(long, 0, nil)
		s.parked()
		s.enters(long, 0, nil)
		s.enters(long, 0, nil)
		s.ends(one, "it was idle")
		s.has(2)
	}
}
