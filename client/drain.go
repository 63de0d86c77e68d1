package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// Drain says how far a node has come that is being drained.
type Drain struct {
	Since time.Time
	// Connections counts connections of clients that still have global sessions at the node, and Sessions counts these
	// sessions. Local counts the node's local sessions, which end with the node.
	Connections, Sessions, Local uint64
	// Leads reports whether the node still leads.
	Leads bool
	// Done reports whether no client is left to wait for: see docs/operations/day2.md.
	Done bool
}

// DrainNode starts to drain the node at endpoint, host:port: leadership and clients move to other nodes. DrainNode
// returns at once; [Client.Status] shows the progress. A repeat changes nothing. Without force, the error is a
// [session.DrainRefusedError] if the remaining nodes would be no quorum or could not serve the clients. Safe for
// concurrent use.
func (c *Client) DrainNode(ctx context.Context, endpoint string, node session.Node, force bool) (Drain, error) {
	var answer *holdfastv1.DrainNodeResponse
	err := c.nodes.At(ctx, endpoint, func(ctx context.Context, cc *grpc.ClientConn) (err error) {
		answer, err = holdfastv1.NewClusterServiceClient(cc).DrainNode(ctx,
			&holdfastv1.DrainNodeRequest{Node: uint32(node), Force: force})
		return err
	})
	if err != nil {
		return Drain{}, fmt.Errorf("drain node %d: %w", node, err)
	}
	if d := drainFrom(answer.GetDrain()); d != nil {
		return *d, nil
	}
	return Drain{}, nil // another caller has undrained the node
}

// UndrainNode ends what [Client.DrainNode] began, and reports whether the node was being drained. Safe for concurrent
// use.
func (c *Client) UndrainNode(ctx context.Context, endpoint string, node session.Node) (drained bool, err error) {
	err = c.nodes.At(ctx, endpoint, func(ctx context.Context, cc *grpc.ClientConn) error {
		answer, callErr := holdfastv1.NewClusterServiceClient(cc).UndrainNode(ctx,
			&holdfastv1.UndrainNodeRequest{Node: uint32(node)})
		drained = answer.GetDrained()
		return callErr
	})
	if err != nil {
		return false, fmt.Errorf("undrain node %d: %w", node, err)
	}
	return drained, nil
}

// drainFrom returns nil for a node that is not being drained.
func drainFrom(p *holdfastv1.DrainStatus) *Drain {
	if p == nil {
		return nil
	}
	return &Drain{
		Since: p.GetSince().AsTime(), Connections: p.GetConnections(), Sessions: p.GetSessions(),
		Local: p.GetSessionsLocal(), Leads: p.GetLeads(), Done: p.GetDone(),
	}
}
