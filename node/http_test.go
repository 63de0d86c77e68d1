package node

import (
	"context"
	"net/http"
	"testing"
	"time"

	"holdfast/node/ports"
	"holdfast/test/bubble"
)

// A browser keeps connections on which it has asked for nothing yet. They hold up no stop, and make none fail.
func TestSilentConnectionsHoldUpNoStop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		c.leader(within)
		n := c.others(c.leader(within))[0]
		conn, err := c.Host("browser").Dial(t.Context(), n.name+":7403")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		time.Sleep(time.Second) // the server has it
		begun := time.Now()
		if err := c.end(n); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took >= 2*time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}

// A request that goes on for ever is cut off within the time of a stop, and makes none fail.
func TestRequestsEndWithTheNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 1, nil)
		defer c.stop()
		c.leader(within)
		n, busy := c.nodes[0], &busyConsole{asked: make(chan struct{}), ended: make(chan struct{})}
		if err := c.end(n); err != nil {
			t.Fatal(err)
		}
		c.console = func(ports.ConsoleHost) ports.Console { return busy }
		c.start(n)
		c.leader(within)
		conn, err := c.Host("browser").Dial(t.Context(), n.name+":7403")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET /ui/ HTTP/1.1\r\nHost: n1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		<-busy.asked
		begun := time.Now()
		if err := c.end(n); err != nil {
			t.Error(err)
		}
		if bound := c.config(n).Tuning.ShutdownTimeout; time.Since(begun) > bound {
			t.Errorf("the stop took %v, want at most %v", time.Since(begun), bound)
		}
		select {
		case <-busy.ended:
		case <-time.After(time.Second):
			t.Error("the request goes on")
		}
	})
}

// busyConsole answers when its caller is gone.
type busyConsole struct{ asked, ended chan struct{} }

func (*busyConsole) Run(context.Context) error { return nil }
func (*busyConsole) Stop()                     {}

func (b *busyConsole) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	close(b.asked)
	<-r.Context().Done()
	close(b.ended)
}
