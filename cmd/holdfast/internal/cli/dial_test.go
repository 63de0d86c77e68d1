package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"holdfast/cmd/holdfast/internal/clitest/fakenode"
)

// began makes a connection, writes gRPC's first bytes, and waits for an answer or the end.
func began(t *testing.T, d *dialer, address string) {
	t.Helper()
	conn, err := d.dial(t.Context(), address)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, writeErr := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	_, readErr := conn.Read(make([]byte, 64))
	t.Logf("%s: write %v, read %v", address, writeErr, readErr)
}

// The dialer keeps the typed cause of a failure until a connection to the same address succeeds.
func TestDialerKeepsTheCauseOfAFailure(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	n := fakenode.Start(t)
	var d dialer
	for address, cause := range map[string]error{
		fakenode.ClosedPort(t): syscall.ECONNREFUSED, fakenode.HangingUp(t): errHungUp,
		web.Listener.Addr().String(): errHTTP1,
	} {
		began(t, &d, address)
		if got := d.failure(address); !errors.Is(got, cause) || !d.saw(cause) {
			t.Errorf("%s: got %v, want %v", address, got, cause)
		}
		d.note(n.Address, cause)
		began(t, &d, n.Address)
		if got := d.failure(n.Address); got != nil {
			t.Errorf("a node that answered after %v: got %v", cause, got)
		}
	}
}

// A connection that the SDK gives up says nothing about the address.
func TestDialerIgnoresConnectionsThatTheSDKGivesUp(t *testing.T) {
	n := fakenode.Start(t)
	var d dialer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.dial(ctx, n.Address); !errors.Is(err, context.Canceled) || d.failure(n.Address) != nil {
		t.Errorf("got %v, and %v is noted", err, d.failure(n.Address))
	}
	conn, err := d.dial(t.Context(), n.Address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) || d.failure(n.Address) != nil {
		t.Errorf("read %v, and %v is noted", err, d.failure(n.Address))
	}
}

// scripted is a connection with the reads and the write error of a test.
type scripted struct {
	net.Conn
	reads    io.Reader
	writeErr error
}

func (c *scripted) Read(b []byte) (int, error) { return c.reads.Read(b) }

func (c *scripted) Write(b []byte) (int, error) { return len(b), c.writeErr }

// A connection reports its first event only: a later error is not an early failure.
func TestAConnectionReportsOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		conn scripted
		want []error
	}{
		"a frame, then the end": {scripted{reads: bytes.NewReader([]byte{0, 0, 6, 4})}, []error{nil}},
		"the end":               {scripted{reads: bytes.NewReader(nil)}, []error{errHungUp}},
		"HTTP/1":                {scripted{reads: bytes.NewReader([]byte("HTTP/1.1 505 "))}, []error{errHTTP1}},
		"a reset write":         {scripted{reads: bytes.NewReader(nil), writeErr: syscall.ECONNRESET}, []error{errHungUp}},
	} {
		var got []error
		c := &watchedConn{Conn: &tt.conn, note: func(err error) { got = append(got, err) }, onHTTP2: func() {}}
		for range 2 {
			_, _ = c.Write([]byte("x"))
			_, _ = c.Read(make([]byte, 64))
		}
		if len(got) != len(tt.want) || !errors.Is(got[0], tt.want[0]) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
