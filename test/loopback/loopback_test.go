//go:build linux

package loopback_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"holdfast/test/loopback"
)

// listens has a test listen at an address, take a connection and stop, as often as nodes restart.
func listens(t *testing.T, address string) {
	t.Helper()
	for range 3 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		far, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		near, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = near.Close(), far.Close(), l.Close() // the near end first: it keeps the port for a while
		if _, err = net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("nobody listens at %s: dialled with %v", address, err)
		}
	}
}

// A port that one test has is given to no other, also while nobody listens there. Its own test listens again and again.
func TestAPortHasOneTest(t *testing.T) {
	const count = 200
	mine := loopback.Free(t, count)
	for _, address := range mine[:3] {
		listens(t, address)
	}
	own, err := loopback.Own(count)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(mine, own, loopback.Free(t, count))
	slices.Sort(all)
	if some := len(slices.Compact(all)); some != 3*count {
		t.Errorf("%d ports were given twice", 3*count-some)
	}
}

// Other tests look for ports all the time, and get none that is held.
func TestAHeldPortIsRefused(t *testing.T) {
	address := loopback.Free(t, 1)[0]
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = loopback.HoldPort(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a held port is taken again: %v", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = loopback.HoldPort(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port at which its test listens is taken again: %v", err)
	}
	_ = l.Close()
	if _, err = loopback.HoldPort(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port at which its test has listened is taken again: %v", err)
	}
}

// A test that has ended holds no port.
func TestPortsAreGivenBack(t *testing.T) {
	files := func() int {
		t.Helper()
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := files()
	t.Run("holds", func(t *testing.T) {
		loopback.Base(t, 0, 1, 10)
		loopback.Free(t, 7)
		if got := files(); got != before+10 {
			t.Errorf("10 ports are held by %d files", got-before)
		}
	})
	if got := files(); got != before {
		t.Errorf("%d files are open after the test, and %d before it", got, before)
	}
}
