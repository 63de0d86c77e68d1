package clientport

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// Drains drains its node. Safe for concurrent use.
type Drains interface {
	// Drain begins to drain the node, unless a drain has begun, and returns the progress. The error is a
	// [session.DrainRefusedError], or ctx's. With force the node makes no checks and Drain never fails. Otherwise the
	// check takes a few heartbeats, to be sure that no other node is being drained.
	Drain(ctx context.Context, force bool) (DrainStatus, error)
	// Undrain ends the drain, and reports whether there was one. A stopping node cannot be undrained: the error is
	// [session.ErrStopping].
	Undrain() (bool, error)
}

// DrainStatus is the progress of a drain. The DrainStatus in the protocol explains each field.
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

// UndrainNode makes the node accept clients again.
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

// mine refuses a request for another node: an address may lead to another node than the operator thinks.
func (c *clusterServer) mine(node uint32) error {
	if own := c.node.service.State().Node; node != uint32(own) {
		return &session.FieldError{Field: "node", Limit: fmt.Sprintf("%d, the number of this node", own)}
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
