package clientport

import (
	"context"
	"fmt"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/authz"
	"holdfast/transport/wire"
)

// FreezeExpiry stops expiry for a time (Y3 freeze).
func (s *adminServer) FreezeExpiry(ctx context.Context,
	req *holdfastv1.FreezeExpiryRequest,
) (*holdfastv1.FreezeExpiryResponse, error) {
	freeze, err := wire.FreezeFrom(req)
	if err != nil {
		return nil, err
	}
	if freeze.By, err = operator(ctx); err != nil {
		return nil, err
	}
	index, err := s.admin.Freeze(ctx, freeze)
	if err != nil {
		return nil, err
	}
	noteEntry(ctx, index)
	return &holdfastv1.FreezeExpiryResponse{Index: index, State: s.state()}, nil
}

// ThawExpiry ends a freeze (Y3).
func (s *adminServer) ThawExpiry(ctx context.Context,
	_ *holdfastv1.ThawExpiryRequest,
) (*holdfastv1.ThawExpiryResponse, error) {
	index, err := s.admin.Freeze(ctx, session.FreezeRequest{})
	if err != nil {
		return nil, err
	}
	noteEntry(ctx, index)
	return &holdfastv1.ThawExpiryResponse{Index: index, State: s.state()}, nil
}

// ExtendSession keeps a session alive for a time (Y4 extension).
func (s *adminServer) ExtendSession(ctx context.Context,
	req *holdfastv1.ExtendSessionRequest,
) (*holdfastv1.ExtendSessionResponse, error) {
	extend, err := wire.ExtendFrom(req)
	if err != nil {
		return nil, err
	}
	index, err := s.admin.Extend(ctx, extend)
	if err != nil {
		return nil, err
	}
	noteEntry(ctx, index)
	return &holdfastv1.ExtendSessionResponse{Index: index, State: s.state()}, nil
}

// noteEntry records in the audit which log entry carried out the operator's request.
func noteEntry(ctx context.Context, index uint64) { authz.Note(ctx, fmt.Sprintf("entry %d", index)) }
