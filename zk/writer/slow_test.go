package writer

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

// lasting is a session that has a promise until a moment.
type lasting struct {
	end time.Time
}

func (l lasting) Promised(session.ID) time.Duration { return time.Until(l.end) }

// much is what the tests below send: many parts.
const much = 16 * sendBytes

// sends returns a writer that sends much to a client.
func sends(t *testing.T, timeout time.Duration, promises Promises) (w *Writer, client net.Conn) {
	t.Helper()
	w, client = piped(timeout, promises, told{}, make([]byte, much))
	w.session.ClientTimeout, w.buffer.plain = timeout*6/7, true
	w.Wake()
	t.Cleanup(func() {
		ends(w)
		w.Wait()
	})
	return w, client
}

// A client that reads a long answer slowly is not disconnected, unlike a client that reads nothing (G9 answer bounds).
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

// Bytes that a client does not accept while a byte may be sent are not sent later: it would believe for too long that
// it has its session (Z5 disconnected before expired).
func TestNoByteIsLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const timeout, promise = 35 * time.Second, 21 * time.Second // a byte needs 20.35 s
		w, client := sends(t, timeout, lasting{end: time.Now().Add(promise)})
		if _, err := io.ReadFull(client, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		_ = client.SetReadDeadline(time.Now().Add(time.Second))
		n, err := io.ReadFull(client, make([]byte, much))
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes came while %v were promised: %v", n, w.session.Promises.Promised(7), err)
		}
		w.confirmer.mu.Lock()
		waits := len(w.confirmer.blocked)
		w.confirmer.mu.Unlock()
		if waits != 1 {
			t.Error("the rest waits for no confirmation")
		}
	})
}
