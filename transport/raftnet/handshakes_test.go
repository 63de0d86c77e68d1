package raftnet

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
)

// from is a connection with a remote address.
type from struct {
	net.Conn
	address netip.AddrPort
}

func (f from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(f.address) }

func at(host byte, port uint16) net.Conn {
	return from{nil, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), port)}
}

// TestTheOldestHandshakeIsEvicted: the oldest handshake of the address with most is evicted, and among addresses with
// equally many the oldest of all.
func TestTheOldestHandshakeIsEvicted(t *testing.T) {
	l := handshakes{limit: maxHandshakes}
	member, _ := l.add(at(1, 1))
	var strangers []*handshake
	for port := range uint16(maxHandshakes - 1) {
		g, out := l.add(at(2, port))
		if out != nil {
			t.Fatalf("connection %d of %d evicted another", port+2, maxHandshakes)
		}
		strangers = append(strangers, g)
	}
	for i := range 3 * maxHandshakes {
		g, out := l.add(at(2, 1000+uint16(i)))
		if out != strangers[0] {
			t.Fatalf("stranger %d: evicted %+v, want the oldest of its own address", i, out)
		}
		strangers = append(strangers[1:], g)
	}
	if !slices.Contains(l.pending, member) || len(l.pending) != maxHandshakes {
		t.Errorf("a flood of one address evicted another address's handshake; %d are pending", len(l.pending))
	}
	l.remove(strangers[0]) // a second removal changes nothing
	l.remove(strangers[0])
	if _, out := l.add(at(3, 1)); out != nil {
		t.Errorf("%+v was evicted although there was room", out)
	}
	many := handshakes{limit: maxHandshakes}
	first, _ := many.add(at(0, 1))
	for host := range byte(maxHandshakes - 1) {
		many.add(at(host+1, 1))
	}
	if _, out := many.add(at(200, 1)); out != first {
		t.Errorf("among addresses with one each, %+v was evicted, want the oldest", out)
	}
}

// TestConnectionsOfOneNode: the node's connection that was silent for longest is evicted, and no other node's.
func TestConnectionsOfOneNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		c, _ := network.layer(t, "c", "c", 3)
		b, _ := network.layer(t, "b", "c", 2)
		tb, tc := NewTransport(b, 0), NewTransport(c, 0)
		over := make(chan struct{})
		go func() {
			for {
				select {
				case rpc := <-tb.Consumer():
					rpc.Respond(&raft.RequestVoteResponse{}, nil)
				case <-over:
					return
				}
			}
		}()
		vote := func() {
			t.Helper()
			if err := tc.RequestVote("2", "b", &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{}); err != nil {
				t.Errorf("a node's own connection: %v", err)
			}
		}
		vote()
		in, _ := a.Dial("b", time.Second)
		var strangers []net.Conn
		for range 3 * maxPerNode { // in the name of node 3
			time.Sleep(time.Millisecond)
			s, err := c.Dial("b", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			strangers = append(strangers, s)
			vote()
		}
		synctest.Wait()
		ended := func(conn net.Conn) bool {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := conn.Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		}
		for i, s := range strangers {
			if want := i < 2*maxPerNode+1; ended(s) != want {
				t.Errorf("stranger %d of %d: ended %v, want %v", i, len(strangers), !want, want)
			}
		}
		if ended(in) {
			t.Error("another node's connection was evicted")
		}
		close(over)
		closeAll(t, a)
		shutAll(t, tb, tc)
	})
}

// TestSilentCallersEvictNoNode: unknown callers who greet in the name of a node and say nothing evict each other. They
// evict no connection on which the node has spoken, even if the node has been silent for a while.
func TestSilentCallersEvictNoNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var all nodeConns
		connection := func() *served {
			conn, other := net.Pipe()
			t.Cleanup(func() { _ = errors.Join(conn.Close(), other.Close()) })
			return newServed(conn, time.Second)
		}
		var own []*served
		for range maxPerNode - 1 {
			s := connection()
			all.add(3, s)
			s.lastReceived.Store(1)
			own = append(own, s)
		}
		time.Sleep(time.Minute)
		var former *served
		for range 100 {
			s := connection()
			if out := all.add(3, s); out != former {
				t.Fatalf("%p was evicted for %p, want the previous stranger, %p", out, s, former)
			}
			former = s
		}
		again := connection()
		if out := all.add(3, again); out != former {
			t.Error("the node's own connection was evicted for another one")
		}
		again.lastReceived.Store(int64(time.Second))
		if out := all.add(3, connection()); out != own[0] {
			t.Error("the connection that had been silent for longest was not evicted")
		}
	})
}

