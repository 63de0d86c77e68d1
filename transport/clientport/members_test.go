package clientport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// fakeMemberships notes what it is asked for, and answers with err.
type fakeMemberships struct {
	asked []string
	err   error
}

func (f *fakeMemberships) note(format string, args ...any) error {
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fakeMemberships) Add(_ context.Context, at session.MemberPlace) error {
	return f.note("add %+v", at)
}

func (f *fakeMemberships) Promote(_ context.Context, n session.Node) error {
	return f.note("promote %d", n)
}

func (f *fakeMemberships) Demote(_ context.Context, n session.Node) error {
	return f.note("demote %d", n)
}

func (f *fakeMemberships) Remove(_ context.Context, n session.Node) error {
	return f.note("remove %d", n)
}

func (f *fakeMemberships) Transfer(_ context.Context, n session.Node) error {
	return f.note("transfer %d", n)
}
func (f *fakeMemberships) Confirm(context.Context) error { return f.note("confirm") }

// memberCalls are the calls about members for one node number, in the order of the service.
func memberCalls(ctx context.Context, cl holdfastv1.ClusterServiceClient, node uint32) []func() error {
	return []func() error{
		func() error {
			_, err := cl.AddMember(ctx, &holdfastv1.AddMemberRequest{Member: &holdfastv1.MemberPlace{
				Node: node, RaftAddress: "r:1", PeerAddress: "p:1", ClientAddress: "c:1",
			}})
			return err
		},
		func() error {
			_, err := cl.PromoteMember(ctx, &holdfastv1.PromoteMemberRequest{Node: node})
			return err
		},
		func() error {
			_, err := cl.DemoteMember(ctx, &holdfastv1.DemoteMemberRequest{Node: node})
			return err
		},
		func() error {
			_, err := cl.RemoveMember(ctx, &holdfastv1.RemoveMemberRequest{Node: node})
			return err
		},
		func() error {
			_, err := cl.TransferLeadership(ctx, &holdfastv1.TransferLeadershipRequest{Node: node})
			return err
		},
	}
}

// Each call reaches the node as it was asked for, and a refusal comes back with its node, cause and reason.
func TestCallsAboutMembers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fake := &fakeMemberships{}
		_, network, stop := clientPort(t, Config{Operators: Operators{Members: fake}}, &fakeService{})
		defer stop()
		cl := holdfastv1.NewClusterServiceClient(dialPipes(t, network))
		for _, call := range memberCalls(t.Context(), cl, 4) {
			if err := call(); err != nil {
				t.Error(err)
			}
		}
		if _, err := cl.TransferLeadership(t.Context(), &holdfastv1.TransferLeadershipRequest{}); err != nil {
			t.Error(err)
		}
		want := []string{
			"add {Node:4 Raft:r:1 Peer:p:1 Client:c:1}", "promote 4", "demote 4", "remove 4", "transfer 4", "transfer 0",
		}
		if !slices.Equal(fake.asked, want) {
			t.Errorf("asked for %q, want %q", fake.asked, want)
		}
		refused := &session.MemberRefusedError{Node: 4, Cause: session.MemberUsedUp, Why: "it was removed"}
		fake.err = refused
		for i, call := range memberCalls(t.Context(), cl, 4) {
			err := call()
			got, ok := errors.AsType[*session.MemberRefusedError](wire.Domain(err))
			if !ok || *got != *refused || status.Code(err) != codes.FailedPrecondition {
				t.Errorf("call %d: got %v, want %v", i, err, refused)
			}
		}
	})
}

// Numbers that no node can have are refused before anybody is asked. Leadership may go to 0: any node.
func TestMembersHaveNumbers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fake := &fakeMemberships{}
		_, network, stop := clientPort(t, Config{Operators: Operators{Members: fake}}, &fakeService{})
		defer stop()
		cl := holdfastv1.NewClusterServiceClient(dialPipes(t, network))
		for _, node := range []uint32{0, uint32(session.MaxNode) + 1, 1 << 31} {
			calls := memberCalls(t.Context(), cl, node)
			if node == 0 {
				calls = calls[:4]
			}
			for i, call := range calls {
				err := wire.Domain(call())
				if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Limit != "1 to 254" {
					t.Errorf("call %d for node %d: %v", i, node, err)
				}
			}
		}
		if len(fake.asked) > 0 {
			t.Errorf("asked for %q", fake.asked)
		}
	})
}

// The leader's list is refused where the leader cannot confirm it, and names the leader (J5 the leader's list). Any
// node's own list is not confirmed.
func TestJ5TheListOfTheLeaderIsConfirmed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fake := &fakeMemberships{}
		_, network, stop := clientPort(t, Config{Operators: Operators{Members: fake}}, &fakeService{})
		defer stop()
		cl := holdfastv1.NewClusterServiceClient(dialPipes(t, network))
		list := func(fromLeader bool) (int, error) {
			m, err := cl.ListMembers(t.Context(), &holdfastv1.ListMembersRequest{FromLeader: fromLeader})
			return len(m.GetMembers()), err
		}
		if n, err := list(false); n != 1 || err != nil || len(fake.asked) > 0 {
			t.Errorf("any node's list: %d members, %v, asked for %q", n, err, fake.asked)
		}
		if n, err := list(true); n != 1 || err != nil || !slices.Equal(fake.asked, []string{"confirm"}) {
			t.Errorf("the leader's list: %d members, %v, asked for %q", n, err, fake.asked)
		}
		fake.err = &session.NotLeaderError{Leader: 3, Address: "n3:7400"}
		n, err := list(true)
		follows, ok := errors.AsType[*session.NotLeaderError](wire.Domain(err))
		if n != 0 || !ok || follows.Leader != 3 || follows.Address != "n3:7400" {
			t.Errorf("a follower's list: %d members, %v", n, err)
		}
	})
}

// A port without changes of members says so.
func TestMembersThatCannotBeChanged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		cl := holdfastv1.NewClusterServiceClient(dialPipes(t, network))
		for i, call := range memberCalls(t.Context(), cl, 4) {
			if err := call(); status.Code(err) != codes.Unimplemented {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if _, err := cl.ListMembers(t.Context(), &holdfastv1.ListMembersRequest{FromLeader: true}); status.Code(err) !=
			codes.Unimplemented {
			t.Error(err)
		}
	})
}
