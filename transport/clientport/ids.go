package clientport

import (
	"context"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// idServer serves IdService.
type idServer struct {
	holdfastv1.UnimplementedIdServiceServer
	clock   func() time.Time
	service session.Service
}

// AllocateIds hands out a block of ids of this node (O3 id blocks).
func (s *idServer) AllocateIds(ctx context.Context,
	req *holdfastv1.AllocateIdsRequest,
) (*holdfastv1.AllocateIdsResponse, error) {
	if err := session.CheckClaim(req.GetCount()); err != nil {
		return nil, err
	}
	first, err := s.service.AllocateIDs(ctx, session.ClaimRequest{MS: session.MS(s.clock()), Count: req.GetCount()})
	if err != nil {
		return nil, err
	}
	return &holdfastv1.AllocateIdsResponse{
		First: uint64(first), Count: req.GetCount(), State: wire.StateProto(s.service.State()),
	}, nil
}
