package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Freezing reports that nothing expires in a cluster.
type Freezing struct {
	// Left is for how long, unless an operator thaws the cluster before.
	Left time.Duration
	// Since is the time of the freeze, By the operator, and Why the operator's reason.
	Since   time.Time
	By, Why string
}

// Freeze has no session of the cluster expire for d, 1 ms to [session.MaxFreeze], whatever freeze there was before.
// Entries of the tree do not come due either. It is for operators: sessions are closed and killed as ever, and promises
// do not become longer. why is shown by every node. After an error the cluster may be frozen; a repeat is safe. Safe
// for concurrent use.
func (c *Client) Freeze(ctx context.Context, d time.Duration, why string) error {
	err := c.operate(ctx, func(ctx context.Context, admin holdfastv1.AdminServiceClient) error {
		_, err := admin.FreezeExpiry(ctx, &holdfastv1.FreezeExpiryRequest{For: durationpb.New(d), Why: why})
		return err
	})
	if err != nil {
		return fmt.Errorf("freeze the cluster: %w", err)
	}
	return nil
}

// Thaw ends a freeze. Each session then has its full timeout. Thawing a cluster that is not frozen changes nothing.
// Errors are those of [Client.Freeze]. Safe for concurrent use.
func (c *Client) Thaw(ctx context.Context) error {
	err := c.operate(ctx, func(ctx context.Context, admin holdfastv1.AdminServiceClient) error {
		_, err := admin.ThawExpiry(ctx, &holdfastv1.ThawExpiryRequest{})
		return err
	})
	if err != nil {
		return fmt.Errorf("thaw the cluster: %w", err)
	}
	return nil
}

// Extend keeps a silent global session for d from now on, at most [session.MaxFreeze], and replaces an earlier
// extension. 0 cancels an extension. Extend is for operators: it needs no token, and the session's client gets no
// longer promise. The error is [session.ErrExpired] when the session has ended, [session.ErrLimit] when too many are
// extended, or one of [Client.Freeze]. Safe for concurrent use.
func (c *Client) Extend(ctx context.Context, id session.ID, d time.Duration) error {
	err := c.operate(ctx, func(ctx context.Context, admin holdfastv1.AdminServiceClient) error {
		_, err := admin.ExtendSession(ctx, &holdfastv1.ExtendSessionRequest{SessionId: uint64(id), For: durationpb.New(d)})
		return err
	})
	if err != nil {
		return fmt.Errorf("extend session %s: %w", id, err)
	}
	return nil
}

// operate sends an operator's request to any node.
func (c *Client) operate(ctx context.Context,
	do func(ctx context.Context, admin holdfastv1.AdminServiceClient) error,
) error {
	return c.nodes.Any(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		return do(ctx, holdfastv1.NewAdminServiceClient(cc))
	})
}

// freezingFrom returns the freeze in p; nil for none.
func freezingFrom(p *holdfastv1.Freezing) (*Freezing, error) {
	f, left, err := wire.FreezingFrom(p)
	if f == nil || err != nil {
		return nil, err
	}
	return &Freezing{Left: left, Since: f.Since, By: f.By, Why: f.Why}, nil
}
