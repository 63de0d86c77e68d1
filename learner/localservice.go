package learner

import (
	"context"
	"errors"
	"time"

	"holdfast/session"
)

// localService serves requests about local sessions on top of [Local]: it gets ids, checks tokens, and tells
// connections of ends. Safe for concurrent use.
type localService struct {
	cfg      *Config
	view     Sessions
	clock    *clock
	standing *standing
	table    *TouchTable
	local    *Local
	ids      *idPool
	registry *registry
	reads    *reader
	expiries *expiryLog
}

// accept checks that a local session may be opened here, and negotiates its timeout (L1).
func (s *localService) accept(timeout time.Duration) (time.Duration, error) {
	if !s.cfg.Local {
		return 0, &session.FieldError{
			Field: "local", Limit: "false while the cluster's setting local_sessions is off",
		}
	}
	negotiated, err := s.cfg.Limits.Negotiate(timeout)
	if err != nil {
		return 0, err
	}
	if s.standing.stopping.Load() {
		return 0, session.ErrStopping
	}
	if s.standing.drain.on() {
		return 0, s.standing.drain.refusal()
	}
	return negotiated, nil
}

// open opens a local session as soon as there is an id for it: at once, as a rule. After a bounded wait the error says
// why there is none, see [idPool.why].
func (s *localService) open(ctx context.Context, o opening) (*local, error) {
	timer := time.NewTimer(s.cfg.LaggingWait)
	defer timer.Stop()
	for {
		supplied := s.ids.supplied.wait()
		made, err := s.local.open(o, s.clock.look())
		s.ids.refill()
		if made != nil || err != nil {
			return made, err
		}
		select {
		case <-supplied:
		case <-timer.C:
			return nil, s.ids.why()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// touch touches a session by a token of a local one.
func (s *localService) touch(ctx context.Context, t session.Token, now time.Duration) (time.Duration, error) {
	if err := s.registry.authentic(t); err != nil {
		return -1, err
	}
	one, err := s.local.named(t)
	if err != nil {
		return -1, err
	}
	if one != nil {
		safe, why := s.local.heard(one, now)
		if why == nil || s.local.has(t.ID) {
			return safe, why
		}
	}
	if a := s.table.upgraded(t); a != nil {
		return s.table.touch(a, now)
	}
	return -1, s.notHere(ctx, t.ID)
}

// notHere returns the refusal of a local token whose session is not here: the session has ended, or lives elsewhere as
// far as this node knows. An earlier process of this node may have had the session upgraded without this process having
// applied that yet. So the node says that a session of its own has ended only when it knows how, or after a good round
// (M5).
func (s *localService) notHere(ctx context.Context, id session.ID) error {
	if _, global := s.view.Session(id); global || id.Node() != s.cfg.Node {
		return s.registry.notHere(id)
	}
	if _, ended := s.registry.certificate(id); !ended {
		if _, err := s.reads.sync(ctx, nil); err != nil {
			return err
		}
		if _, global := s.view.Session(id); global {
			return s.registry.notHere(id)
		}
	}
	return s.registry.gone(id)
}

// close ends a local session of this node. It waits for an upgrade that is under way. here is false when the session is
// not here any more.
func (s *localService) close(ctx context.Context, t session.Token) (here bool, err error) {
	if err = s.registry.authentic(t); err != nil {
		return true, err
	}
	if f := s.local.flightOf(t.ID); f != nil {
		if err = f.wait(ctx); errors.Is(err, session.ErrOutcomeUnknown) {
			return true, err
		}
	}
	one, err := s.local.named(t)
	if err != nil {
		return true, err
	}
	if one == nil {
		c, ok := s.local.certificate(t.ID)
		return ok, expired(&c)
	}
	gone, err := s.local.close(one, s.clock.look(), s.cfg.Clock())
	if err == nil {
		s.tellGone([]localGone{gone})
	}
	return true, err
}

// expire ends the local sessions that are due (L3).
func (s *localService) expire(now time.Duration) {
	s.tellGone(s.local.expire(now, s.clock.stalls.stalled(), s.cfg.Clock()))
}

// changed tells Config.LocalChanged of a change.
func (s *localService) changed(c session.Change) {
	if s.cfg.LocalChanged != nil {
		s.cfg.LocalChanged(c)
	}
}

// tellGone tells connections of the local sessions that have ended; after that each connection forgets its own.
func (s *localService) tellGone(all []localGone) {
	ended := make(endings)
	for _, gone := range all {
		s.changed(session.Change{Kind: session.Ended, Session: gone.facts, Certificate: gone.certificate})
		s.expiries.tell(gone.conn, &gone.certificate)
		if to := gone.conn.listener(); to != nil {
			to.Gone(gone.certificate)
			ended[gone.conn] = append(ended[gone.conn], gone.certificate.ID)
		}
	}
	ended.forget()
}
