package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sessions "holdfast/client/internal/core/session"
	"holdfast/session"
	"holdfast/test/bubble"
)

func newTestPool(t *testing.T, c *fakeCluster, connections int) *Pool {
	t.Helper()
	return newPoolWith(t, Config{Endpoints: c.endpoints(1, len(c.nodes)), Dial: c.dial}, connections)
}

// fill opens n sessions, 64 at the same time.
func fill(t *testing.T, p *Pool, n int, timeout time.Duration) []*Session {
	t.Helper()
	opened, next := make([]*Session, n), make(chan int)
	var opening sync.WaitGroup
	for range 64 {
		opening.Go(func() {
			for i := range next {
				s, err := p.Open(context.Background(), SessionOptions{Timeout: timeout})
				if err != nil {
					t.Error(err)
					return
				}
				opened[i] = s
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	opening.Wait()
	return opened
}

// spreadOf counts the connections of a pool and their sessions by server.
func spreadOf(p *Pool) (connections, held map[string]int) {
	connections, held = make(map[string]int), make(map[string]int)
	for _, c := range p.Connections() {
		if c.Connected {
			connections[c.Server]++
			held[c.Server] += c.Sessions
		}
	}
	return connections, held
}

// A pool holds ten thousand sessions over three connections: one connection to each node, a third of the sessions on
// each, and one message on each in each touch interval.
func TestTenThousandSessionsOverThreeConnections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const many, timeout = 10_000, 40 * time.Second
		c := newFakeCluster(t, 3)
		p := newTestPool(t, c, 3)
		held := fill(t, p, many, timeout)
		synctest.Wait()
		connections, load := spreadOf(p)
		for i := range 3 {
			n := c.node(i + 1)
			if connections[n.address] != 1 || load[n.address] < many/3-64 || load[n.address] > many/3+64 {
				t.Errorf("%s: %d connections, %d sessions", n.address, connections[n.address], load[n.address])
			}
			n.record()
		}
		for range 3 {
			time.Sleep(timeout / sessions.TouchPart)
			synctest.Wait()
			for i := range 3 {
				if got := c.node(i + 1).record(); len(got) != 1 || !strings.HasSuffix(got[0], " touch") {
					t.Errorf("node %d got %d messages in a touch interval, the first %q", i+1, len(got),
						got[:min(len(got), 1)])
				}
			}
		}
		for _, s := range held {
			if got, want := s.SafeUntil(), time.Now().Add(timeout*3/4-timeout/10); !got.After(want) {
				t.Fatalf("session %v is safe until %v only", s.ID(), got)
			}
		}
	})
}

func TestPoolSpreadsTheSessionsOfALostNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		p := newTestPool(t, c, 6)
		held := fill(t, p, 600, 12*time.Second)
		synctest.Wait()
		if connections, sessions := spreadOf(p); connections["n1:7400"] != 2 || connections["n2:7400"] != 2 ||
			sessions["n3:7400"] < 190 {
			t.Fatalf("connections %v, sessions %v", connections, sessions)
		}
		c.node(2).down()
		time.Sleep(time.Second)
		synctest.Wait()
		connections, sessions := spreadOf(p)
		if connections["n1:7400"] != 3 || connections["n3:7400"] != 3 ||
			sessions["n1:7400"]+sessions["n3:7400"] != 600 || sessions["n1:7400"] < 280 || sessions["n3:7400"] < 280 {
			t.Errorf("connections %v, sessions %v", connections, sessions)
		}
		for _, s := range held {
			if s.State() != StateConnected || s.Owner() == 2 || s.SafeUntil().IsZero() {
				t.Fatalf("%v: %v at node %d", s.ID(), s.State(), s.Owner())
			}
		}
	})
}

// A pool opens through the connected client with the fewest sessions, also after some were closed.
func TestPoolOpensThroughTheEmptiest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		p := newTestPool(t, c, 3)
		var first []*Session
		for range 9 { // one open at a time: each connection is used, connected or not
			s, err := p.Open(t.Context(), SessionOptions{Timeout: 12 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			first = append(first, s)
			synctest.Wait()
		}
		for _, c := range p.Connections() {
			if c.Sessions != 3 {
				t.Fatalf("connections %+v", p.Connections())
			}
		}
		for _, s := range first {
			if s.Owner() == 1 {
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		for range 3 {
			s, err := p.Open(t.Context(), SessionOptions{Timeout: 12 * time.Second})
			if err != nil || s.Owner() != 1 {
				t.Errorf("opened at node %d, %v", s.Owner(), err)
			}
			synctest.Wait()
		}
		if _, err := p.Resume(t.Context(), first[0].Token()); first[0].Err() == nil && !errors.Is(err, ErrHeld) {
			t.Errorf("resume of a held session: %v", err)
		}
	})
}

func TestPoolUpdatesServersAndCloses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		p := newTestPool(t, c, 3)
		held := fill(t, p, 30, 12*time.Second)
		if err := p.UpdateServers(c.endpoints(1, 2)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if connections, sessions := spreadOf(p); len(connections) != 2 ||
			sessions["n1:7400"]+sessions["n2:7400"] != 30 {
			t.Errorf("connections %v, sessions %v", connections, sessions)
		}
		token := held[0].Token()
		_ = p.Close()
		for _, s := range held {
			if !errors.Is(s.Err(), session.ErrClosed) {
				t.Fatal(s.Err())
			}
		}
		if _, err := p.Open(t.Context(), SessionOptions{Timeout: time.Second}); !errors.Is(err, session.ErrClosed) {
			t.Errorf("Open: %v", err)
		}
		if err := p.UpdateServers(c.endpoints(1, 2)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("UpdateServers: %v", err)
		}
		other := newTestPool(t, c, 2)
		if s, err := other.Resume(t.Context(), token); err != nil || s.ID() != token.ID {
			t.Errorf("Resume: %v", err)
		}
		for _, n := range []int{0, -1, MaxConnections + 1} {
			if _, err := NewPool(Config{Endpoints: c.endpoints(1, 1), Instance: 7}, n); !errors.Is(err,
				session.ErrInvalid) || !strings.Contains(err.Error(), "instance") ||
				!strings.Contains(err.Error(), "connections must be 1 to 1000") {
				t.Errorf("NewPool of %d: %v", n, err)
			}
		}
		if _, err := NewPool(Config{}, 1); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("NewPool without servers: %v", err)
		}
	})
}
