package raftnet

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"holdfast/test/bubble"
)

func TestCloseClosesAllConnections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, _ := network.layer(t, "b", "c", 2)
		accepted := accepting(b)
		dialled, err := a.Dial("b", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		theirs := <-accepted
		time.Sleep(time.Minute) // no deadline of the handshake may be left
		go func() { _, _ = dialled.Write([]byte{0}) }()
		if _, err := theirs.Read(make([]byte, 1)); err != nil {
			t.Errorf("reading after a minute: %v", err)
		}
		closeAll(t, b)
		if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("an accepted connection after Close read %v", err)
		}
		if _, err := b.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v", err)
		}
		if _, err := b.Dial("a", time.Second); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial after Close: %v", err)
		}
		closeAll(t, b, a)
		if _, err := dialled.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a dialled connection after Close read %v", err)
		}
		if len(a.open)+len(b.open) != 0 {
			t.Error("closed layers remember connections")
		}
	})
}

func TestConnectionsThatAreClosedAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, _ := network.layer(t, "b", "c", 2)
		accepted := accepting(b)
		for range 100 {
			conn, err := a.Dial("b", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			theirs := <-accepted
			conn.Close()
			theirs.Close()
			theirs.Close()
		}
		if len(a.open)+len(b.open) != 0 {
			t.Errorf("%d and %d connections are remembered", len(a.open), len(b.open))
		}
		closeAll(t, a, b)
	})
}

func TestCloseWithHandshakesUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, _ := network.layer(t, "b", "c", 2)
		accepted := make(chan net.Conn, 1)
		go func() {
			conn, err := b.Accept()
			if err != nil {
				t.Errorf("Accept: %v", err)
			}
			accepted <- conn
		}()
		for range 3 { // one is accepted, one waits for Accept, one is silent
			if conn, err := a.Dial("b", time.Second); err != nil {
				t.Errorf("Dial: %v", err)
			} else {
				defer conn.Close()
			}
		}
		if _, err := network.dial(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		defer (<-accepted).Close()
		begun := time.Now()
		closeAll(t, b, a)
		if got := time.Since(begun); got != 0 {
			t.Errorf("Close waited %v for handshakes", got)
		}
		never, _ := network.layer(t, "never", "c", 3)
		closeAll(t, never)
		if _, err := never.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the first Accept after Close: %v", err)
		}
	})
}
