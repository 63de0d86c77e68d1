package writer

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// unpromised is a session without a promise: it has ended, or the node knows no leader.
type unpromised struct{}

func (unpromised) Promised(session.ID) time.Duration { return -1 }

// told is a node that has nothing for the client.
type told struct{}

func (told) Next(time.Time) (session.TreeMessage, bool) { return session.TreeMessage{}, false }

// none has no requests.
type none struct{}

func (none) Answered(*session.TreeAnswer) (*jute.Encoder, error) { return nil, nil } //nolint:nilnil // as [Requests]
func (none) RestoringWatches() bool                              { return false }
func (none) InFlight() int                                       { return 0 }

// piped returns a writer that has bytes to send, and its client's end. No touches are confirmed: a test releases
// writers instead of the confirmer.
func piped(timeout time.Duration, promises Promises, source Source, bytes []byte) (w *Writer, client net.Conn) {
	confirmer := NewConfirmer(context.Background(), nil, &Counters{})
	confirmer.running = true
	near, far := net.Pipe()
	w = New(far, none{}, confirmer, nil)
	w.end = func(error) { ends(w) }
	w.session = Session{ID: 7, Timeout: timeout, ClientTimeout: timeout, Source: source, Promises: promises}
	w.greeted, w.buffer.bytes = true, bytes
	return w, near
}

// ends ends the connection of a writer.
func ends(w *Writer) {
	w.Stop()
	_ = w.net.Close()
}

// Events wait while the session's promise is too short (Z5 disconnected before expired). Once the client has closed its
// session they wait no longer: no touch of it will ever be confirmed, and the reply to the close comes after them.
func TestEventsDoNotOutlastAClose(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, near := piped(30*time.Second, unpromised{}, told{}, []byte("an event"))
		read := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(near) // the pipe ends with an error or without
			read <- b
		}()
		w.Wake()
		synctest.Wait()
		w.confirmer.release(time.Now())
		synctest.Wait()
		if len(w.confirmer.blocked) != 1 {
			t.Fatal("an event does not wait for a promise")
		}
		w.SessionClosed(5)
		w.confirmer.release(time.Now())
		synctest.Wait()
		select {
		case b := <-read:
			if !strings.HasPrefix(string(b), "an event") || !strings.Contains(string(b), "\x00\x00\x00\x05") {
				t.Errorf("the client reads %q, want the event and the reply to its close", b)
			}
		default:
			t.Error("the close is not answered")
			ends(w) // lets the reader go
		}
	})
}

// A connection whose session has ended, or has moved, waits for no touch: none will ever be confirmed. Without: the
// client of a killed session believes in it for another third of its timeout, if a byte waits for it.
func TestNothingWaitsForASessionThatHasLeft(t *testing.T) {
	for when, early := range map[string]bool{"before a byte waits": true, "while a byte waits": false} {
		t.Run(when, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w, near := piped(30*time.Second, unpromised{}, told{}, []byte("an event"))
				if !early {
					w.Wake()
					synctest.Wait()
				}
				w.SessionLeft()
				synctest.Wait()
				w.confirmer.release(time.Now())
				_ = near.SetReadDeadline(time.Now().Add(time.Second))
				if n, err := near.Read(make([]byte, 1)); n > 0 || err != io.EOF { //nolint:errorlint // not wrapped
					t.Errorf("the connection goes on: %d bytes, %v", n, err)
					ends(w)
				}
				w.Wait()
			})
		})
	}
}

// promised is a session with a promise.
type promised struct {
	left time.Duration
}

func (p promised) Promised(session.ID) time.Duration { return p.left }

// ending is a session without a promise, whose connection ends while a writer asks for the promise.
type ending struct {
	end func()
}

func (e *ending) Promised(session.ID) time.Duration {
	e.end()
	return -1
}

