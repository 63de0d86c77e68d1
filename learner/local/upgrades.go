package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/session"
)

// maxUpgrades bounds the upgrades in flight at the leader; further ones wait.
const maxUpgrades = 1024

// Upgrade makes a local session of this node global (L7). It returns once the session of a local token is global, or is
// not here at all.
//
// All clients that request an upgrade meanwhile share one value. It begins with beginUpgrade and ends in one of three
// ways: the node applies the entry that makes the session global (Promote), the leader certainly refused
// (abortUpgrade), or the log says that the session has ended (endUpgraded).
func (s *Service) Upgrade(ctx context.Context, token session.Token) error {
	if !s.cfg.Upgrade && s.table.Has(token.ID) {
		return &session.FieldError{
			Field: "token", Limit: "of a global session while the cluster's setting local_session_upgrade is off",
		}
	}
	u, begun, err := s.table.beginUpgrade(token, s.clock.Now(), s.node.AppliedIndex())
	if u == nil {
		return err
	}
	if begun {
		select {
		case s.upgrades <- u:
		case <-s.ended:
			s.table.abortUpgrade(u, session.ErrStopping, s.clock.Now())
		case <-ctx.Done():
			s.table.abortUpgrade(u, session.ErrNoLeader, s.clock.Now()) // the request has not reached the leader
			return ctx.Err()
		}
	}
	return u.wait(ctx)
}

// runUpgrades requests upgrades from the leader until ctx ends.
func (s *Service) runUpgrades(ctx context.Context) {
	defer close(s.ended)
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, maxUpgrades)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		select {
		case u := <-s.upgrades:
			wg.Go(func() {
				defer func() { <-places }()
				s.runUpgrade(ctx, u)
			})
		case <-ctx.Done():
			return
		}
	}
}

// runUpgrade requests an upgrade from the leader until the outcome is known. Once an outcome is unknown only the log
// decides: runUpgrade repeats the same command, which has an effect only once (L7 upgrade).
func (s *Service) runUpgrade(ctx context.Context, u *upgrade) {
	unknown := false
	for {
		request := u.request
		reply, err := s.node.Ask(ctx, session.Request{Upgrade: &request})
		switch {
		case err == nil:
			err = s.node.WaitApplied(ctx, reply.Index) // by then Promote has handed the session over
			if err != nil {
				err = fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err)
			}
			u.finish(err)
			return
		case errors.Is(err, session.ErrExpired):
			u.finish(s.endUpgraded(ctx, u, reply.Index))
			return
		case errors.Is(err, session.ErrOutcomeUnknown):
			unknown = true
		case unknown && errors.Is(err, session.ErrStopping):
			// The node sends no more requests, and waiting clients would keep it from stopping.
			u.finish(fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err))
			return
		case !unknown:
			s.table.abortUpgrade(u, err, s.clock.Now())
			return
		}
		if !s.pause(ctx) {
			u.finish(fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err()))
			return
		}
	}
}

// pause waits for half an interval; it returns false when ctx has ended.
func (s *Service) pause(ctx context.Context) bool {
	timer := time.NewTimer(s.cfg.Interval / 2)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// endUpgraded ends a session that, according to the log, became global and has ended, or may have ended. The error is
// session.ErrOutcomeUnknown when this node has not applied the entry at index; the session is then unchanged.
func (s *Service) endUpgraded(ctx context.Context, u *upgrade, index uint64) error {
	if err := s.node.WaitApplied(ctx, index); err != nil {
		return fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err)
	}
	id := u.request.ID
	certificate, ok := s.node.Certificate(id)
	if !ok {
		certificate = session.Certificate{ID: id, Owner: s.cfg.Node}
	}
	if c := s.table.remove(id, s.node.Gone(id)); c != nil {
		c.Gone(certificate)
	}
	return nil
}

// Promote serves a session as the global one that an entry has made of it, through the connection that served the local
// one (L8 one upgrade at a time). The goroutine that applies entries calls it, before the node shows the entry as
// applied. So no touch falls between the two, and no move or end of the session can be applied first.
func (s *Service) Promote(now session.Session) {
	for {
		c := s.table.connOf(now.ID)
		if c == nil || c.Promote(now) {
			return
		}
	}
}

// Restored looks up the sessions with an upgrade in flight in the state of a restored snapshot (M4 former clients are
// notified first).
func (s *Service) Restored() {
	for _, id := range s.table.upgrading() {
		now, global := s.node.Session(id)
		certificate, over := s.node.Certificate(id)
		switch {
		case global && now.Owner == s.cfg.Node:
			// Only clients of this node could have moved the session back here, and they wait for the upgrade.
			s.Promote(now)
		case global:
			if c := s.table.remove(id, session.MovedTo(now)); c != nil {
				c.Moved(now)
			}
		case over:
			if c := s.table.remove(id, expired(&certificate)); c != nil {
				c.Gone(certificate)
			}
		}
	}
}
