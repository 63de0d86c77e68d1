package zk_test

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"holdfast/session"
)

// holder is an idle client with the id and the password of a session: it pings, and goes to the next node whenever its
// connection ends or a node keeps it waiting.
type holder struct {
	of       *world
	id       session.ID
	password []byte

	mu sync.Mutex
	// served are the moments at which it got the session. guarded by mu
	served []time.Time
}

// hold keeps the session until it is done.
func (h *holder) hold(done <-chan struct{}) {
	for at := 0; ; at++ {
		select {
		case <-done:
			return
		default:
			h.visit(h.of.Names[at%len(h.of.Names)], done)
		}
	}
}

// visit keeps the session at one node.
func (h *holder) visit(node string, done <-chan struct{}) {
	host := fmt.Sprintf("holder-%p", h)
	n, err := h.of.Host(host).Dial(h.of.T.Context(), node+":7404")
	if err != nil {
		return
	}
	defer func() { _ = n.Close() }()
	_, _ = n.Write(connecting(h.id, h.password))
	_ = n.SetReadDeadline(time.Now().Add(3 * time.Second))
	if _, err := io.ReadFull(n, make([]byte, 4+36)); err != nil {
		return
	}
	h.mu.Lock()
	h.served = append(h.served, time.Now())
	h.mu.Unlock()
	h.ping(n, done)
}

// ping pings until the connection ends.
func (h *holder) ping(n net.Conn, done <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.SetReadDeadline(time.Time{})
		_, _ = io.Copy(io.Discard, n)
	}()
	defer func() {
		_ = n.Close()
		<-ended
	}()
	for {
		_, _ = n.Write(pulse)
		select {
		case <-time.After(3 * time.Second):
		case <-ended:
			return
		case <-done:
			return
		}
	}
}

// times returns how often the client got the session.
func (h *holder) times() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.served)
}

// M7: two idle clients with one session do not take it from each other as fast as they can. The loser waits for half a
// timeout, at any node, and the holder loses nothing meanwhile. Without: a hundred moves in a few seconds, each of them
// a log entry, for ever.
func TestM7TwoIdleHolders(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		s := c.Session(sdk(t, c, "sdk"), 10*time.Second)
		first := knock(c, "n1:7404")
		_, _ = first.Write(connecting(0, nil))
		id, password := connected(t, first)
		_ = first.Close()
		const timeout = 10 * time.Second * 7 / 6
		holders := []*holder{{of: c, id: id, password: password}, {of: c, id: id, password: password}}
		done := make(chan struct{})
		var all sync.WaitGroup
		for _, h := range holders {
			all.Go(func() { h.hold(done) })
		}
		const long = time.Minute
		time.Sleep(long)
		close(done)
		all.Wait()
		moves := holders[0].times() + holders[1].times()
		if most := int(long/(timeout/2)) + 2; moves > most || moves < most/2 {
			t.Errorf("%d moves in %v, want %d at most and half of that at least", moves, long, most)
		}
		if c.Sum("holdfast_leader_resumes_contested_total") == 0 {
			t.Error("no resume was counted as contested")
		}
		if s.Err() != nil {
			t.Error(s.Err())
		}
	})
}

// M7: a client that comes and goes never waits. It closes its former connection first, whose node then reports at once
// that the session has no holder there.
func TestM7AClientThatMovesOftenIsServedAtOnce(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		c.Session(sdk(t, c, "sdk"), 10*time.Second)
		n := knock(c, "n1:7404")
		_, _ = n.Write(connecting(0, nil))
		id, password := connected(t, n)
		for i := range 12 {
			_ = n.Close()
			begun := time.Now()
			n = knock(c, c.Names[i%len(c.Names)]+":7404")
			_, _ = n.Write(connecting(id, password))
			if got, _ := connected(t, n); got != id {
				t.Fatalf("got the session %v", got)
			}
			if took := time.Since(begun); took > 200*time.Millisecond {
				t.Errorf("move %d took %v", i, took)
			}
		}
		if n := c.Sum("holdfast_leader_resumes_contested_total"); n > 0 {
			t.Errorf("%v moves were contested", n)
		}
	})
}
