//go:build linux

package zk_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/guard"
)

// bound is the time in which something must happen, or the test fails. It is no measure.
const bound = time.Minute

// pulse is a ping, and pong is how long its answer is.
var pulse = []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}

const pong = 4 + 16

// sockets is a node on sockets of this machine: those of a bubble cannot be parked.
type sockets struct {
	t     *testing.T
	zk    string
	end   func()
	ended chan struct{}
}

// free returns addresses with ports that nothing uses.
func free(t *testing.T) (at [5]string) {
	t.Helper()
	for i := range at {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binding a port waits for nothing
		if err != nil {
			t.Fatal(err)
		}
		at[i] = l.Addr().String()
		defer func() { _ = l.Close() }() // at the end: a port that is closed already may be given again
	}
	return at
}

func onSockets(t *testing.T) *sockets {
	t.Helper()
	at := free(t)
	cfg := config.Default()
	cfg.Auth.Mode, cfg.Node, cfg.DataDir = guard.None, 1, filepath.Join(t.TempDir(), "data")
	cfg.Listen = config.Listen{Client: at[0], Raft: at[1], Peer: at[2], HTTP: at[3], ZooKeeper: at[4]}
	cfg.Peers = []config.Peer{{Node: 1, Client: at[0], Raft: at[1], Peer: at[2]}}
	n, err := node.New(cfg, node.Options{Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	s := &sockets{t: t, zk: at[4], end: end, ended: make(chan struct{})}
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

// enters connects a client, which asks for a session, or for its former one.
func (s *sockets) enters(id session.ID, password []byte) (net.Conn, session.ID, []byte) {
	s.t.Helper()
	n, err := net.Dial("tcp", s.zk) //nolint:noctx // the answer is waited for
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = n.Close() })
	_ = n.SetDeadline(time.Now().Add(bound))
	request := connecting(id, password)
	binary.BigEndian.PutUint32(request[16:], 4000) // the timeout in ms
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
		readers := bytes.Count(stacks, []byte("zk.(*conn).read("))
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

// TestParkedClients: clients that say nothing for a second wait without goroutines, and are served like all others
// (Z10).
func TestParkedClients(t *testing.T) {
	s := onSockets(t)
	first, id, password := s.enters(0, nil)
	second, _, _ := s.enters(0, nil)
	silent, _, _ := s.enters(0, nil)
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
	back, _, _ := s.enters(id, password)
	s.ends(first, "the session was resumed")
	s.answers(back, pulse)
	for { // the others live on until the silent one is gone
		_ = silent.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := silent.Read(make([]byte, 1)); err == io.EOF { //nolint:errorlint // not wrapped
			break
		}
		s.answers(back, pulse)
		s.answers(second, pulse)
	}
	s.parked()
	s.end()
	<-s.ended
	s.ends(second, "the node stops")
	s.ends(back, "the node stops")
}
