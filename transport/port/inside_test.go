package port

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

// The port sees whoever a connection is for, and bytes go both ways. After its end it accepts nobody and blocks nobody.
func TestInside(t *testing.T) {
	l := NewInside()
	behalf, other := net.Pipe()
	defer other.Close()
	accepted := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	near, err := l.Dial(t.Context(), behalf)
	if err != nil {
		t.Fatal(err)
	}
	far := <-accepted
	if far.RemoteAddr() != behalf.RemoteAddr() || far.(interface{ NetConn() net.Conn }).NetConn() != behalf {
		t.Errorf("the port sees %v", far.RemoteAddr())
	}
	for _, way := range []struct{ from, to net.Conn }{{near, far}, {far, near}} {
		got := make([]byte, 5)
		if _, err := way.from.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(way.to, got); err != nil || string(got) != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Dial(cancelled, behalf); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody accepts, and the caller has gone: %v", err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end: %v", err)
	}
	if _, err := l.Dial(t.Context(), behalf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after the end: %v", err)
	}
}
