package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Upgrade makes a local session global: it keeps its id and timeout, lives through its node's death from then on, and
// is moved to other nodes like any other (L7). When Upgrade returns nil, [Session.Token], [Session.Local] and the
// promise are those of the global session; for a token from before see L5. Of a global session it changes nothing.
//
// It is repeated until ctx ends, which is safe: it is done once, however often it is asked for. When ctx ends the error
// wraps its cause and the last thing that stood in the way: [session.ErrOutcomeUnknown] if the session may have become
// global all the same, or may yet. A client that was told to [FailInFlight] returns that too, when the answer cannot
// come any more. Then [Session.Local] tells as soon as it is known, and calling Upgrade again is safe. The session
// lives on after an error, unless it has ended: then the error is that of [Session.Err]. A [session.FieldError] when
// the cluster's setting local_session_upgrade is off.
func (s *Session) Upgrade(ctx context.Context) error {
	if err := s.loop.upgrade(ctx, s); err != nil {
		return fmt.Errorf("upgrade session %s: %w", s.id, err)
	}
	return nil
}

// Local reports whether one node alone knows the session, as far as this client has heard: see [SessionOptions].
func (s *Session) Local() bool { return s.Token().Local }

// upgradeBody asks for a session to be made global.
type upgradeBody struct{ h *held }

func (b *upgradeBody) wanted() bool { return len(b.h.upgrading) > 0 && b.h.on != nil }

func (b *upgradeBody) message(_ *loop, seq uint64) *holdfastv1.ClientMessage {
	b.h.upgradeSent = true
	for _, call := range b.h.upgrading {
		call.last = session.ErrOutcomeUnknown // until there is an answer
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Upgrade{
		Upgrade: &holdfastv1.Upgrade{Seq: seq, Token: wire.TokenProto(b.h.token)},
	}}
}

// upgrade has a session made global and waits for that.
func (l *loop) upgrade(ctx context.Context, s *Session) error {
	c := newCall(ctx)
	c.upgrades = true
	if !l.post(func() { l.beginUpgrade(c, s) }) {
		return session.ErrClosed
	}
	_, err := l.wait(c)
	return err
}

func (l *loop) beginUpgrade(c *call, s *Session) {
	h := l.sessions[s.id]
	switch {
	case h == nil || h.s != s:
		c.settle(nil, s.Err())
		return
	case !h.token.Local:
		c.settle(s, nil)
		return
	}
	c.h = h
	h.upgrading = append(h.upgrading, c)
	if h.upgradeSent {
		c.last = session.ErrOutcomeUnknown
	}
	if len(h.upgrading) == 1 && h.on != nil {
		l.queueUpgrade(h)
	}
}

func (l *loop) queueUpgrade(h *held) {
	h.on.queue = append(h.on.queue, &request{body: &upgradeBody{h}})
}

// goOnUpgrading asks again where a session is served anew, or finds that a former request took effect.
func (l *loop) goOnUpgrading(h *held) {
	switch {
	case !h.token.Local:
		h.upgradeSent = false
		l.settleUpgrades(h, nil)
	case len(h.upgrading) > 0:
		l.queueUpgrade(h)
	}
}

func (l *loop) settleUpgrades(h *held, err error) {
	for _, call := range h.upgrading {
		call.settle(h.s, err)
	}
	h.upgrading = nil
}

// upgraded takes the global session that h has become, whether or not somebody waits for that still. It is no move: c
// serves it as before.
func (l *loop) upgraded(c *conn, r *request, h *held, m *holdfastv1.Upgraded) {
	if !l.holds(h) || h.on != c || r.seq <= h.since {
		return // it named a former attachment: an upgrade follows each attachment
	}
	g, err := wire.GrantFrom(m.GetSession(), m.GetToken(), m.GetSafeFor())
	if err != nil {
		l.settleUpgrades(h, err)
		return
	}
	h.token, h.upgradeSent = g.Token, false
	h.s.grant(g.Session, g.Token)
	l.served(c)
	if l.promise(h, r, g.SafeFor, h.timeout) {
		l.emit(h, regained, nil)
	}
	l.settleUpgrades(h, nil)
}

// upgradeRefused handles a refusal. No other node could do it, so the client stays where it is.
func (l *loop) upgradeRefused(c *conn, r *request, h *held, err error) {
	if !l.holds(h) || h.on != c || r.seq <= h.since {
		return
	}
	for _, call := range slices.Clone(h.upgrading) {
		call.last = err
		if errors.Is(err, session.ErrOutcomeUnknown) {
			l.unknown(call)
		}
	}
	switch {
	case errors.Is(err, session.ErrExpired):
		l.expired(h, err)
	case errors.Is(err, session.ErrMoved):
		l.moved(h, c, holder(err))
	case errors.Is(err, session.ErrBadCredential):
		l.end(h, err)
	case route.Judge(err) == route.Final:
		h.upgradeSent = false
		l.settleUpgrades(h, err)
	default:
		l.pause(c, r, err)
	}
}
