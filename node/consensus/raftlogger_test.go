package consensus

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/node/storage"
	"holdfast/test/bubble"
)

// A node that is away costs a line each ten minutes, whatever Raft tries, and no line is an error: this node is well.
// What is this node's own fault remains an error.
func TestALinkThatFailsFillsNoLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := newRaftLogger(hclog.New(&hclog.LoggerOptions{Output: &out}), func() bool { return false })
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
		l.Error("failed to take snapshot", "error", "the snapshot up to entry 3 is "+storage.Superseded+" up to entry 5")
		if got := out.String(); strings.Count(got, "[WARN]") != 1 || strings.Count(got, "[ERROR]") != 1 {
			t.Errorf("another node, and this node's own disk:\n%s", got)
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
