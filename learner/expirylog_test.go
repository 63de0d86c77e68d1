package learner

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

// known are the events of a client that the node knows.
type known struct{ events }

func (*known) Client() session.Client {
	return session.Client{Address: "10.0.0.7:4000", Name: "orders", Verified: true}
}

// expire has the state show that a session has expired.
func (w *world) expire(id session.ID, silent time.Duration) {
	c := session.Certificate{
		ID: id, Cause: session.CauseExpired, LastTouchAge: 11 * time.Second,
		Story: session.Story{Spec: session.Spec{Timeout: 10 * time.Second}, Silent: silent},
	}
	w.view.drop(c)
	w.server.Applied(0, 1, []session.Change{{Kind: session.Ended, Session: session.Session{ID: id}, Certificate: &c}})
}

// sharedLog is a log that a test reads while a node writes it.
type sharedLog struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *sharedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// take returns the lines written since the last call.
func (l *sharedLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	l.text.Reset()
	return text
}

// The node that served a session logs its expiry: whose it was, and why. Of many that expire at once it logs some, and
// counts the others. No other end is logged.
func TestExpiriesAreLogged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log sharedLog
		cfg := config()
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
		w := newWorldOf(t, cfg)
		w.follow()
		w.conn = w.connect(&known{}).(*connection)
		const many = 30
		for id := session.ID(1); id <= many+4; id++ {
			w.open(id, uint64(id))
		}
		says := func(what string, want ...string) {
			t.Helper()
			lines := log.take()
			for _, text := range want {
				if !strings.Contains(lines, text) {
					t.Errorf("%s: the log lacks %q:\n%s", what, text, lines)
				}
			}
			if n := strings.Count(lines, "session expired:"); n != 1 {
				t.Errorf("%s: %d lines", what, n)
			}
			time.Sleep(time.Second)
		}
		w.expire(1, 0)
		says("with its client there", "session="+session.ID(1).String(), "client=10.0.0.7:4000", `name="orders"`,
			"timeout=10s", "last_touch=11s", "its client was connected", "left_out_before=0")
		w.expire(2, 5*time.Second)
		says("of a node that the leader had lost", "the leader could not reach this node")
		w.conn.Disconnect()
		w.expire(3, 0)
		says("with its client gone", "client=10.0.0.7:4000", "its client was disconnected")

		closed := session.Certificate{ID: 4, Cause: session.CauseClosed}
		w.view.drop(closed)
		w.server.Applied(0, 1, []session.Change{{Kind: session.Ended, Session: session.Session{ID: 4}, Certificate: &closed}})
		for id := session.ID(5); id < many+4; id++ {
			w.expire(id, 0)
		}
		if n := strings.Count(log.take(), "session expired:"); n != session.LogLinesPerSecond {
			t.Errorf("%d lines in a second, want %d", n, session.LogLinesPerSecond)
		}
		time.Sleep(time.Second)
		w.expire(many+4, 0)
		says("after many", fmt.Sprint("left_out_before=", many-1-session.LogLinesPerSecond))
	})
}

// So does the node of a local session, of which it alone knows.
func TestExpiriesOfLocalSessionsAreLogged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log sharedLog
		w := stocked(t)
		w.server.expiries.logger = hclog.New(&hclog.LoggerOptions{Output: &log})
		conn := w.connect(&known{}).(*connection)
		id := w.openLocal(conn, 1).Session.ID
		time.Sleep(2 * timeout)
		if lines := log.take(); strings.Count(lines, "session expired:") != 1 || !strings.Contains(lines, id.String()) ||
			!strings.Contains(lines, "client=10.0.0.7:4000") || !strings.Contains(lines, `name="orders"`) {
			t.Errorf("the log says:\n%s", lines)
		}
		closed := w.openLocal(conn, 2)
		if err := conn.Close(t.Context(), closed.Token); err != nil {
			t.Fatal(err)
		}
		if lines := log.take(); strings.Contains(lines, "session expired:") {
			t.Errorf("of a close the log says:\n%s", lines)
		}
	})
}
