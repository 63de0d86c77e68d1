package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// changedNode is a leader on loopback whose member 4 goes through some states, one for each read of the members.
type changedNode struct {
	holdfastv1.UnimplementedClusterServiceServer

	mu    sync.Mutex
	asked proto.Message // guarded by mu; the newest change
	looks int           // guarded by mu
	// states are those of member 4, nil for none; the last one stays. guarded by mu
	states []*holdfastv1.Member
	refuse error // guarded by mu
}

// change notes a change, and has the member go through some states from now on.
func (n *changedNode) change(r proto.Message) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked, n.looks = r, 0
	if n.refuse != nil {
		return wire.Status(n.refuse)
	}
	return nil
}

func (n *changedNode) AddMember(_ context.Context,
	r *holdfastv1.AddMemberRequest,
) (*holdfastv1.AddMemberResponse, error) {
	return &holdfastv1.AddMemberResponse{}, n.change(r)
}

func (n *changedNode) PromoteMember(_ context.Context,
	r *holdfastv1.PromoteMemberRequest,
) (*holdfastv1.PromoteMemberResponse, error) {
	return &holdfastv1.PromoteMemberResponse{}, n.change(r)
}

func (n *changedNode) DemoteMember(_ context.Context,
	r *holdfastv1.DemoteMemberRequest,
) (*holdfastv1.DemoteMemberResponse, error) {
	return &holdfastv1.DemoteMemberResponse{}, n.change(r)
}

func (n *changedNode) RemoveMember(_ context.Context,
	r *holdfastv1.RemoveMemberRequest,
) (*holdfastv1.RemoveMemberResponse, error) {
	return &holdfastv1.RemoveMemberResponse{}, n.change(r)
}

func (n *changedNode) TransferLeadership(_ context.Context,
	r *holdfastv1.TransferLeadershipRequest,
) (*holdfastv1.TransferLeadershipResponse, error) {
	return &holdfastv1.TransferLeadershipResponse{}, n.change(r)
}

func (n *changedNode) ListMembers(_ context.Context,
	r *holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !r.GetFromLeader() {
		return nil, wire.Status(session.ErrNoLeader)
	}
	answer := &holdfastv1.ListMembersResponse{Members: []*holdfastv1.Member{{Id: 1, Voter: true, Leader: true}}}
	if m := n.states[min(n.looks, len(n.states)-1)]; m != nil {
		answer.Members = append(answer.Members, m)
	}
	n.looks++
	return answer, nil
}

func startChanged(t *testing.T) *changedNode {
	t.Helper()
	n := &changedNode{}
	address := fakenode.Serve(t, func(s *grpc.Server) { holdfastv1.RegisterClusterServiceServer(s, n) })
	t.Setenv(cli.EndpointsVariable, address)
	return n
}

// passes has member 4 go through some states.
func (n *changedNode) passes(states ...*holdfastv1.Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.states = states
}

func state(voter, observer, leaving bool) *holdfastv1.Member {
	return &holdfastv1.Member{Id: 4, Voter: voter, Observer: observer, Leaving: leaving}
}

// A command requests its change, waits until the leader shows the change, and prints the member's new state.
func TestChangesOfMembersAreAwaited(t *testing.T) {
	n := startChanged(t)
	place := &holdfastv1.MemberPlace{
		Node: 4, RaftAddress: "h:7401", PeerAddress: "h:7402", ClientAddress: "h:7400",
	}
	other := &holdfastv1.MemberPlace{Node: 4, RaftAddress: "a:1", PeerAddress: "b:2", ClientAddress: "c:3"}
	observer, waits, voter := state(false, true, false), state(false, false, false), state(true, false, false)
	for _, tt := range []struct {
		command string
		passes  []*holdfastv1.Member
		asks    proto.Message
		looks   int
		says    string
	}{
		{"add 4 h", []*holdfastv1.Member{observer}, &holdfastv1.AddMemberRequest{Member: place}, 1, "node 4 is an observer"},
		{"add 4 h", []*holdfastv1.Member{voter}, &holdfastv1.AddMemberRequest{Member: place}, 1, "node 4 is a voter"},
		{
			"add 4 h --raft-address a:1 --peer-address b:2 --client-address c:3",
			[]*holdfastv1.Member{observer},
			&holdfastv1.AddMemberRequest{Member: other}, 1, "node 4 is an observer",
		},
		{
			"promote 4",
			[]*holdfastv1.Member{waits, waits, voter},
			&holdfastv1.PromoteMemberRequest{Node: 4}, 3,
			"node 4 is a voter",
		},
		{
			"promote 4 --no-wait",
			[]*holdfastv1.Member{waits, voter},
			&holdfastv1.PromoteMemberRequest{Node: 4}, 1, "node 4 becomes a voter when it has caught up",
		},
		{
			"demote 4",
			[]*holdfastv1.Member{state(true, true, false), observer},
			&holdfastv1.DemoteMemberRequest{Node: 4}, 2,
			"node 4 is an observer",
		},
		{
			"demote 4 --no-wait",
			[]*holdfastv1.Member{state(true, true, false)},
			&holdfastv1.DemoteMemberRequest{Node: 4}, 1,
			"node 4 is being demoted",
		},
		{
			"remove 4 --yes",
			[]*holdfastv1.Member{state(true, false, true), state(false, false, true), nil},
			&holdfastv1.RemoveMemberRequest{Node: 4}, 3, "node 4 is not a member",
		},
		{
			"remove 4 --yes --no-wait",
			[]*holdfastv1.Member{state(true, false, true)},
			&holdfastv1.RemoveMemberRequest{Node: 4}, 1, "node 4 is being removed",
		},
	} {
		n.passes(tt.passes...)
		code, stdout, stderr := clitest.Execute(t, "", append([]string{"cluster"}, strings.Fields(tt.command)...)...)
		if code != cli.ExitDone || strings.TrimSpace(stdout) != tt.says {
			t.Errorf("%s: exit code %d, %q, %q, want %q", tt.command, code, stdout, stderr, tt.says)
		}
		if n.looks != tt.looks || !proto.Equal(n.asked, tt.asks) {
			t.Errorf("%s: asked for %v, looked %d times, want %v, %d", tt.command, n.asked, n.looks, tt.asks, tt.looks)
		}
	}
}

