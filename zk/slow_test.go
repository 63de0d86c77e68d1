package zk

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// lasting is a connection whose session has a promise until a moment.
type lasting struct {
	session.Connection

	end time.Time
}

func (l lasting) Promised(session.ID) time.Duration { return time.Until(l.end) }

// much is what the tests below send: many parts.
const much = 16 * sendBytes

// sends has a connection send much to a client, which is returned.
func sends(t *testing.T, timeout time.Duration, link session.Connection) (c *conn, client net.Conn) {
	t.Helper()
	c, client = piped(timeout, link, make([]byte, much))
	c.period, c.out.sending.plain = timeout*6/7, true
	c.out.poke()
	t.Cleanup(func() {
		c.end(errClosed)
		c.out.wait()
	})
	return c, client
}

// A client that takes a long answer slowly is not given up, as one that takes nothing is (G9).
func TestSlowClients(t *testing.T) {
	for name, pause := range map[string]time.Duration{"slow": 2 * time.Second, "stuck": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				_, client := sends(t, 9*time.Second, promised{left: time.Hour})
				part := make([]byte, sendBytes)
				got := 0
				for got < much {
					n, err := io.ReadFull(client, part)
					if got += n; err != nil {
						break
					}
					time.Sleep(pause)
				}
				if whole := got == much; whole != (name == "slow") {
					t.Errorf("got %d of %d bytes", got, much)
				}
			})
		})
	}
}

// What a client does not take while a byte may be sent, it is not told later: it would believe for too long that it has
// its session (Z5).
func TestNoByteIsLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const timeout, promise = 35 * time.Second, 21 * time.Second // a byte needs 20.35 s
		c, client := sends(t, timeout, lasting{end: time.Now().Add(promise)})
		if _, err := io.ReadFull(client, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		_ = client.SetReadDeadline(time.Now().Add(time.Second))
		n, err := io.ReadFull(client, make([]byte, much))
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes came while %v were promised: %v", n, c.link.Promised(7), err)
		}
		c.server.confirm.mu.Lock()
		waits := len(c.server.confirm.blocked)
		c.server.confirm.mu.Unlock()
		if waits != 1 {
			t.Error("the rest waits for no confirmation")
		}
	})
}
