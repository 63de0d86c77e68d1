package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// AddMember adds a running node that waits to join the cluster, as an observer: an observer serves clients without a
// vote. [Client.PromoteMember] gives it a vote. AddMember searches for the leader until ctx ends, as all calls about
// members do. Their errors are a [session.MemberRefusedError] with nothing changed, or a [session.FieldError]. The
// calls return once the change is committed; [Client.MembersOfLeader] shows when the change has been carried out. A
// repeat changes nothing. Safe for concurrent use.
func (c *Client) AddMember(ctx context.Context, at session.MemberPlace) error {
	return c.changeMembers(ctx, "add", at.Node, func(ctx context.Context, cc holdfastv1.ClusterServiceClient) error {
		_, err := cc.AddMember(ctx, &holdfastv1.AddMemberRequest{Member: &holdfastv1.MemberPlace{
			Node: uint32(at.Node), RaftAddress: at.Raft, PeerAddress: at.Peer, ClientAddress: at.Client,
		}})
		return err
	})
}

// PromoteMember gives a member a vote, once the member has caught up. See [Client.AddMember].
func (c *Client) PromoteMember(ctx context.Context, node session.Node) error {
	return c.changeMembers(ctx, "promote", node, func(ctx context.Context, cc holdfastv1.ClusterServiceClient) error {
		_, err := cc.PromoteMember(ctx, &holdfastv1.PromoteMemberRequest{Node: uint32(node)})
		return err
	})
}

// DemoteMember removes a member's vote: the member remains as an observer. See [Client.AddMember].
func (c *Client) DemoteMember(ctx context.Context, node session.Node) error {
	return c.changeMembers(ctx, "demote", node, func(ctx context.Context, cc holdfastv1.ClusterServiceClient) error {
		_, err := cc.DemoteMember(ctx, &holdfastv1.DemoteMemberRequest{Node: uint32(node)})
		return err
	})
}

// RemoveMember removes a member for good, after its clients have moved: its number is never used again. See
// [Client.AddMember].
func (c *Client) RemoveMember(ctx context.Context, node session.Node) error {
	return c.changeMembers(ctx, "remove", node, func(ctx context.Context, cc holdfastv1.ClusterServiceClient) error {
		_, err := cc.RemoveMember(ctx, &holdfastv1.RemoveMemberRequest{Node: uint32(node)})
		return err
	})
}

// TransferLeadership transfers leadership to the given voter, or to any voter for 0. It returns when the former leader
// no longer leads. Safe for concurrent use.
func (c *Client) TransferLeadership(ctx context.Context, node session.Node) error {
	return c.changeMembers(ctx, "transfer leadership to", node,
		func(ctx context.Context, cc holdfastv1.ClusterServiceClient) error {
			_, err := cc.TransferLeadership(ctx, &holdfastv1.TransferLeadershipRequest{Node: uint32(node)})
			return err
		})
}

func (c *Client) changeMembers(ctx context.Context, what string, node session.Node,
	call func(context.Context, holdfastv1.ClusterServiceClient) error,
) error {
	err := c.nodes.Leader(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		return call(ctx, holdfastv1.NewClusterServiceClient(cc))
	})
	if err != nil {
		return fmt.Errorf("%s node %d: %w", what, node, err)
	}
	return nil
}
