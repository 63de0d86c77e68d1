package unary

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// A call for the leader goes to the node that a follower names, which need not be a server.
func TestACallForTheLeaderGoesWhereAFollowerSays(t *testing.T) {
	n := newNodes(t)
	call, targets := visits(func(target string) error {
		if target == "passthrough:///new:1" {
			return nil
		}
		return wire.Status(&session.NotLeaderError{Leader: 4, Address: "new:1"})
	})
	if err := n.Leader(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if want := []string{"passthrough:///a:1", "passthrough:///new:1"}; !slices.Equal(*targets, want) {
		t.Errorf("asked %q, want %q", *targets, want)
	}
}

// A follower may name a leader that is dead, or none. The call then goes on with the other servers, in rounds, until
// one of them leads.
func TestACallForTheLeaderContinuesWithoutLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNodes(t)
		defer n.Close()
		asked := 0
		call, targets := visits(func(target string) error {
			asked++
			switch {
			case target == "passthrough:///dead:1":
				return status.Error(codes.Unavailable, "down")
			case target == "passthrough:///a:1":
				return wire.Status(&session.NotLeaderError{Leader: 4, Address: "dead:1"})
			case asked > 4 && target == "passthrough:///c:1":
				return nil
			}
			return wire.Status(&session.NotLeaderError{})
		})
		if err := n.Leader(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		round := []string{"passthrough:///a:1", "passthrough:///dead:1", "passthrough:///b:1", "passthrough:///c:1"}
		if want := append(slices.Clone(round), round...); !slices.Equal(*targets, want) {
			t.Errorf("asked %q, want %q", *targets, want)
		}
	})
}

// The leader's decision is final: no other node is asked.
func TestTheLeadersAnswerIsFinal(t *testing.T) {
	n := newNodes(t)
	refused := &session.MemberRefusedError{Node: 4, Cause: session.MemberQuorum, Why: "because"}
	call, targets := visits(func(string) error { return wire.Status(refused) })
	err := n.Leader(t.Context(), call)
	if got, ok := errors.AsType[*session.MemberRefusedError](err); !ok || *got != *refused || len(*targets) != 1 {
		t.Errorf("got %v from %q, want %v from one", err, *targets, refused)
	}
}
