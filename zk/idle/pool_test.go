//go:build linux

package idle

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wait bounds what a test waits for. It is no measure.
const wait = 30 * time.Second

// guest is a connection in a pool.
type guest struct {
	conn *Conn

	t      *testing.T
	client net.Conn
	server net.Conn
	given  chan string
}

// arrives connects a guest.
func arrives(t *testing.T) *guest {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := &guest{t: t, given: make(chan string, 8)}
	if g.client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if g.server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = g.client.Close()
		_ = g.server.Close()
	})
	g.conn = NewConn(func() { g.given <- "readable" }, func() { g.given <- "timed out" })
	g.conn.Attach(g.server)
	return g
}

// is waits until the guest is given back.
func (g *guest) is(want string) {
	g.t.Helper()
	select {
	case got := <-g.given:
		if got != want {
			g.t.Fatalf("given back as %q, want %q", got, want)
		}
	case <-time.After(wait):
		g.t.Fatalf("not given back, want %q", want)
	}
}

// says has the client say something.
func (g *guest) says() {
	g.t.Helper()
	if _, err := g.client.Write([]byte{1}); err != nil {
		g.t.Fatal(err)
	}
}

// reads reads the client's bytes.
func (g *guest) reads() {
	g.t.Helper()
	if _, err := g.server.Read(make([]byte, 8)); err != nil {
		g.t.Fatal(err)
	}
}

// stays parks the guest for a long time.
func (g *guest) stays(in *Pool) {
	g.t.Helper()
	if !in.Park(g.conn, time.Now().Add(time.Hour)) {
		g.t.Fatal("was not parked")
	}
}

// newPool returns a pool that ends with the test, and must be empty then.
func newPool(t *testing.T) *Pool {
	t.Helper()
	l := &Pool{}
	t.Cleanup(func() {
		if n := l.size(); n != 0 {
			t.Errorf("%d connections are still parked", n)
		}
		l.Close()
	})
	return l
}

func TestParkedConnectionsAreGivenBack(t *testing.T) {
	for name, play := range map[string]func(g *guest, in *Pool){
		"when something comes, each time": func(g *guest, in *Pool) {
			for range 3 {
				g.stays(in)
				g.says()
				g.is("readable")
				g.reads()
			}
		},
		"when something came before": func(g *guest, in *Pool) {
			g.stays(in)
			g.says()
			g.is("readable")
			g.stays(in) // its bytes were not read
			g.is("readable")
			g.reads()
		},
		"when the client closes": func(g *guest, in *Pool) {
			g.stays(in)
			_ = g.client.Close()
			g.is("readable")
		},
		"when the client is silent for too long": func(g *guest, in *Pool) {
			if !in.Park(g.conn, time.Now().Add(10*time.Millisecond)) {
				t.Fatal("was not parked")
			}
			g.is("timed out")
		},
		"when the moment has passed": func(g *guest, in *Pool) {
			if !in.Park(g.conn, time.Now().Add(-time.Second)) {
				t.Fatal("was not parked")
			}
			g.is("timed out")
		},
		"when it is asked for, once": func(g *guest, in *Pool) {
			g.stays(in)
			if !in.Unpark(g.conn) || in.Unpark(g.conn) {
				t.Error("is to be given back once")
			}
			g.says()
			other := arrives(t) // the poller would have reported g before
			other.stays(in)
			other.says()
			other.is("readable")
			if len(g.given) > 0 {
				t.Error("was given back twice")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(arrives(t), newPool(t))
		})
	}
}

func TestConnectionsThatCannotBeParked(t *testing.T) {
	in := newPool(t)
	closed := arrives(t)
	_ = closed.server.Close()
	if in.Park(closed.conn, time.Now().Add(time.Hour)) {
		t.Error("a closed connection was parked")
	}
	if closed.conn.socket != nil {
		t.Error("it is tried again")
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if socketOf(here) != nil {
		t.Error("a pipe is taken for a socket")
	}
	if in.Park(&Conn{}, time.Now().Add(time.Hour)) {
		t.Error("what is no socket was parked")
	}
	late := arrives(t)
	ended := &Pool{}
	ended.Close()
	if ended.Park(late.conn, time.Now().Add(time.Hour)) {
		t.Error("was parked in a pool that has ended")
	}
}

// Under concurrent events, each parked connection is given back once.
func TestParkedConnectionsHaveOneOwner(t *testing.T) {
	const guests, rounds = 16, 50
	in := newPool(t)
	var all sync.WaitGroup
	for i := range guests {
		g := arrives(t)
		all.Go(func() {
			var owners atomic.Int64
			back := make(chan struct{}, 8)
			given := func() {
				owners.Add(1)
				back <- struct{}{}
			}
			g.conn.readable, g.conn.timedOut = given, given
			for round := range rounds {
				owners.Store(0)
				if !in.Park(g.conn, time.Now().Add(time.Duration(i%4)*time.Millisecond)) {
					t.Error("was not parked")
					return
				}
				if round%2 == 0 {
					g.says()
				}
				if i%3 == 0 && in.Unpark(g.conn) {
					given()
				}
				select {
				case <-back:
				case <-time.After(wait):
					t.Error("was not given back")
					return
				}
				if in.Unpark(g.conn) || owners.Load() != 1 {
					t.Errorf("was given back %d times", owners.Load())
				}
				if round%2 == 0 {
					g.reads()
				}
			}
		})
	}
	all.Wait()
}

// A broken poller costs no client its connection.
func TestAPollerThatFails(t *testing.T) {
	in := newPool(t)
	one, two := arrives(t), arrives(t)
	one.stays(in)
	two.stays(in)
	in.fail()
	one.is("readable")
	two.is("readable")
	if in.Park(one.conn, time.Now().Add(time.Hour)) {
		t.Error("was parked where nobody waits for it")
	}
}