func (t *nodeConns) len(node session.Node) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of[node])
}

func (l *handshakes) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending)
}

func shutAll(t *testing.T, all ...*Transport) {
	t.Helper()
	for _, tr := range all {
		tr.CloseStreams()
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSilenceAfterTheGreeting: a connection on which nothing ever comes ends soon, one between requests late, and one
// in the middle of a request in between. Raft sees the other side's end.
func TestSilenceAfterTheGreeting(t *testing.T) {
	for name, tt := range map[string]struct {
		said string
		ends time.Duration
	}{
		"nothing":           {"", firstWait},
		"one request":       {"\x01\x80", idleLimit},
		"half of a request": {"\x01\x81\xa4Te", snapshotTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				network := pipes{}
				a, _ := network.layer(t, "a", "c", 1)
				b, _ := network.layer(t, "b", "c", 2)
				accepted := accepting(b)
				conn, err := a.Dial("b", time.Second)
				if err != nil {
					t.Fatal(err)
				}
				served := <-accepted
				go func() { _, _ = conn.Write([]byte(tt.said)) }()
				begun := time.Now()
				got, err := io.ReadAll(served)
				if string(got) != tt.said || time.Since(begun) != tt.ends || err != nil && !errors.Is(err, errStalled) {
					t.Errorf("%q ended after %v with %v, want %v", got, time.Since(begun), err, tt.ends)
				}
				_ = served.Close()
				_ = conn.Close()
				if b.greeted.len(1) != 0 {
					t.Error("the ended connection is remembered")
				}
				closeAll(t, a, b)
			})
		})
	}
}

// TestNoRequestIsLostToAnIdleConnection: Raft's rare requests arrive, however long their connection was idle, and the
// dialled node keeps no connection that stays idle.
func TestNoRequestIsLostToAnIdleConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, _ := network.layer(t, "b", "c", 2)
		ta, tb := NewTransport(a, 0), NewTransport(b, 0)
		over := make(chan struct{})
		go func() {
			for {
				select {
				case rpc := <-tb.Consumer():
					rpc.Respond(&raft.AppendEntriesResponse{Term: 7}, nil)
				case <-over:
					return
				}
			}
		}()
		ask := func() error {
			return ta.AppendEntries("2", "b", &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{})
		}
		for _, silence := range []time.Duration{0, time.Second, renewAfter - 1, renewAfter, renewAfter +
			1, idleLimit - 1, idleLimit, idleLimit + 1, 24 * time.Hour} {
			time.Sleep(silence)
			if err := ask(); err != nil {
				t.Errorf("a request after %v: %v", silence, err)
			}
			synctest.Wait()
			if got := b.greeted.len(1); got != 1 {
				t.Errorf("after a silence of %v %d connections are kept, want 1", silence, got)
			}
		}
		// A node that cannot be dialled again is asked over the existing connection.
		time.Sleep(renewAfter + 1)
		network["b"].Close()
		if err := ask(); err != nil {
			t.Errorf("a request to a node that takes no new connections: %v", err)
		}
		close(over)
		shutAll(t, ta, tb)
	})
}

// A connection that is closed while it is dialled again closes the new connection too.
func TestClosedWhileDialledAnew(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		former, _ := net.Pipe()
		next, other := net.Pipe()
		var r *renewed
		r = newRenewed(former, func(time.Duration) (net.Conn, error) { return next, r.Close() })
		time.Sleep(renewAfter + 1)
		r.renew(time.Second)
		if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the other end of the new connection read %v, want io.EOF", err)
		}
	})
}
