package session

import (
	"testing"
	"time"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/test/whole"
)

// A watch of sessions with one endpoint continues at another member when that node is lost, and misses nothing.
func TestSessionWatchGoesOnAtAnotherNode(t *testing.T) {
	nodes := clitest.StartNodes(t, 3, clitest.Defaults)
	lost := clitest.Follower(t, nodes)
	told, stop := clitest.Follow(t, "session", "watch", "--endpoints", nodes[lost].Address, "--call-timeout", "1m")
	var e eventView
	if told(&e); e.Event != "watching" {
		t.Fatalf("got %+v", e)
	}
	whole.StopAll(t, nodes[lost].Life)
	s, err := clitest.ClientOf(t, nodes[0]).Open(t.Context(), client.SessionOptions{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if told(&e); e.Event != "opened" || e.Session == nil || e.Session.ID != view.ID(s.ID()) {
		t.Errorf("got %+v, want session %v opened", e, s.ID())
	}
	if code := stop(); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
}
