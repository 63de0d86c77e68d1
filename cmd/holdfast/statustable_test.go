package main

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

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
			Version: "v1.11.0", FeatureLevel: 1, Freezing: &freezingView{LeftMS: time.Hour.Milliseconds(), By: "ops", Why: "work"},
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
	each(t, text, "n1.example.com:7400  1     leader     read-write  1       123456789  yes\n",
		"n3.example.com:7400  3     follower   read-write  -       0          DRAINING\n",
		"n4.example.com:7400  -     -          -           -       -          no\n",
		"\n1     1234  123456789  120000/1000000  40000     900M/2G  1200000/300M  400000\n",
		"version v1.10.3-12-g0123456789ab-dirty, feature level 1: node 1\n",
		"version v1.11.0, feature level 1: node 2, 3\n", "\nnode 1 warns: the disk", "on this\n  node refuses opens",
		"\nnode 3 is being drained: it leads still, 5 sessions on 2 connections\n",
		"\nn4.example.com:7400 gives no status: no route to host\n", "\nfrozen for 1h", "\nnode 2 is not ready: no leader is known")
	if plain := statusText(views, silent, 0); !strings.Contains(plain, "free space, or give it a larger disk\n") {
		t.Errorf("a pipe gets wrapped text:\n%s", plain)
	}
	if none := statusText(views[3:], silent[3:], 80); strings.Contains(none, "COMMIT") || strings.Contains(none, "version") {
		t.Errorf("nobody answers:\n%s", none)
	}
}
