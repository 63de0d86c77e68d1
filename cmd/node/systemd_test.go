package main

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// systemd acts as systemd: it returns the process's notifications.
func systemd(t *testing.T, watchdog time.Duration) (next func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	t.Setenv("WATCHDOG_PID", "")
	return func() string {
		b := make([]byte, 1024)
		n, err := socket.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

// systemd learns that the node is ready, then that it is alive as long as it has not stalled, then that it stops.
func TestSystemdNotifications(t *testing.T) {
	next := systemd(t, 20*time.Millisecond)
	stopping, stop := context.WithCancel(t.Context())
	ended, end := context.WithCancel(t.Context())
	var stalled atomic.Bool
	var asked atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		notifySystemd(stopping, ended, func() bool { asked.Add(1); return stalled.Load() }, hclog.NewNullLogger())
	}()
	if got := next(); got != "READY=1" {
		t.Errorf("first it heard %q", got)
	}
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("then it heard %q", got)
	}
	stalled.Store(true)
	for from := asked.Load(); asked.Load() < from+5; { // five feeds have come due, and were left out but perhaps the first
		time.Sleep(time.Millisecond)
	}
	stop()
	fed := 0
	for got := next(); got != "STOPPING=1"; got = next() {
		if got != "WATCHDOG=1" {
			t.Errorf("it heard %q", got)
		}
		fed++
	}
	if at := int(asked.Load()); fed > at-5 {
		t.Errorf("the watchdog was fed %d times of %d, though the node has stalled", fed, at)
	}
	end()
	<-done
}

// Without systemd nothing is sent, and nothing waits.
func TestWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	notifySystemd(t.Context(), t.Context(), func() bool { t.Error("asked"); return true }, hclog.NewNullLogger())
}
