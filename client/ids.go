package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// AllocateIDs claims a block of count consecutive ids and returns the first of them. The cluster never gives these ids
// out again, also not as ids of sessions. count is 1 to [session.MaxClaim]. AllocateIDs repeats the call until ctx ends
// or the cluster refuses it for good; a repeat after a lost answer wastes a block. Blocks from different nodes have no
// order in time. Safe for concurrent use.
func (c *Client) AllocateIDs(ctx context.Context, count uint32) (first session.ID, err error) {
	if err = session.CheckClaim(count); err != nil {
		return 0, fmt.Errorf("allocate ids: %w", err)
	}
	err = c.nodes.Any(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		answer, callErr := holdfastv1.NewIdServiceClient(cc).AllocateIds(ctx,
			&holdfastv1.AllocateIdsRequest{Count: count})
		first = session.ID(answer.GetFirst())
		return callErr
	})
	if err != nil {
		return 0, fmt.Errorf("allocate ids: %w", err)
	}
	return first, nil
}
