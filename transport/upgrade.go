package transport

import (
	"context"
	"math"

	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

func upgradeProto(r *session.UpgradeRequest) *peerv1.UpgradeRequest {
	return &peerv1.UpgradeRequest{
		SessionId: uint64(r.ID), Timeout: durationpb.New(r.Timeout), Labels: labelsProto(r.Labels), Ms: int64(min(r.MS, math.MaxInt64)),
		Instance: r.Instance, Attempt: r.Attempt, SinceIndex: r.Since,
	}
}

func upgradeFrom(p *peerv1.UpgradeRequest) (*session.UpgradeRequest, error) {
	id, err := idFrom("session_id", p.GetSessionId())
	if err != nil {
		return nil, err
	}
	timeout, err := durationFrom("timeout", p.GetTimeout(), positive)
	if err != nil {
		return nil, err
	}
	labels, err := labelsFrom(p.GetLabels())
	return &session.UpgradeRequest{
		ID: id, Timeout: timeout, Labels: labels, MS: uint64(max(p.GetMs(), 0)),
		Instance: p.GetInstance(), Attempt: p.GetAttempt(), Since: p.GetSinceIndex(),
	}, err
}

// UpgradeSession makes a local session of this node global.
func (s *sessionServer) UpgradeSession(ctx context.Context, req *holdfastv1.UpgradeSessionRequest) (*holdfastv1.UpgradeSessionResponse, error) {
	token, err := TokenFrom(req.GetToken())
	if err != nil {
		return nil, err
	}
	g, err := s.unary(func(c session.Connection) (session.Grant, error) { return c.Upgrade(ctx, token) })
	if err != nil {
		return nil, err
	}
	return &holdfastv1.UpgradeSessionResponse{
		Session: SessionProto(g.Session), Token: TokenProto(g.Token), SafeFor: PromiseProto(g.SafeFor), State: s.state(),
	}, nil
}

// upgrade makes a local session global. Words of its end or move wait for the answer, as they do for a resume's: a client that
// heard of the end first would keep the session for alive.
func (c *connection) upgrade(ctx context.Context, p *holdfastv1.Upgrade) error {
	token, err := TokenFrom(p.GetToken())
	if err != nil {
		return err
	}
	return c.run(ctx, p.GetSeq(), request{upgrade: token.ID}, func(ctx context.Context) (*holdfastv1.ServerMessage, session.Token, error) {
		g, err := c.conn.Upgrade(ctx, token)
		if err != nil {
			return nil, session.Token{}, err
		}
		// Whichever connection serves the session goes on serving it: nothing is granted to this one.
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Upgraded{Upgraded: &holdfastv1.Upgraded{
			Seq: p.GetSeq(), Session: SessionProto(g.Session), Token: TokenProto(g.Token), SafeFor: PromiseProto(g.SafeFor),
		}}}, session.Token{}, nil
	})
}
