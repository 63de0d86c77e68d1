package learner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/session"
)

// maxDeathScan bounds the certificates that one page of deaths looks at.
const maxDeathScan = 20_000

// Explain says what keeps a session alive (E1). It reads as Find does.
func (s *Server) Explain(ctx context.Context, id session.ID, seen uint64) (session.Session, session.Vigil, error) {
	return s.reads.explain(ctx, id, seen)
}

// explain is [Server.Explain].
func (r *reader) explain(ctx context.Context, id session.ID, seen uint64) (session.Session, session.Vigil, error) {
	none := session.Session{}
	if one, v, ok := r.local.explain(id, r.clock.look(), r.clock.stalls.stalled()); ok && r.local.decides(id) {
		return one, v, nil
	}
	if c, ok := r.local.certificate(id); ok {
		return none, session.Vigil{}, expired(&c)
	}
	if err := r.wait.seen(ctx, seen); err != nil {
		return none, session.Vigil{}, err
	}
	reply, err := r.upstream.ask(ctx, session.Request{Explain: id})
	switch {
	case err != nil:
		return none, session.Vigil{}, r.registry.explain(ctx, reply, err, session.Token{ID: id, Local: true})
	case reply.Vigil == nil:
		return none, session.Vigil{}, fmt.Errorf("%w: an explanation of session %v without a vigil", errProtocol, id)
	}
	if err := r.wait.index(ctx, reply.Index); err != nil {
		return none, session.Vigil{}, err
	}
	one, ok := r.view.Session(id)
	if !ok {
		return none, session.Vigil{}, r.registry.gone(id)
	}
	return one, *reply.Vigil, nil
}

// explain says what keeps a session alive, false when the session is not here.
func (l *Local) explain(id session.ID, now time.Duration,
	stalls *session.Stalls,
) (session.Session, session.Vigil, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.serving[id]
	if s == nil {
		return session.Session{}, session.Vigil{}, false
	}
	return s.facts, session.Vigil{
		Remaining: l.remaining(s, now, stalls), LastTouchAge: max(now-s.last, 0), VouchedAge: -1,
		Credit: localDue(s.item, stalls) - s.item.Deadline(), Frozen: l.frost.Left(now),
	}, true
}

// Deaths returns one page of certificates, the newest end first.
func (s *Server) Deaths(ctx context.Context, q session.DeathQuery) (session.DeathPage, error) {
	return s.reads.deaths(ctx, q)
}

func (r *reader) deaths(ctx context.Context, q session.DeathQuery) (session.DeathPage, error) {
	if q.Filter.Local {
		return r.local.deaths(q), nil
	}
	if err := r.wait.seen(ctx, q.Seen); err != nil {
		return session.DeathPage{}, err
	}
	if _, err := r.sync(ctx, nil); err != nil {
		return session.DeathPage{}, err
	}
	look := deathLook{query: &q}
	oldest := r.view.Deaths(q.Before, look.at)
	look.page.Forgotten = look.page.Next == 0 && oldest > 1
	return look.page, nil
}

// deathLook gathers one page of deaths.
type deathLook struct {
	query  *session.DeathQuery
	looked int
	// last is the number looked at last.
	last uint64
	page session.DeathPage
}

// at looks at one certificate, and reports whether the page goes on.
func (l *deathLook) at(number uint64, c *session.Certificate) bool {
	if len(l.page.Certificates) == l.query.Size || l.looked == maxDeathScan {
		l.page.Next = l.last
		return false
	}
	l.looked, l.last = l.looked+1, number
	if l.query.Filter.Match(c) {
		l.page.Certificates, l.page.Numbers = append(l.page.Certificates, *c), append(l.page.Numbers, number)
	}
	return true
}

// deaths returns one page of the certificates of local sessions. Their numbers count the places of the ring backwards
// from the newest, so sessions that end between two pages may show a certificate twice.
func (l *Local) deaths(q session.DeathQuery) session.DeathPage {
	l.mu.Lock()
	defer l.mu.Unlock()
	look := deathLook{query: &q}
	n := len(l.ring)
	for back := max(int(min(q.Before, localCertificates)), 0); back < n; back++ {
		c, ok := l.ended[l.ring[(l.oldest+n-1-back)%n].id]
		if !ok {
			continue // it became global
		}
		if !look.at(uint64(back)+1, &c) {
			return look.page
		}
	}
	look.page.Forgotten = n == localCertificates
	return look.page
}

// Kill ends sessions for an operator: the local ones of this node here, the others through the leader. The operator is
// told of an end once this node has applied it (N4).
func (s *Server) Kill(ctx context.Context, r session.KillRequest) ([]session.Killed, error) {
	if s.standing.stopping.Load() {
		return nil, session.ErrStopping
	}
	killed := make([]session.Killed, len(r.IDs))
	global := session.KillRequest{By: r.By, Why: r.Why}
	var at []int
	for i, id := range r.IDs {
		here, err := s.locals.kill(id, &r)
		if killed[i].Err = err; !here {
			global.IDs, at = append(global.IDs, id), append(at, i)
		}
	}
	if len(at) == 0 {
		return killed, nil
	}
	outcomes, err := s.killGlobal(ctx, &global)
	if err != nil && len(at) == len(r.IDs) {
		return nil, err
	}
	for n, i := range at {
		if err != nil {
			killed[i].Err = err
		} else {
			killed[i] = outcomes[n]
		}
	}
	return killed, nil
}

// killGlobal ends sessions through the leader.
func (s *Server) killGlobal(ctx context.Context, r *session.KillRequest) ([]session.Killed, error) {
	reply, err := s.upstream.ask(ctx, session.Request{Kill: r})
	switch {
	case err != nil:
		return nil, err
	case len(reply.Moved) != len(r.IDs):
		return nil, fmt.Errorf("%w: %w: %d outcomes of %d kills", session.ErrOutcomeUnknown, errProtocol,
			len(reply.Moved), len(r.IDs))
	}
	if err := s.wait.index(ctx, reply.Index); err != nil {
		return nil, err
	}
	killed := make([]session.Killed, len(r.IDs))
	for i, one := range reply.Moved {
		if one.Err != nil {
			killed[i].Err = s.registry.explained(one.Err, session.Token{ID: r.IDs[i], Local: true})
			continue
		}
		killed[i].Index = reply.Index
		if c, ok := s.view.Certificate(r.IDs[i]); ok {
			killed[i].Index = c.Index
		}
	}
	return killed, nil
}

// kill ends a local session of this node. here is false when the log decides about the session.
func (s *localService) kill(id session.ID, r *session.KillRequest) (here bool, err error) {
	gone, here, err := s.local.kill(id, r, s.clock.look(), s.cfg.Clock())
	switch {
	case !here:
	case errors.Is(err, session.ErrExpired): // its own certificate says more than a kill that came too late
	case err == nil:
		s.tellGone([]localGone{gone})
	}
	return here, err
}

// kill ends a session for an operator.
func (l *Local) kill(id session.ID, r *session.KillRequest, now time.Duration,
	wall time.Time,
) (localGone, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.ended[id]; ok {
		return localGone{}, true, expired(&c)
	}
	s := l.serving[id]
	switch {
	case s == nil:
		return localGone{}, false, nil
	case s.flight != nil:
		return localGone{}, true, session.ErrClosing // the log decides soon which kind of session it is
	}
	return l.end(s, fate{cause: session.CauseKilled, by: r.By, why: r.Why}, now, wall), true, nil
}
