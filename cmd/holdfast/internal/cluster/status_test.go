package cluster

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
)

// The row of a node that does not answer says why in few words.
func TestStatusSaysWhyANodeDoesNotAnswer(t *testing.T) {
	n, closed := fakenode.Start(t), fakenode.ClosedPort(t)
	code, stdout, _ := clitest.Execute(t, "", "cluster", "status", "--endpoints", n.Address+","+closed)
	row := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(closed) + `( +-){5} +no$`)
	if code != cli.ExitFailed || !row.MatchString(stdout) ||
		!strings.HasSuffix(stdout, "\n"+closed+" does not answer: connection refused\n") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
}

func TestClusterStatus(t *testing.T) {
	n := fakenode.Start(t)
	code, stdout, _ := clitest.Execute(t, "", "cluster", "status")
	if code != cli.ExitDone {
		t.Errorf("exit code %d, want %d", code, cli.ExitDone)
	}
	wide := len(n.Address)
	clitest.WantOutput(t, strings.Replace(stdout, n.Address, strings.Repeat("x", wide), 1),
		"ENDPOINT"+strings.Repeat(" ", wide-8)+"  NODE  ROLE      MODE       LEADER  APPLIED  READY\n"+
			strings.Repeat("x", wide)+"  1     follower  read-only  2       98       no\n\n"+
			"NODE  TERM  COMMIT  SESSIONS  ATTACHED  STATE    TREE      WATCHES\n"+
			"1     3     99      5/100     2         1.5K/2G  12000/3M  41\n\n"+
			"version v1, feature level 1\nnode 1 is not ready: no good round")
	closed := fakenode.ClosedPort(t)
	code, stdout, _ = clitest.Execute(t, "", "cluster", "status", "--endpoints", n.Address+","+closed, "-o", "json")
	var views []statusView
	if err := json.Unmarshal([]byte(stdout), &views); err != nil || len(views) != 2 {
		t.Fatalf("%v in %s", err, stdout)
	}
	if code != cli.ExitFailed || views[0].Node != 1 || views[0].ClusterID != "holdfast" || views[0].FeatureLevel != 1 ||
		views[0].TreeEntries != 12_000 || views[0].TreeEphemerals != 7 || views[0].TreeBytes != 3<<20 ||
		views[0].Watches != 41 || views[1].Endpoint != closed ||
		views[1].Error == "" {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

// A cluster that is large, and of which each node has something to say, fits a terminal of 80 columns.
func TestStatusFitsATerminal(t *testing.T) {
	views := []statusView{
		{
			Endpoint: "n1.example.com:7400", Node: 1, Role: "leader", Mode: "read-write", Term: 1234, Leader: 1,
			CommitIndex: 123_456_789, AppliedIndex: 123_456_789, SessionsGlobal: 120_000, MaxSessions: 1_000_000,
			SessionsAttached: 40_000, StateBytes: 900 << 20, MaxStateBytes: 2 << 30, TreeEntries: 1_200_000,
			TreeBytes: 300 << 20, Watches: 400_000, Ready: true, Version: "v1.10.3-12-g0123456789ab-dirty", FeatureLevel: 1,
			Warning: "the disk of the data directory is 86 % full: from 90 % on this node refuses opens and writes, and the " +
				"leader hands over: free space, or give it a larger disk",
		},
		{
			Endpoint: "n2.example.com:7400", Node: 2, Role: "candidate", Mode: "no leader", Term: 1234,
			CommitIndex: 123_456_789, AppliedIndex: 123_456_000, NotReadyBecause: strings.Repeat("no leader is known, ", 10),
			Version: "v1.11.0", FeatureLevel: 1,
			Freezing: &freezingView{LeftMS: time.Hour.Milliseconds(), By: "ops", Why: "work"},
		},
		{
			Endpoint: "n3.example.com:7400", Node: 3, Role: "follower", Mode: "read-write", Version: "v1.11.0", FeatureLevel: 1,
			Drain: &drainView{Sessions: 5, Connections: 2, Leads: true},
		},
		{Endpoint: "n4.example.com:7400", Error: strings.Repeat("it does not answer, ", 20)},
	}
	styles := regexp.MustCompile("\x1b\\[[0-9;]*m")
	silent := []string{"", "", "", "no route to host"}
	text := styles.ReplaceAllString(statusText(views, silent, 80), "")
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	clitest.Contains(t, text, "n1.example.com:7400  1     leader     read-write  1       123456789  yes\n",
		"n3.example.com:7400  3     follower   read-write  -       0          DRAINING\n",
		"n4.example.com:7400  -     -          -           -       -          no\n",
		"\n1     1234  123456789  120000/1000000  40000     900M/2G  1200000/300M  400000\n",
		"version v1.10.3-12-g0123456789ab-dirty, feature level 1: node 1\n",
		"version v1.11.0, feature level 1: node 2, 3\n", "\nnode 1 warns: the disk", "on this\n  node refuses opens",
		"\nnode 3 is being drained: still the leader, 5 sessions on 2 connections\n",
		"\nn4.example.com:7400 does not answer: no route to host\n", "\nfrozen for 1h",
		"\nnode 2 is not ready: no leader is known")
	if plain := statusText(views, silent, 0); !strings.Contains(plain, "free space, or give it a larger disk\n") {
		t.Errorf("a pipe gets wrapped text:\n%s", plain)
	}
	if none := statusText(views[3:], silent[3:], 80); strings.Contains(none, "COMMIT") ||
		strings.Contains(none, "version") {
		t.Errorf("nobody answers:\n%s", none)
	}
}
