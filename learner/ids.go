package learner

import (
	"context"
	"fmt"

	"holdfast/session"
)

// AllocateIDs claims a block of ids of this node through the leader, and returns the first (O3). After
// session.ErrOutcomeUnknown the block may be claimed and is nobody's: a repeat gets another.
func (s *Server) AllocateIDs(ctx context.Context, r session.ClaimRequest) (session.ID, error) {
	reply, err := s.ask(ctx, session.Request{Claim: &r})
	if err != nil {
		return 0, err
	}
	if reply.First.Node() != s.cfg.Node {
		return 0, fmt.Errorf("%w: it claimed %v for node %d", errProtocol, reply.First, s.cfg.Node)
	}
	return reply.First, nil
}
