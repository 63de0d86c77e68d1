package cluster

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

// withDead is a node whose cluster has another member, where no process listens.
type withDead struct {
	*fakenode.Node
	dead string
}

func (n withDead) ListMembers(context.Context,
	*holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	return &holdfastv1.ListMembersResponse{Members: []*holdfastv1.Member{{Id: 2, ClientAddress: n.dead}}}, nil
}

// A member that is dead is no cluster that is out of reach.
func TestDrainOfADeadMember(t *testing.T) {
	n := withDead{&fakenode.Node{Number: 1}, fakenode.ClosedPort(t)}
	t.Setenv(cli.EndpointsVariable,
		fakenode.Serve(t, func(s *grpc.Server) { holdfastv1.RegisterClusterServiceServer(s, n) }))
	for _, command := range []string{"drain", "undrain"} {
		code, stdout, stderr := clitest.Execute(t, "", "cluster", command, "2")
		if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, "node 2 does not answer at "+n.dead) ||
			strings.Contains(stderr, "Is the cluster running") {
			t.Errorf("%s: exit code %d: %s%s", command, code, stdout, stderr)
		}
		code, _, stderr = clitest.Execute(t, "", "cluster", command, "2", "--endpoints", n.dead, "--call-timeout", "300ms")
		if code != cli.ExitUnreachable {
			t.Errorf("%s at a dead endpoint alone: exit code %d: %s", command, code, stderr)
		}
	}
}
