package clientport

import (
	"context"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// UpgradeSession makes a local session of this node global.
func (s *sessionServer) UpgradeSession(ctx context.Context,
	req *holdfastv1.UpgradeSessionRequest,
) (*holdfastv1.UpgradeSessionResponse, error) {
	token, err := wire.TokenFrom(req.GetToken())
	if err != nil {
		return nil, err
	}
	g, err := s.unary(func(c session.Connection) (session.Grant, error) { return c.Upgrade(ctx, token) })
	if err != nil {
		return nil, err
	}
	return &holdfastv1.UpgradeSessionResponse{
		Session: wire.SessionProto(g.Session), Token: wire.TokenProto(g.Token), SafeFor: wire.PromiseProto(g.SafeFor),
		State: s.state(),
	}, nil
}

// upgrade makes a local session global. Events of its end or move wait for the answer, as for a resume: a client that
// received the end first would believe the session alive.
func (c *connection) upgrade(ctx context.Context, p *holdfastv1.Upgrade) error {
	token, err := wire.TokenFrom(p.GetToken())
	if err != nil {
		return err
	}
	return c.run(ctx, &request{c: c, seq: p.GetSeq(), upgrade: token.ID, token: token})
}
