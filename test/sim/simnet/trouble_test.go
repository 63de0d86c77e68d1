package simnet

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"holdfast/test/bubble"
)

func TestASlowLinkTakesLongerAndHealsInOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.Slow("a", "b", 50*time.Millisecond, 0)
		write(t, a, "slow")
		n.Slow("a", "b", -50*time.Millisecond, 0)
		write(t, a, "fast")
		for _, want := range []string{"slow", "fast"} {
			if got, _, err := read(t, b, time.Second); got != want || err != nil {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
		}
		write(t, a, "again")
		if got, after, err := read(t, b, time.Second); got != "again" || after != latency || err != nil {
			t.Errorf("got %q after %v, %v; want %v again", got, after, err, latency)
		}
		if n.Held("a", "b") != 1 {
			t.Errorf("%d writes were held back, want the slow one", n.Held("a", "b"))
		}
	})
}

func TestScatteredConnectionsOvertakeEachOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := New(func(string, string) time.Duration { return latency })
		l, err := n.Host("b").Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		host := n.Host("a")
		var near, far [2]net.Conn
		for i := range near {
			if near[i], err = host.Dial(t.Context(), "b:1"); err != nil {
				t.Fatal(err)
			}
			if far[i], err = l.Accept(); err != nil {
				t.Fatal(err)
			}
		}
		n.Slow("a", "b", 0, time.Second)
		overtaken := 0
		for range 20 {
			write(t, near[0], "first")
			write(t, near[1], "second")
			_, first, err := read(t, far[0], 2*time.Second)
			_, second, err2 := read(t, far[1], 2*time.Second)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if first > 0 && second == 0 { // the second had arrived when the first was read
				overtaken++
			}
		}
		if overtaken == 0 {
			t.Error("of 20 pairs no second message came before or with the first one")
		}
	})
}

func TestAResetLosesBytesInFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		write(t, a, "lost")
		if got := n.Reset("b", "a"); got != 1 {
			t.Errorf("%d connections were reset, want 1", got)
		}
		if got, _, err := read(t, b, time.Second); got != "" || !errors.Is(err, errReset) {
			t.Errorf("read %q, %v; want a reset", got, err)
		}
		if _, err := a.Write([]byte("more")); !errors.Is(err, errReset) {
			t.Errorf("write: %v, want a reset", err)
		}
		if got := n.Reset("a", "b"); got != 0 {
			t.Errorf("%d connections were reset again, want none", got)
		}
		if a.Close() != nil || b.Close() != nil || n.Conns() != 0 {
			t.Errorf("%d connection ends are open after their close", n.Conns())
		}
	})
}

func TestAChokedPortHoldsBothWaysAndNoOtherPort(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.Choke("b:2")
		write(t, a, "passes")
		if got, _, err := read(t, b, time.Second); got != "passes" || err != nil {
			t.Fatalf("read %q, %v; want what goes to another port", got, err)
		}
		n.Unchoke("b:2")
		n.Choke("b:1")
		write(t, a, "there")
		write(t, b, "back")
		for _, end := range []net.Conn{a, b} {
			if got, _, err := read(t, end, time.Second); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("read %q, %v; want nothing", got, err)
			}
		}
		dialing, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Host("c").Dial(dialing, "b:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial: %v, want it to hang", err)
		}
		if n.Held("a", "b") != 1 || n.Held("b", "a") != 1 || n.Held("c", "b") != 1 {
			t.Errorf("held %d, %d and %d, want one of each", n.Held("a", "b"), n.Held("b", "a"), n.Held("c", "b"))
		}
		n.Unchoke("b:1")
		if got, _, err := read(t, b, time.Second); got != "there" || err != nil {
			t.Errorf("read %q, %v; want what was held", got, err)
		}
		if got, _, err := read(t, a, time.Second); got != "back" || err != nil {
			t.Errorf("read %q, %v; want what was held", got, err)
		}
	})
}

func TestAStuckHostReadsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.Stick("b")
		write(t, a, "waits")
		if got, _, err := read(t, b, time.Second); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %q, %v; want nothing", got, err)
		}
		if err := a.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if sent, err := a.Write(make([]byte, 4*stuckWindow)); sent > stuckWindow ||
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d bytes, %v; want at most %d until the deadline", sent, err, stuckWindow)
		}
		if err := a.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		write(t, b, "out")
		if got, _, err := read(t, a, time.Second); got != "out" || err != nil {
			t.Errorf("read %q, %v; want what the stuck host sends", got, err)
		}
		n.Unstick("b")
		if got, after, err := read(t, b, time.Second); got != "waits" || after != 0 || err != nil {
			t.Errorf("read %q after %v, %v; want what waited, at once", got, after, err)
		}
	})
}

// TestRefuse: dials of one direction are refused; the other direction and open connections continue.
func TestRefuse(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.Refuse("a", "b")
		write(t, a, "open")
		if got, _, err := read(t, b, time.Second); got != "open" || err != nil {
			t.Errorf("an open connection: %q, %v", got, err)
		}
		host := n.lives["a"]
		if _, err := host.Dial(t.Context(), "b:1"); !errors.Is(err, errRefused) || n.Held("a", "b") != 1 {
			t.Errorf("a refused dial: %v, held %d", err, n.Held("a", "b"))
		}
		n.Admit("a", "b")
		if c, err := host.Dial(t.Context(), "b:1"); err != nil {
			t.Errorf("after Admit: %v", err)
		} else {
			_ = c.Close()
		}
	})
}
