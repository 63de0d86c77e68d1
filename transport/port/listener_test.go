package port

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
)

// TestLimitConnections: the newest connections stay open, and a closed one gives its slot back.
func TestLimitConnections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := porttest.NewPipes()
		l := LimitConnections(network, 3)
		defer l.Close()
		connect := func() (ours, theirs net.Conn) {
			t.Helper()
			accepted := make(chan net.Conn, 1)
			go func() {
				if conn, err := l.Accept(); err == nil {
					accepted <- conn
				}
			}()
			theirs, err := network.Dial(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			return <-accepted, theirs
		}
		open := func(theirs net.Conn) bool {
			t.Helper()
			return theirs.SetReadDeadline(time.Now()) == nil // fails once the other end is closed
		}
		var server, client []net.Conn
		for range 5 {
			s, c := connect()
			server, client = append(server, s), append(client, c)
		}
		for i, want := range []bool{false, false, true, true, true} {
			if got := open(client[i]); got != want {
				t.Errorf("connection %d of 5 is open: %t, want %t", i+1, got, want)
			}
		}
		server[4].Close()
		server[4].Close() // gives no second slot back
		server[0].Close() // nor does an evicted one
		connect()
		if !open(client[2]) {
			t.Error("a connection was evicted while a slot was free")
		}
		if connect(); open(client[2]) {
			t.Error("a fourth connection is open")
		}
	})
}

// TestEvictedConnectionsAreShutDown: the owner of an evicted connection reads its end, as one must that waits with the
// kernel's epoll, and does not find it closed under its hands. One that reads nothing loses it a moment later.
func TestEvictedConnectionsAreShutDown(t *testing.T) {
	network, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := LimitConnections(network, 1)
	defer l.Close()
	connect := func() net.Conn {
		t.Helper()
		theirs, err := net.Dial("tcp", network.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = theirs.Close() })
		ours, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return ours
	}
	first := connect()
	second := connect()
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading from the evicted connection: %v, want %v", err, io.EOF)
	}
	connect()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := second.SetDeadline(time.Time{})
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("an evicted connection of which nobody reads is still open: %v", err)
		}
	}
}

// TestLimitClients: an address gets no more connections than it may have, and keeps those that it has. The end of one
// frees a slot.
func TestLimitClients(t *testing.T) {
	network, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer // written by the goroutine that accepts
	l := LimitClients(network, 10, 2, hclog.New(&hclog.LoggerOptions{Output: &log}))
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		theirs, err := net.Dial("tcp", network.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = theirs.Close() })
		return theirs
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	ended, over := make(chan struct{}), dial()
	go func() {
		_, _ = over.Read(make([]byte, 1)) // returns once the other side has closed
		close(ended)
	}()
	select {
	case <-ended:
	case <-accepted:
		t.Fatal("a third connection of an address with two is served")
	}
	if _, err := first.Write([]byte("x")); err != nil {
		t.Errorf("the third has cost the first: %v", err)
	}
	_ = first.Close()
	dial()
	third := <-accepted
	_, _, _ = l.Close(), second.Close(), third.Close()
	if conn, more := <-accepted; more {
		t.Errorf("another connection was accepted: %v", conn.RemoteAddr())
	}
	if !strings.Contains(log.String(), "max_connections_per_address") {
		t.Errorf("the log does not name the limit: %s", log.String())
	}
}

// arrivals is a listener to which a test gives connections.
type arrivals chan net.Conn

func (a arrivals) Accept() (net.Conn, error) {
	if c, ok := <-a; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (a arrivals) Close() error { close(a); return nil }
func (arrivals) Addr() net.Addr { return nil }

// ofAddress is a connection of an address.
type ofAddress struct {
	net.Conn
	from netip.Addr
}

func (c ofAddress) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from, 1))
}

// No address ends the only connection of another: when each address has one, a new address is refused, and one that
// comes back gets its own slot. An address that has more than its share gives way.
func TestOneAddressEndsNoOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		in := make(arrivals)
		l := LimitClients(in, 4, 0, hclog.NewNullLogger())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				if _, err := l.Accept(); err != nil {
					return
				}
			}
		}()
		connect := func(address int) net.Conn {
			t.Helper()
			near, far := net.Pipe()
			in <- ofAddress{far, addressNumber(address)}
			synctest.Wait()
			return near
		}
		open := func(c net.Conn) bool { return c.SetReadDeadline(time.Time{}) == nil } // fails once the other end is closed
		var places []net.Conn
		for _, address := range []int{1, 1, 2, 3} {
			places = append(places, connect(address))
		}
		if fourth := connect(4); !open(fourth) || open(places[0]) {
			t.Errorf("an address with two connections keeps them: %t, and the newcomer is open: %t", open(places[0]), open(fourth))
		} else {
			places[0] = fourth
		}
		for range 5 {
			if open(connect(9)) {
				t.Error("a stranger is served though each address has one place")
			}
		}
		for i, c := range places {
			if !open(c) {
				t.Errorf("the connection %d was ended for a stranger", i)
			}
		}
		if back := connect(3); !open(back) || open(places[3]) {
			t.Errorf("who comes back is open: %t, its former connection: %t", open(back), open(places[3]))
		}
		for i, c := range places[:3] {
			if !open(c) {
				t.Errorf("the connection %d was ended for one that came back", i)
			}
		}
		_ = l.Close()
		<-ended
	})
}
