package zk

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// unpromised is a connection whose session has no promise: it has ended, or the node hears of no leader.
type unpromised struct{ session.Connection }

func (unpromised) Promised(session.ID) time.Duration { return -1 }

// told is a connection that has been told everything.
type told struct{ session.TreeConnection }

func (told) Next(time.Time) (session.TreeTold, bool) { return session.TreeTold{}, false }

// piped returns a connection that has bytes to send, and its client's end. Nobody confirms anything: a test judges in
// the confirmer's place.
func piped(timeout time.Duration, link session.Connection, bytes []byte) (c *conn, client net.Conn) {
	s := &Server{ctx: context.Background()}
	s.confirm = newConfirmer(s)
	s.confirm.running = true
	near, far := net.Pipe()
	c = newConn(s, far)
	c.link, c.tree, c.token.ID = link, told{}, 7
	c.timeout, c.period = timeout, timeout
	c.out.greeting.made, c.out.sending.bytes = true, bytes
	return c, near
}

// Events wait while the session's promise is too short (Z5). Once the client has closed its session they wait no
// longer: no touch of it will ever be confirmed, and the reply to the close comes after them.
func TestEventsDoNotOutlastAClose(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, near := piped(30*time.Second, unpromised{}, []byte("an event"))
		s := c.server
		c.out.fate.closing.Store(true)
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

// A connection whose session has ended, or has moved, waits for no touch: none will ever be confirmed. Without: the
// client of a session that was killed goes on believing in it for a third of its timeout, if a byte waits for it.
func TestNothingWaitsForASessionThatHasLeft(t *testing.T) {
	for name, tell := range map[string]func(c *conn){
		"ended": func(c *conn) { c.Gone(session.Certificate{}) },
		"moved": func(c *conn) { c.Moved(7, 2, 99) },
	} {
		for when, early := range map[string]bool{"before a byte waits": true, "while a byte waits": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, near := piped(30*time.Second, unpromised{}, []byte("an event"))
					if early {
						tell(c)
					} else {
						c.out.poke()
						synctest.Wait()
						tell(c)
					}
					synctest.Wait()
					c.server.confirm.judge(time.Now())
					_ = near.SetReadDeadline(time.Now().Add(time.Second))
					if n, err := near.Read(make([]byte, 1)); n > 0 || err != io.EOF { //nolint:errorlint // not wrapped
						t.Errorf("the connection goes on: %d bytes, %v", n, err)
						c.end(errClosed)
					}
					c.out.wait()
				})
			})
		}
	}
}

// promised is a connection whose session has a promise.
type promised struct {
	session.Connection

	left time.Duration
}

func (p promised) Promised(session.ID) time.Duration { return p.left }

// A byte may be sent while the promise is two thirds of what the client was told, and a hundredth of the timeout (Z5).
func TestBytesNeedAPromise(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c := newConn(&Server{}, far)
	c.timeout, c.period = 35*time.Second, 30*time.Second
	const enough = 20*time.Second + 350*time.Millisecond
	for left, want := range map[time.Duration]bool{
		enough: true, enough - 1: false, enough / 2: false, 0: false, -1: false, time.Minute: true,
	} {
		if c.link = (promised{left: left}); c.out.mayTell() != want {
			t.Errorf("with a promise of %v a byte may be sent: %t, want %t", left, !want, want)
		}
	}
	c.link = promised{left: -1}
	if c.token.Local = true; !c.out.mayTell() {
		t.Error("a byte of a local session waits for the cluster")
	}
}

// A session may move or end between its grant and the answer to the handshake. Its connection ends then.
func TestASessionThatEndsBeforeTheHandshakeDoes(t *testing.T) {
	for name, tell := range map[string]func(c *conn){
		"ended": func(c *conn) { c.Gone(session.Certificate{}) },
		"moved": func(c *conn) { c.Moved(7, 2, 99) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := &Server{ctx: context.Background()}
				s.confirm = newConfirmer(s)
				near, far := net.Pipe()
				c := newConn(s, far)
				tell(c)
				synctest.Wait()
				if _, err := near.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // not wrapped
					t.Errorf("the connection goes on: %v", err)
				}
			})
		})
	}
}

// lossy is a connection whose client is told that events are lost, and then of a later one.
type lossy struct {
	session.TreeConnection

	asked int
}

func (l *lossy) Next(time.Time) (session.TreeTold, bool) {
	const lost, later = 5, 9
	l.asked++
	switch l.asked {
	case 1:
		return session.TreeTold{Lost: true, Told: lost}, true
	case 2:
		event := tree.Event{Stamp: later, Kind: tree.DataChanged, Path: "/later"}
		return session.TreeTold{Events: []tree.Event{event}, Told: later}, true
	}
	return session.TreeTold{}, false
}

// A client that may have missed events is disconnected, and is told nothing that came after them (V6, Z7): it would
// show a zxid beyond them when it comes back, and would never hear of them. So no second writer begins while the
// first one, which has met the loss, ends the connection.
func TestNothingIsSentBehindALoss(t *testing.T) {
	c, client := piped(30*time.Second, promised{left: time.Hour}, nil)
	c.tree = &lossy{}
	read := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(client) // the pipe ends with an error or without
		read <- b
	}()
	c.mu.Lock() // the first writer is held up here, where it ends the connection
	c.out.poke()
	c.out.wait()
	c.out.poke() // the lane has more
	c.out.wait()
	c.mu.Unlock()
	if b := <-read; len(b) > 0 {
		t.Errorf("behind a loss the client was sent %q", b)
	}
}

// A client that pings and reads nothing does not fill the memory.
func TestPingsThatNobodyReads(t *testing.T) {
	c, _ := piped(30*time.Second, unpromised{}, nil)
	c.out.writing = true // what is written is not taken
	for n := range maxSmall {
		if err := c.out.reply(small{}); err != nil {
			t.Fatalf("ping %d: %v", n, err)
		}
	}
	if err := c.out.reply(small{}); !errors.Is(err, errForeign) {
		t.Errorf("one ping more: %v, want the end of the connection", err)
	}
	if got := len(c.out.small); got != maxSmall {
		t.Errorf("%d replies wait", got)
	}
}