// A connection that waits too long for a confirmed touch ends, and is counted. One that has ended by itself meanwhile,
// because its client has gone or the node stops, is not.
func TestOnlyBlockedWritersAreUnconfirmed(t *testing.T) {
	const timeout = 30 * time.Second
	for name, gone := range map[string]bool{"waits": false, "has gone": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := &ending{end: func() {}}
				w, _ := piped(timeout, e, told{}, []byte("an event"))
				var ended error
				w.end = func(why error) {
					ended = why
					ends(w)
				}
				w.Wake()
				synctest.Wait()
				c := w.confirmer
				if c.release(time.Now().Add(timeout / stuckPart)); c.counters.Unconfirmed.Load() != 0 || ended != nil {
					t.Fatalf("given up too early: %v", ended)
				}
				if gone {
					e.end = func() { ends(w) }
				}
				c.release(time.Now().Add(timeout/stuckPart + 1))
				w.Wait()
				counted := c.counters.Unconfirmed.Load() == 1
				if counted == gone || errors.Is(ended, errUnconfirmed) == gone || len(c.blocked) > 0 {
					t.Errorf("counted: %v, ended because of %v, %d writers are blocked", counted, ended, len(c.blocked))
				}
			})
		})
	}
}

// A writer that is stopped just before it is blocked ends: nobody would start it again.
func TestAWriterStopsBeforeItIsBlocked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := &ending{}
		w, _ := piped(30*time.Second, e, told{}, []byte("an event"))
		e.end = func() { ends(w) }
		w.Wake()
		w.Wait()
		if n := len(w.confirmer.blocked); n > 0 {
			t.Errorf("%d writers are blocked", n)
		}
	})
}

// A byte may be sent while the promise is two thirds of what the client was told, and a hundredth of the timeout (Z5).
func TestBytesNeedAPromise(t *testing.T) {
	var w Writer
	w.session = Session{Timeout: 35 * time.Second, ClientTimeout: 30 * time.Second}
	const enough = 20*time.Second + 350*time.Millisecond
	for left, want := range map[time.Duration]bool{
		enough: true, enough - 1: false, enough / 2: false, 0: false, -1: false, time.Minute: true,
	} {
		if w.session.Promises = (promised{left: left}); w.maySend() != want {
			t.Errorf("with a promise of %v a byte may be sent: %t, want %t", left, !want, want)
		}
	}
	w.session.Promises = promised{left: -1}
	if w.session.Local = true; !w.maySend() {
		t.Error("a byte of a local session waits for the cluster")
	}
}

// lossy is a node that has lost events of the client, and then has a later one.
type lossy struct {
	asked int
}

func (l *lossy) Next(time.Time) (session.TreeMessage, bool) {
	const lost, later = 5, 9
	l.asked++
	switch l.asked {
	case 1:
		return session.TreeMessage{Lost: true, Delivered: lost}, true
	case 2:
		event := tree.Event{Stamp: later, Kind: tree.DataChanged, Path: "/later"}
		return session.TreeMessage{Events: []tree.Event{event}, Delivered: later}, true
	}
	return session.TreeMessage{}, false
}

// A client that may have missed events is disconnected, and gets no later event (V6 LOST, Z7): it would show a zxid
// beyond the lost events when it comes back, and would never receive them. So no second writer starts while the first
// writer, which has met the loss, ends the connection.
func TestNothingIsSentBehindALoss(t *testing.T) {
	w, client := piped(30*time.Second, promised{left: time.Hour}, &lossy{}, nil)
	var held sync.Mutex
	w.end = func(error) {
		held.Lock()
		defer held.Unlock()
		ends(w)
	}
	read := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(client) // the pipe ends with an error or without
		read <- b
	}()
	held.Lock() // the first goroutine waits where it ends the connection
	w.Wake()
	w.Wait()
	w.Wake() // the node has more
	w.Wait()
	held.Unlock()
	if b := <-read; len(b) > 0 {
		t.Errorf("behind a loss the client was sent %q", b)
	}
}

// A client that pings and reads nothing does not fill the memory.
func TestPingsThatNobodyReads(t *testing.T) {
	w, _ := piped(30*time.Second, unpromised{}, told{}, nil)
	w.running = true // nothing is sent
	for n := range maxUnordered {
		if err := w.Pong(1); err != nil {
			t.Fatalf("ping %d: %v", n, err)
		}
	}
	if err := w.Pong(1); !errors.Is(err, jute.ErrProtocol) {
		t.Errorf("one ping more: %v, want the end of the connection", err)
	}
	if got := len(w.unordered); got != maxUnordered {
		t.Errorf("%d replies wait", got)
	}
}
