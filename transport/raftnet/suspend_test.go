package raftnet

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/test/bubble"
)

func TestSuspendCutsOffAndResumeLetsBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, _ := network.layer(t, "b", "c", 2)
		fromA, fromB := accepting(b), accepting(a)
		meet := func() (dialled, accepted net.Conn) {
			t.Helper()
			dialled, err := a.Dial("b", time.Second)
			if err != nil {
				t.Fatalf("Dial: %v", err)
			}
			return dialled, <-fromA
		}
		out, in := meet()
		back, err := b.Dial("a", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		<-fromB
		b.Suspend()
		for what, conn := range map[string]net.Conn{"an accepted connection": in, "a dialled connection": back} {
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s of a suspended layer read %v", what, err)
			}
		}
		if _, err := out.Read(make([]byte, 1)); err == nil {
			t.Error("the other side reads on")
		}
		begun := time.Now()
		if _, err := b.Dial("a", time.Second); !errors.Is(err, errSuspended) {
			t.Errorf("a suspended layer dials: %v", err)
		}
		if _, err := a.Dial("b", time.Second); err == nil || time.Since(begun) != 0 {
			t.Errorf("a suspended layer is reached: %v after %v", err, time.Since(begun))
		}
		b.Suspend() // a second Suspend changes nothing
		b.Resume()
		out, in = meet()
		go func() { _, _ = out.Write([]byte{0}) }()
		if _, err := in.Read(make([]byte, 1)); err != nil {
			t.Errorf("after Resume: %v", err)
		}
		if len(b.open) != 1 {
			t.Errorf("%d connections are remembered, want 1", len(b.open))
		}
		b.Leave()
		b.Resume()
		if _, err := b.Dial("a", time.Second); !errors.Is(err, errSuspended) {
			t.Errorf("a layer that has left dials: %v", err)
		}
		closeAll(t, a, b)
		b.Resume()
		if _, err := b.Dial("a", time.Second); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial after Close: %v", err)
		}
	})
}

// A dial and a handshake that are in flight when the layer is suspended do not succeed.
func TestSuspendInTheMiddle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, _ := network.layer(t, "b", "c", 2)
		accepted := accepting(b)
		network.listen("hung")
		dialled := make(chan error, 1)
		go func() {
			_, err := a.Dial("hung", time.Hour)
			dialled <- err
		}()
		silent, err := network.dial(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := time.Now()
		a.Suspend()
		b.Suspend()
		if err := <-dialled; err == nil || time.Since(begun) != 0 {
			t.Errorf("a dial under way: %v after %v", err, time.Since(begun))
		}
		if _, err := silent.Read(make([]byte, 1)); err == nil || time.Since(begun) != 0 {
			t.Errorf("a handshake under way: %v after %v", err, time.Since(begun))
		}
		if len(accepted) != 0 {
			t.Error("a connection was accepted")
		}
		closeAll(t, a, b)
	})
}
