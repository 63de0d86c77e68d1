package node

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/test/bubble"
)

// A node that is away costs a line each ten minutes, whatever Raft tries, and no line is an error: this node is well.
// What is this node's own fault remains an error.
func TestALinkThatFailsFillsNoLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := newRaftLogger(hclog.New(&hclog.LoggerOptions{Output: &out}), newFailure(hclog.NewNullLogger()), new(atomic.Bool))
		away := raft.Server{ID: "3", Address: "n3:7401"}
		for range 3600 {
			l.Error("failed to heartbeat to", "peer", away.Address, "error", "connection refused")
			l.Error("failed to appendEntries to", "peer", away, "error", "connection refused")
			l.Error("failed to make requestVote RPC", "target", away, "error", "connection refused")
			l.Warn("failed to contact", "server-id", away.ID)
			l.Error("failed to decode incoming command", "error", "connection reset by peer")
			time.Sleep(time.Second)
		}
		if got := out.String(); strings.Count(got, "\n") != 6 || strings.Contains(got, "[ERROR]") ||
			!strings.Contains(got, "[WARN]  another node is not reached: failed to heartbeat to: peer=n3:7401") {
			t.Errorf("an hour of a node that is away:\n%s", got)
		}
		out.Reset()
		l.Error("failed to appendEntries to", "peer", raft.Server{ID: "2", Address: "n2:7401"}, "error", "EOF")
		l.Error("failed to take snapshot", "error", "disk full")
		if got := out.String(); strings.Count(got, "[WARN]") != 1 || strings.Count(got, "[ERROR]") != 1 {
			t.Errorf("another node, and this node's own disk:\n%s", got)
		}
	})
}

// A node that is stopped in order logs no error, and neither do the nodes that stay, whether it leads or follows. A
// node that stays says once that it does not reach the other.
func TestACleanStopLogsNoError(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		leads := c.leader(within)
		c.mustOpen(leads, 5*time.Second)
		if err := c.end(leads); err != nil {
			t.Error(err)
		}
		next := c.leader(within, leads)
		time.Sleep(5 * time.Minute)
		c.mustOpen(next, 5*time.Second)
		c.start(leads)
		time.Sleep(time.Minute)
		c.stop()
		for _, n := range c.nodes {
			if text := n.log.String(); strings.Contains(text, "[ERROR]") ||
				strings.Count(text, "another node is not reached") > 2 {
				t.Errorf("%s:\n%s", n.name, text)
			}
		}
		if text := next.log.String(); !strings.Contains(text, "another node is not reached") {
			t.Errorf("nobody has missed the node that was stopped:\n%s", text)
		}
	})
}

// Raft's word about a server that waits for its admission is left out, and nothing else that it warns of.
func TestRaftLoggerLeavesOutTheMissingPeers(t *testing.T) {
	var out strings.Builder
	over := false
	l := raftLogger{hclog.New(&hclog.LoggerOptions{Output: &out}), func() bool { return over }, nil}
	l.Warn("no known peers, aborting election")
	l.Warn("not part of stable configuration, aborting election", "why", "test")
	if got := out.String(); strings.Contains(got, "no known peers") ||
		!strings.Contains(got, "not part of stable configuration, aborting election: why=test") {
		t.Errorf("got %q", got)
	}
	over = true
	before := out.Len()
	l.Info("once the disk has failed")
	l.Warn("nothing")
	l.Error("more is said")
	if out.Len() != before {
		t.Errorf("after the node's end was decided: %q", out.String()[before:])
	}
}
