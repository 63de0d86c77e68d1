package zk

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// unpromised is a connection whose session has no promise: it has ended, or the node hears of no leader.
type unpromised struct{ session.Connection }

func (unpromised) Promised(session.ID) time.Duration { return -1 }

// told is a connection that has been told everything.
type told struct{ session.TreeConnection }

func (told) Next(time.Time) (session.TreeTold, bool) { return session.TreeTold{}, false }

// Events wait while the session's promise is too short (Z5). Once the client has closed its session they wait no
// longer: no touch of it will ever be confirmed, and the reply to the close comes after them.
func TestEventsDoNotOutlastAClose(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &Server{ctx: context.Background()}
		s.confirm = newConfirmer(s)
		s.confirm.running = true // the test judges in its place
		near, far := net.Pipe()
		c := newConn(s, far)
		c.link, c.tree, c.token.ID = unpromised{}, told{}, 7
		c.timeout, c.period = 30*time.Second, 30*time.Second
		c.out.unsent = []byte("an event")
		c.out.closing.Store(true)
		read := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(near) // the pipe ends with an error or without
			read <- b
		}()
		c.out.poke()
		synctest.Wait()
		s.confirm.judge(time.Now())
		synctest.Wait()
		if len(s.confirm.blocked) != 1 {
			t.Fatal("an event does not wait for a promise")
		}
		c.out.closed(5)
		s.confirm.judge(time.Now())
		synctest.Wait()
		select {
		case b := <-read:
			if !strings.HasPrefix(string(b), "an event") || !strings.Contains(string(b), "\x00\x00\x00\x05") {
				t.Errorf("the client reads %q, want the event and the reply to its close", b)
			}
		default:
			t.Error("the close is not answered")
			c.end(errClosed) // lets the reader go
		}
	})
}
