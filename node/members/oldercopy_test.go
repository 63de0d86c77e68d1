package members

import (
	"errors"
	"slices"
	"testing"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// A node that starts waits for the report of each other node. It takes no report from a node that dials and is no
// member on its directory, and none that it cannot compare yet (J6 rolled-back directories).
func TestJ6ReportsThatAreMissing(t *testing.T) {
	c := NewOlderCopyCheck(NewMembership(1, 11, threePeers()), nil, "", func(err error) { t.Error(err) })
	missing := func(after string, want ...session.Node) {
		t.Helper()
		if got := c.missing(); !slices.Equal(got, want) {
			t.Errorf("after %s the reports of %v are missing, want %v", after, got, want)
		}
	}
	missing("the start", 2, 3)
	if err := c.CheckPosition(2, 22, false, raftnet.Position{}); err != nil {
		t.Error(err)
	}
	missing("a report of a node that dials and is no member", 2, 3)
	if err := c.CheckPosition(2, 22, true, raftnet.Position{}); err != nil {
		t.Error(err)
	}
	missing("a report of a node that was dialled", 3)
	if err := c.CheckPosition(3, 33, true, raftnet.Position{Term: 1, Index: 1}); !errors.Is(err, errStarting) {
		t.Errorf("a report before Raft runs: %v, want %v", err, errStarting)
	}
	missing("a report before Raft runs", 3)
}
