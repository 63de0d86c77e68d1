package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"holdfast/client"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/whole"
)

// The exit code says that no node answered only if none did.
func TestSnapshotThatOneNodeRefuses(t *testing.T) {
	n := &brokenNode{refusals: &session.LimitError{Name: "max_snapshots", Limit: "2 backups of a node at a time"}}
	lives := startNodeWith(t, func(s *grpc.Server) { holdfastv1.RegisterClusterServiceServer(s, n) })
	dead := closedPort(t)
	for endpoints, want := range map[string]int{
		dead + "," + lives: exitFailed, lives + "," + dead: exitFailed, dead: exitUnreachable,
	} {
		code, _, stderr := execute(t, "", "snapshot", "save", filepath.Join(t.TempDir(), "none"), "--endpoints", endpoints)
		if code != want || strings.Contains(stderr, "max_snapshots") != (want == exitFailed) ||
			strings.Contains(stderr, "Is the cluster running") != (want == exitUnreachable) {
			t.Errorf("%s: exit code %d, want %d: %s", endpoints, code, want, stderr)
		}
	}
}

// withDead is a node whose cluster has another member, where nobody listens.
type withDead struct {
	*fakeNode
	dead string
}

func (n withDead) ListMembers(context.Context,
	*holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	return &holdfastv1.ListMembersResponse{Members: []*holdfastv1.Member{{Id: 2, ClientAddress: n.dead}}}, nil
}

// A member that is dead is no cluster that is out of reach.
func TestDrainOfADeadMember(t *testing.T) {
	n := withDead{&fakeNode{number: 1}, closedPort(t)}
	t.Setenv(endpointsVariable, startNodeWith(t, func(s *grpc.Server) { holdfastv1.RegisterClusterServiceServer(s, n) }))
	for _, command := range []string{"drain", "undrain"} {
		code, stdout, stderr := execute(t, "", "cluster", command, "2")
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, "node 2 does not answer at "+n.dead) ||
			strings.Contains(stderr, "Is the cluster running") {
			t.Errorf("%s: exit code %d: %s%s", command, code, stdout, stderr)
		}
		code, _, stderr = execute(t, "", "cluster", command, "2", "--endpoints", n.dead, "--call-timeout", "300ms")
		if code != exitUnreachable {
			t.Errorf("%s at a dead endpoint alone: exit code %d: %s", command, code, stderr)
		}
	}
}

// A watch of sessions that knows one endpoint goes on at another member when that node is lost, and misses nothing.
func TestSessionWatchGoesOnAtAnotherNode(t *testing.T) {
	nodes := startNodes(t, 3, asIs)
	lost := follower(t, nodes)
	told, stop := lines(t, "session", "watch", "--endpoints", nodes[lost].address, "--call-timeout", "1m")
	var e toldView
	if told(&e); e.Event != "watching" {
		t.Fatalf("got %+v", e)
	}
	whole.StopAll(t, nodes[lost].Life)
	s, err := clientOf(t, nodes[0]).Open(t.Context(), client.SessionOptions{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if told(&e); e.Event != "opened" || e.Session == nil || e.Session.ID != idText(s.ID()) {
		t.Errorf("got %+v, want session %v opened", e, s.ID())
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}
