package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"holdfast/client/internal/unary"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// CloseToken closes the session of t, for tools that hold no connection. It repeats the request until ctx ends or the
// answer is final, and succeeds when a repeat finds that an earlier request has closed the session. For a local session
// it searches for the session's node, as [Client.UpgradeToken] does. The error is [session.ErrMoved] when the session
// has been resumed since t was issued. When ctx ends, the error wraps [session.ErrOutcomeUnknown] if a request may have
// taken effect. Safe for concurrent use.
func (c *Client) CloseToken(ctx context.Context, t session.Token) error {
	tries := 0
	var outcome unary.Outcome
	err := c.nodes.About(ctx, t, func(ctx context.Context, cc *grpc.ClientConn) error {
		tries++
		var node peer.Peer
		_, err := holdfastv1.NewSessionServiceClient(cc).CloseSession(ctx,
			&holdfastv1.CloseSessionRequest{Token: wire.TokenProto(t)}, grpc.Peer(&node))
		outcome.Refused(&node, err)
		if unary.NotHome(wire.Domain(err)) {
			tries-- // this node does not have the session, so it has closed nothing
		}
		return err
	})
	if expired, ok := errors.AsType[*session.ExpiredError](err); ok && tries > 1 && expired.Certificate != nil &&
		expired.Certificate.Cause == session.CauseClosed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("close session %s: %w", t.ID, outcome.End(ctx, err))
	}
	return nil
}

// Upgraded is the result of [Client.UpgradeToken].
type Upgraded struct {
	Session session.Session
	// Token is the token of the global session, a secret.
	Token session.Token
	// SafeUntil is the end of the promise; zero without a promise.
	SafeUntil time.Time
}

// UpgradeToken makes the local session of t global, as [Session.Upgrade] does, for tools that hold no connection. It
// returns a global session unchanged. UpgradeToken searches for the session's node: it asks each server in turn, then
// the other members, until ctx ends or the answer is final. The error is [session.ErrMoved] when no node knows the
// session, or the session has been resumed since t was issued. When ctx ends, the error wraps
// [session.ErrOutcomeUnknown] if a request may have taken effect. Safe for concurrent use.
func (c *Client) UpgradeToken(ctx context.Context, t session.Token) (Upgraded, error) {
	var u Upgraded
	var outcome unary.Outcome
	err := c.nodes.Home(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		sent, before := c.clock.now()
		var node peer.Peer
		answer, err := holdfastv1.NewSessionServiceClient(cc).UpgradeSession(ctx,
			&holdfastv1.UpgradeSessionRequest{Token: wire.TokenProto(t)}, grpc.Peer(&node))
		if err != nil {
			if t.Local { // the request changes nothing about a global session
				outcome.Refused(&node, err)
			}
			return err
		}
		g, err := wire.GrantFrom(answer.GetSession(), answer.GetToken(), answer.GetSafeFor())
		u = Upgraded{Session: g.Session, Token: g.Token}
		if _, suspensions := c.clock.now(); g.SafeFor >= 0 && suspensions == before { // S5
			u.SafeUntil = sent.Add(g.SafeFor)
		}
		return err
	})
	if err != nil {
		return Upgraded{}, fmt.Errorf("upgrade session %s: %w", t.ID, outcome.End(ctx, err))
	}
	return u, nil
}
