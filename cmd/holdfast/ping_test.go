package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPingMeasuresEveryEndpoint(t *testing.T) {
	n := startNode(t)
	closed := closedPort(t)
	code, stdout, stderr := execute(t, "", "ping", "--count", "5", "--interval", "1ms", "-o", "json", "--call-timeout",
		"30s", "--endpoints", n.address+","+closed)
	var views []pingView
	if err := json.Unmarshal([]byte(stdout), &views); err != nil || code != exitFailed || len(views) != 2 {
		t.Fatalf("exit code %d, %s, %v in %s", code, stderr, err, stdout)
	}
	v := views[0]
	if v.Endpoint != n.address || v.Node != 1 || v.Touches != 5 || v.Lost != 0 || v.Error != "" || v.MinUS == nil ||
		*v.MinUS <= 0 || *v.MinUS > *v.MedianUS || *v.MedianUS > *v.P99US || *v.P99US > *v.MaxUS {
		t.Errorf("measured %s", stdout)
	}
	if v = views[1]; v.Endpoint != closed || v.Touches != 0 || v.MinUS != nil || v.Error == "" {
		t.Errorf("a node that is down: %+v", v)
	}
	// the first touch makes the connection, and is not counted
	want := []string{"status", "open 10s ", "touch", "touch", "touch", "touch", "touch", "touch", "close"}
	if got := n.calls(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPingOfANodeThatDoesNotServe: the client opens the session at another node. The round trips of that node do not
// count for the measured node.
func TestPingOfANodeThatDoesNotServe(t *testing.T) {
	n := startNode(t)
	n.number = 2 // and the session it opens is at node 1
	code, stdout, stderr := execute(t, "", "ping", "--count", "3", "--interval", "0s", "-o", "json")
	var views []pingView
	if err := json.Unmarshal([]byte(stdout), &views); err != nil || code != exitFailed || len(views) != 1 {
		t.Fatalf("exit code %d, %s, %v in %s", code, stderr, err, stdout)
	}
	if v := views[0]; v.Node != 2 || v.Touches != 0 || v.MinUS != nil ||
		!strings.Contains(v.Error, "the session is at node 1") {
		t.Errorf("measured %s", stdout)
	}
}

func TestPingTable(t *testing.T) {
	startNode(t)
	code, stdout, stderr := execute(t, "", "ping", "--count", "2", "--interval", "0s")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	line := regexp.MustCompile(`(?m)^127\.0\.0\.1:\d+ +1 +2 +0( +[0-9.]+(µs|ms|s)){4} +-$`)
	if !line.MatchString(stdout) {
		t.Errorf("table:\n%s", stdout)
	}
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
	v.take([]time.Duration{3000, 1000, 2500}, 2)
	if *v.MinUS != 1 || *v.MedianUS != 2.5 || *v.P99US != 3 || *v.MaxUS != 3 || v.Lost != 2 {
		t.Errorf("got %+v", v)
	}
}
