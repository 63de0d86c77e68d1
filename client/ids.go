package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// AllocateIDs returns the first of count ids, 1 to [session.MaxClaim], that follow each other, and that the cluster
// gives to nobody else, ever, also not as the id of a session. A call that has to be repeated because its answer was
// lost wastes a block. Blocks that two nodes hand out have no order in time.
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
