package clientport

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// Drains drains the node that it belongs to. Safe for concurrent use.
type Drains interface {
	// Drain begins to drain the node, unless that has begun, and returns how far it has come. The error is a
	// [session.DrainRefusedError], or that of ctx. With force there is none. Without, it takes a few heartbeats to be
	// sure that no other node is being drained.
	Drain(ctx context.Context, force bool) (DrainStatus, error)
	// Undrain ends that, and reports whether the node was being drained. A node that is stopping cannot be undrained: the
	// error is [session.ErrStopping].
	Undrain() (bool, error)
}

// DrainStatus says how far a node has come that is being drained. The DrainStatus in the protocol explains each field.
type DrainStatus struct {
	Since                        time.Time
	Connections, Sessions, Local int
	Leads, Done                  bool
}

// DrainNode begins to drain this node.
func (c *clusterServer) DrainNode(ctx context.Context,
	req *holdfastv1.DrainNodeRequest,
) (*holdfastv1.DrainNodeResponse, error) {
	if c.drains == nil {
		return c.refuse.DrainNode(ctx, req)
	}
	if err := c.mine(req.GetNode()); err != nil {
		return nil, err
	}
	s, err := c.drains.Drain(ctx, req.GetForce())
	if err != nil {
		return nil, err
	}
	return &holdfastv1.DrainNodeResponse{Drain: drainProto(&s)}, nil
}

// UndrainNode takes clients again.
func (c *clusterServer) UndrainNode(ctx context.Context,
	req *holdfastv1.UndrainNodeRequest,
) (*holdfastv1.UndrainNodeResponse, error) {
	if c.drains == nil {
		return c.refuse.UndrainNode(ctx, req)
	}
	if err := c.mine(req.GetNode()); err != nil {
		return nil, err
	}
	drained, err := c.drains.Undrain()
	if err != nil {
		return nil, err
	}
	return &holdfastv1.UndrainNodeResponse{Drained: drained}, nil
}

// mine refuses a request that is meant for another node: an address may lead to another node than its operator thinks.
func (c *clusterServer) mine(node uint32) error {
	if own := c.node.service.State().Node; node != uint32(own) {
		return &session.FieldError{Field: "node", Limit: fmt.Sprintf("%d, the number of the asked node", own)}
	}
	return nil
}

func drainProto(s *DrainStatus) *holdfastv1.DrainStatus {
	if s == nil {
		return nil
	}
	return &holdfastv1.DrainStatus{
		Since: timestamppb.New(s.Since), Connections: uint64(s.Connections), Sessions: uint64(s.Sessions),
		SessionsLocal: uint64(s.Local), Leads: s.Leads, Done: s.Done,
	}
}