// Another operator may change the same member. A command that waited for an overridden change would wait for ever.
func TestAnotherChangeOfTheSameMemberEndsTheWait(t *testing.T) {
	n := startChanged(t)
	observer, waits, leaving := state(false, true, false), state(false, false, false), state(true, false, true)
	for command, passes := range map[string][]*holdfastv1.Member{
		"add 4 h":        {leaving},
		"promote 4":      {waits, observer},
		"demote 4":       {nil},
		"remove 4 --yes": {state(true, false, false)},
	} {
		n.passes(passes...)
		code, _, stderr := clitest.Execute(t, "", append([]string{"cluster"}, strings.Fields(command)...)...)
		if code != cli.ExitFailed || !strings.Contains(stderr, "node 4: another change overrode this one: node 4 is ") {
			t.Errorf("%s: exit code %d, %q", command, code, stderr)
		}
	}
}

func TestChangesOfMembersInJSON(t *testing.T) {
	n := startChanged(t)
	n.passes(state(false, true, false))
	_, stdout, _ := clitest.Execute(t, "", "cluster", "add", "4", "h", "-o", "json")
	clitest.Contains(t, stdout, `"node": 4`, `"observer": true`, `"voter": false`)
	n.passes(nil)
	_, stdout, _ = clitest.Execute(t, "", "cluster", "remove", "4", "--yes", "-o", "json")
	if clitest.Contains(t, stdout, `"node": 4`); strings.Contains(stdout, "member") {
		t.Errorf("a member that is none: %s", stdout)
	}
	_, stdout, _ = clitest.Execute(t, "", "cluster", "transfer-leader", "-o", "json")
	clitest.Contains(t, stdout, `"transferred": true`)
}

func TestClusterTransfer(t *testing.T) {
	n := startChanged(t)
	for _, args := range [][]string{nil, {"4"}} {
		code, stdout, stderr := clitest.Execute(t, "", slices.Concat([]string{"cluster", "transfer-leader"}, args)...)
		if code != cli.ExitDone || !strings.Contains(stdout, "leadership was transferred") {
			t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
		}
		want := &holdfastv1.TransferLeadershipRequest{Node: uint32(4 * len(args))}
		if !proto.Equal(n.asked, want) {
			t.Errorf("asked for %v, want %v", n.asked, want)
		}
	}
}

// A refusal is printed with its node and reason. Wrong usage sends no request.
func TestChangesOfMembersThatAreRefused(t *testing.T) {
	n := startChanged(t)
	n.passes(nil)
	n.refuse = &session.MemberRefusedError{Node: 4, Cause: session.MemberQuorum, Why: "of 2 voters then, 1 remains"}
	for _, command := range []string{"add 4 h", "promote 4", "demote 4", "remove 4 --yes", "transfer-leader 4"} {
		code, stdout, stderr := clitest.Execute(t, "", append([]string{"cluster"}, strings.Fields(command)...)...)
		if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, "node 4: of 2 voters then, 1 remains") {
			t.Errorf("%s: exit code %d, %q, %q", command, code, stdout, stderr)
		}
	}
	n.asked = nil
	for _, command := range []string{
		"add 4", "add 0 h", "add x h", "promote", "promote 255", "demote -1", "remove 4", "remove --yes",
		"transfer-leader 4 5", "transfer-leader x",
	} {
		if code, _, stderr := clitest.Execute(t, "", append([]string{"cluster"}, strings.Fields(command)...)...); code !=
			cli.ExitUsage || stderr == "" {
			t.Errorf("%s: exit code %d, %q", command, code, stderr)
		}
	}
	if n.asked != nil {
		t.Errorf("after wrong usage the node was asked for %v", n.asked)
	}
}
