package simnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/test/bubble"
)

const latency = 3 * time.Millisecond

// pair returns both ends of a connection from host a to host b.
func pair(t *testing.T) (n *Network, a, b net.Conn) {
	t.Helper()
	n = New(func(string, string) time.Duration { return latency })
	l, err := n.Host("b").Listen(":1")
	if err != nil {
		t.Fatal(err)
	}
	if a, err = n.Host("a").Dial(t.Context(), "b:1"); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return n, a, b
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
}

// read reads for at most d. It returns the bytes, and how long the read took.
func read(t *testing.T, c net.Conn, d time.Duration) (string, time.Duration, error) {
	t.Helper()
	start := time.Now()
	if err := c.SetReadDeadline(start.Add(d)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, err := c.Read(b)
	return string(b[:n]), time.Since(start), err
}

func TestBytesArriveAfterTheLatency(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		write(t, a, "hello ")
		write(t, a, "there")
		got, after, err := read(t, b, time.Second)
		if got != "hello " || after != latency || err != nil {
			t.Fatalf("got %q after %v, %v; want %q after %v", got, after, err, "hello ", latency)
		}
		if got, after, err = read(t, b, time.Second); got != "there" || after != 0 || err != nil {
			t.Fatalf("got %q after %v, %v; want %q at once", got, after, err, "there")
		}
	})
}

func TestDeadlineEndsRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, _, b := pair(t)
		_, after, err := read(t, b, time.Second)
		if !errors.Is(err, os.ErrDeadlineExceeded) || after != time.Second {
			t.Fatalf("got %v after %v, want a timeout after 1s", err, after)
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("%v is no timeout", err)
		}
	})
}

func TestCutHangsOneDirectionAndHealDelivers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.Cut("a", "b")
		write(t, a, "late")
		if _, _, err := read(t, b, time.Hour); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read through a cut: %v", err)
		}
		write(t, b, "other way")
		if got, _, err := read(t, a, time.Hour); got != "other way" || err != nil {
			t.Fatalf("the direction that was not cut: %q, %v", got, err)
		}
		n.Heal("a", "b")
		if got, after, err := read(t, b, time.Hour); got != "late" || after != 0 || err != nil {
			t.Fatalf("after the heal: %q after %v, %v", got, after, err)
		}
		if held := n.Held("a", "b"); held != 1 {
			t.Fatalf("held %d, want 1", held)
		}
	})
}

func TestCutHidesAClose(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.Cut("a", "b")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(t, b, time.Hour); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("received the close through a cut: %v", err)
		}
		n.Heal("a", "b")
		if _, _, err := read(t, b, time.Hour); !errors.Is(err, io.EOF) {
			t.Fatalf("after the heal: %v, want EOF", err)
		}
	})
}

func TestDialHangsWhileCut(t *testing.T) {
	for _, c := range []link{{"a", "b"}, {"b", "a"}} {
		t.Run(c.from+c.to, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := New(nil)
				if _, err := n.Host("b").Listen(":1"); err != nil {
					t.Fatal(err)
				}
				a := n.Host("a")
				n.Cut(c.from, c.to)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := a.Dial(ctx, "b:1"); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("dial through a cut: %v", err)
				}
				time.AfterFunc(time.Minute, func() { n.Heal(c.from, c.to) })
				start := time.Now()
				if _, err := a.Dial(t.Context(), "b:1"); err != nil || time.Since(start) != time.Minute {
					t.Fatalf("dial over a heal: %v after %v", err, time.Since(start))
				}
				if n.Held(c.from, c.to) != 2 {
					t.Fatalf("held %d, want 2", n.Held(c.from, c.to))
				}
			})
		})
	}
}

func TestPauseHoldsBothDirections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.Pause("b")
		write(t, a, "to")
		write(t, b, "from")
		for _, c := range []net.Conn{a, b} {
			if _, _, err := read(t, c, time.Minute); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("read through a pause: %v", err)
			}
		}
		n.Resume("b")
		if got, _, err := read(t, b, time.Minute); got != "to" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
		if got, _, err := read(t, a, time.Minute); got != "from" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

func TestKillResetsAndRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := New(nil)
		life := n.Host("b")
		l, err := life.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		a := n.Host("a")
		near, err := a.Dial(t.Context(), "b:1")
		if err != nil {
			t.Fatal(err)
		}
		n.Kill("b")
		if _, _, err = read(t, near, time.Minute); !errors.Is(err, errReset) {
			t.Errorf("read from a killed host: %v", err)
		}
		if _, err = l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept on a killed host: %v", err)
		}
		if _, err = a.Dial(t.Context(), "b:1"); !errors.Is(err, errRefused) {
			t.Errorf("dial of a killed host: %v", err)
		}
		if _, err = life.Listen(":1"); !errors.Is(err, errDead) {
			t.Errorf("a former life listens: %v", err)
		}
		if _, err = life.Dial(t.Context(), "a:1"); !errors.Is(err, errDead) {
			t.Errorf("a former life dials: %v", err)
		}
		if _, err = n.Host("b").Listen(":1"); err != nil {
			t.Errorf("the next life cannot listen: %v", err)
		}
		near.Close()
		if n.Conns() != 0 {
			t.Errorf("%d connections left", n.Conns())
		}
	})
}

func TestWindowHoldsTheWriter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		data := bytes.Repeat([]byte("0123456789abcdef"), window/8)
		if err := a.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Write(data); n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d, %v; want %d and a timeout", n, err, window)
		}
		if err := a.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		go func() {
			a.Write(data[window:])
			a.Close()
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read %d bytes, %v; want the %d written", len(got), err, len(data))
		}
	})
}

func TestClosedEndsFail(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, a, _ := pair(t)
		done := make(chan error)
		go func() {
			_, err := a.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("read on a closed end: %v", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write on a closed end: %v", err)
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
	})
}
