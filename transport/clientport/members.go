package clientport

import (
	"context"
	"fmt"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/authz"
)

// Memberships changes the members of the cluster (J). Safe for concurrent use. Errors are [session.NotLeaderError] on
// nodes that do not lead, [session.MemberRefusedError], [session.FieldError], and [session.ErrOutcomeUnknown] if a
// change was not committed in time. A method returns once the change is committed; a repeat changes nothing.
type Memberships interface {
	// Add adds a node that runs and waits at an address, as an observer.
	Add(ctx context.Context, at session.MemberPlace) error
	// Promote gives a member its vote once it has caught up.
	Promote(ctx context.Context, node session.Node) error
	// Demote removes a member's vote.
	Demote(ctx context.Context, node session.Node) error
	// Remove removes a member for good.
	Remove(ctx context.Context, node session.Node) error
	// Transfer transfers leadership to a voter; 0 means any. It returns when this node no longer leads.
	Transfer(ctx context.Context, node session.Node) error
	// Confirm returns nil once the membership that this node knew at the call is committed, and this node was the
	// leader at a later moment (J5 the leader's list).
	Confirm(ctx context.Context) error
}

// memberActs serves the calls about members. It belongs to [clusterServer].
type memberActs struct {
	// members is the Config's Members; nil: members cannot be changed.
	members Memberships
	refuse  holdfastv1.UnimplementedClusterServiceServer
}

// AddMember adds a node.
func (a memberActs) AddMember(ctx context.Context,
	req *holdfastv1.AddMemberRequest,
) (*holdfastv1.AddMemberResponse, error) {
	if a.members == nil {
		return a.refuse.AddMember(ctx, req)
	}
	p := req.GetMember()
	node, err := nodeFrom("member.node", p.GetNode())
	if err != nil {
		return nil, err
	}
	err = a.members.Add(ctx, session.MemberPlace{
		Node: node, Raft: p.GetRaftAddress(), Peer: p.GetPeerAddress(), Client: p.GetClientAddress(),
	})
	if err != nil {
		return nil, err
	}
	authz.Note(ctx, fmt.Sprintf("node %d was added", node))
	return &holdfastv1.AddMemberResponse{}, nil
}

// PromoteMember gives a member its vote.
func (a memberActs) PromoteMember(ctx context.Context,
	req *holdfastv1.PromoteMemberRequest,
) (*holdfastv1.PromoteMemberResponse, error) {
	if a.members == nil {
		return a.refuse.PromoteMember(ctx, req)
	}
	if err := act(ctx, req.GetNode(), "is to vote", a.members.Promote); err != nil {
		return nil, err
	}
	return &holdfastv1.PromoteMemberResponse{}, nil
}

// DemoteMember removes a member's vote.
func (a memberActs) DemoteMember(ctx context.Context,
	req *holdfastv1.DemoteMemberRequest,
) (*holdfastv1.DemoteMemberResponse, error) {
	if a.members == nil {
		return a.refuse.DemoteMember(ctx, req)
	}
	if err := act(ctx, req.GetNode(), "is to lose its vote", a.members.Demote); err != nil {
		return nil, err
	}
	return &holdfastv1.DemoteMemberResponse{}, nil
}

// RemoveMember removes a member for good.
func (a memberActs) RemoveMember(ctx context.Context,
	req *holdfastv1.RemoveMemberRequest,
) (*holdfastv1.RemoveMemberResponse, error) {
	if a.members == nil {
		return a.refuse.RemoveMember(ctx, req)
	}
	if err := act(ctx, req.GetNode(), "is to leave", a.members.Remove); err != nil {
		return nil, err
	}
	return &holdfastv1.RemoveMemberResponse{}, nil
}

// TransferLeadership transfers leadership to another voter.
func (a memberActs) TransferLeadership(ctx context.Context,
	req *holdfastv1.TransferLeadershipRequest,
) (*holdfastv1.TransferLeadershipResponse, error) {
	if a.members == nil {
		return a.refuse.TransferLeadership(ctx, req)
	}
	if req.GetNode() == 0 {
		if err := a.members.Transfer(ctx, 0); err != nil {
			return nil, err
		}
		authz.Note(ctx, "another node leads")
		return &holdfastv1.TransferLeadershipResponse{}, nil
	}
	if err := act(ctx, req.GetNode(), "is to lead", a.members.Transfer); err != nil {
		return nil, err
	}
	return &holdfastv1.TransferLeadershipResponse{}, nil
}

// act runs do for the node that a request names, and records the outcome in the audit.
func act(ctx context.Context, number uint32, what string, do func(context.Context, session.Node) error) error {
	node, err := nodeFrom("node", number)
	if err != nil {
		return err
	}
	if err = do(ctx, node); err != nil {
		return err
	}
	authz.Note(ctx, fmt.Sprintf("node %d %s", node, what))
	return nil
}

// nodeFrom reads the number of a node.
func nodeFrom(field string, number uint32) (session.Node, error) {
	if number < 1 || number > uint32(session.MaxNode) {
		return 0, &session.FieldError{Field: field, Limit: fmt.Sprintf("1 to %d", session.MaxNode)}
	}
	return session.Node(number), nil
}
