package cluster

import (
	"encoding/json"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
)

func TestPingMeasuresEveryEndpoint(t *testing.T) {
	n := fakenode.Start(t)
	closed := fakenode.ClosedPort(t)
	code, stdout, stderr := clitest.Execute(t, "", "ping", "--count", "5", "--interval", "1ms", "-o", "json",
		"--call-timeout", "30s", "--endpoints", n.Address+","+closed)
	var views []pingView
	if err := json.Unmarshal([]byte(stdout), &views); err != nil || code != cli.ExitFailed || len(views) != 2 {
		t.Fatalf("exit code %d, %s, %v in %s", code, stderr, err, stdout)
	}
	v := views[0]
	if v.Endpoint != n.Address || v.Node != 1 || v.Touches != 5 || v.Lost != 0 || v.Error != "" || v.MinUS == nil ||
		*v.MinUS <= 0 || *v.MinUS > *v.MedianUS || *v.MedianUS > *v.P99US || *v.P99US > *v.MaxUS {
		t.Errorf("measured %s", stdout)
	}
	if v = views[1]; v.Endpoint != closed || v.Touches != 0 || v.MinUS != nil || v.Error == "" {
		t.Errorf("a node that is down: %+v", v)
	}
	// the first touch makes the connection, and is not counted
	want := []string{"status", "open 10s ", "touch", "touch", "touch", "touch", "touch", "touch", "close"}
	if got := n.Calls(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPingOfANodeThatDoesNotServe: the client opens the session at another node. The round trips of that node do not
// count for the measured node.
func TestPingOfANodeThatDoesNotServe(t *testing.T) {
	n := fakenode.Start(t)
	n.Number = 2 // and the session it opens is at node 1
	code, stdout, stderr := clitest.Execute(t, "", "ping", "--count", "3", "--interval", "0s", "-o", "json")
	var views []pingView
	if err := json.Unmarshal([]byte(stdout), &views); err != nil || code != cli.ExitFailed || len(views) != 1 {
		t.Fatalf("exit code %d, %s, %v in %s", code, stderr, err, stdout)
	}
	if v := views[0]; v.Node != 2 || v.Touches != 0 || v.MinUS != nil ||
		!strings.Contains(v.Error, "the session is at node 1") {
		t.Errorf("measured %s", stdout)
	}
}

func TestPingTable(t *testing.T) {
	fakenode.Start(t)
	code, stdout, stderr := clitest.Execute(t, "", "ping", "--count", "2", "--interval", "0s")
	if code != cli.ExitDone || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	line := regexp.MustCompile(`(?m)^127\.0\.0\.1:\d+ +1 +2 +0( +[0-9.]+(µs|ms|s)){4}$`)
	if !line.MatchString(stdout) {
		t.Errorf("table:\n%s", stdout)
	}
}

// Ctrl-C ends a measurement without a failure: as with ping of IP, the table shows the measurements so far.
func TestPingIsInterrupted(t *testing.T) {
	n, other := fakenode.Start(t), fakenode.Start(t)
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		for t.Context().Err() == nil {
			if measured(n) && measured(other) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	code, stdout, stderr := clitest.Interrupt(t, nil, begun, "ping", "--count", "1000000", "--interval", "1ms",
		"--endpoints", n.Address+","+other.Address)
	line := regexp.MustCompile(`(?m)^127\.0\.0\.1:\d+ +1 +[1-9]\d* +0( +[0-9.]+(µs|ms|s)){4}$`)
	if code != cli.ExitDone || stderr != "" || len(line.FindAllString(stdout, -1)) != 2 {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	if !slices.Contains(n.Calls(), "close") {
		t.Error("the session is left open")
	}
}

// Without a measurement the command has failed, and says why once.
func TestPingIsInterruptedBeforeItMeasures(t *testing.T) {
	begun := make(chan struct{})
	var silent []string
	var accepted sync.WaitGroup
	for range 2 { // servers that say nothing
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, listener.Addr().String())
		accepted.Go(func() {
			if conn, err := listener.Accept(); err == nil {
				t.Cleanup(func() { conn.Close() })
			}
		})
		t.Cleanup(func() { listener.Close() })
	}
	go func() {
		accepted.Wait()
		close(begun)
	}()
	code, stdout, stderr := clitest.Interrupt(t, nil, begun, "ping", "--call-timeout", "5m", "--endpoints",
		strings.Join(silent, ","))
	want := "holdfast: no touch was measured: " + clitest.ErrInterrupt.Error() + "\n"
	if code != cli.ExitFailed || stdout != "" || stderr != want {
		t.Errorf("exit code %d, %s%q", code, stdout, stderr)
	}
}

// measured reports whether a node has served the touch that makes the connection, and one that counts.
func measured(n *fakenode.Node) bool {
	touches := 0
	for _, call := range n.Calls() {
		if call == "touch" {
			touches++
		}
	}
	return touches > 2
}

func TestPingQuantiles(t *testing.T) {
	for n, want := range map[int][2]int{
		1: {0, 0}, 2: {0, 1}, 3: {1, 2}, 100: {49, 98}, 101: {50, 99}, 1000: {499, 989},
	} {
		if got := [2]int{rank(n, 50), rank(n, 99)}; got != want {
			t.Errorf("of %d: got %v, want %v", n, got, want)
		}
	}
	var v pingView
	v.setTrips([]time.Duration{3000, 1000, 2500}, 2)
	if *v.MinUS != 1 || *v.MedianUS != 2.5 || *v.P99US != 3 || *v.MaxUS != 3 || v.Lost != 2 {
		t.Errorf("got %+v", v)
	}
}
