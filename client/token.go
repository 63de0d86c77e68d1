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

// CloseToken ends the session of t. [session.ErrMoved] when the session has been resumed since t was given; a close
// that was repeated because its answer was lost succeeds. The node of a local session is looked for, as by
// [Client.UpgradeToken]. When ctx ends, the error wraps [session.ErrOutcomeUnknown] if a request was sent whose outcome
// is not known.
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
			tries-- // it was not the session's node that was asked
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

// Upgraded is a session that has become global.
type Upgraded struct {
	Session session.Session
	// Token is the global one. It is a secret.
	Token session.Token
	// SafeUntil is the promise; zero when nothing is promised now.
	SafeUntil time.Time
}

// UpgradeToken makes the local session of t global, for tools that hold no connection; [Session.Upgrade] says what that
// means. A global one is answered as it is. The session's node is looked for, as only that touches it: every endpoint
// is asked in turn, and the other members after them, until ctx ends or the answer is final. [session.ErrMoved] when no
// node is the session's, or it has been resumed since t was given. When ctx ends, the error wraps
// [session.ErrOutcomeUnknown] if a request was sent whose outcome is not known.
func (c *Client) UpgradeToken(ctx context.Context, t session.Token) (Upgraded, error) {
	var u Upgraded
	var outcome unary.Outcome
	err := c.nodes.Home(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		sent, before := c.clock.look()
		var node peer.Peer
		answer, err := holdfastv1.NewSessionServiceClient(cc).UpgradeSession(ctx,
			&holdfastv1.UpgradeSessionRequest{Token: wire.TokenProto(t)}, grpc.Peer(&node))
		if err != nil {
			if t.Local { // of a global one nothing is changed
				outcome.Refused(&node, err)
			}
			return err
		}
		g, err := wire.GrantFrom(answer.GetSession(), answer.GetToken(), answer.GetSafeFor())
		u = Upgraded{Session: g.Session, Token: g.Token}
		if _, suspensions := c.clock.look(); g.SafeFor >= 0 && suspensions == before { // else S5
			u.SafeUntil = sent.Add(g.SafeFor)
		}
		return err
	})
	if err != nil {
		return Upgraded{}, fmt.Errorf("upgrade session %s: %w", t.ID, outcome.End(ctx, err))
	}
	return u, nil
}
