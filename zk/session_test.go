package zk

import (
	"io"
	"net"
	"testing"
	"testing/synctest"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/zk/frames"
	"holdfast/zk/jute"
)

// A session may move or end between its grant and the answer to the handshake. Its connection ends then.
func TestASessionThatEndsBeforeTheHandshakeDoes(t *testing.T) {
	for name, tell := range map[string]func(c *conn){
		"ended": func(c *conn) { c.session.Gone(session.Certificate{}) },
		"moved": func(c *conn) { c.session.Moved(7, 2, 99) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				c := newConn(New(Config{}, nil), far)
				tell(c)
				synctest.Wait()
				if _, err := near.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // not wrapped
					t.Errorf("the connection goes on: %v", err)
				}
			})
		})
	}
}

// A connection that lost the memory of its incomplete frame is counted as a protocol error.
func TestPartialFramesAreProtocolErrors(t *testing.T) {
	for why, want := range map[error]bool{frames.ErrPartial: true, jute.ErrProtocol: true, errMoved: false} {
		if isProtocolError(why) != want {
			t.Errorf("%v: is a protocol error: %t", why, !want)
		}
	}
}
