package learner

import (
	"context"
	"fmt"

	"holdfast/session"
)

// maxDeathScan bounds the certificates that one page of deaths examines.
const maxDeathScan = 20_000

// Explain returns a session with the facts that keep it alive (E1 full timeout after a change of leader). It reads as
// Find does.
func (s *Server) Explain(ctx context.Context, id session.ID, seen uint64) (session.Session, session.Vigil, error) {
	return s.reads.explain(ctx, id, seen)
}

// explain implements [Server.Explain].
func (r *reader) explain(ctx context.Context, id session.ID, seen uint64) (session.Session, session.Vigil, error) {
	none := session.Session{}
	if one, v, ok := r.local.Explain(id, r.clock.checkedNow(), r.clock.stalls.stalled()); ok && r.local.Decides(id) {
		return one, v, nil
	}
	if c, ok := r.local.Certificate(id); ok {
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

// Deaths returns one page of certificates, the newest end first.
func (s *Server) Deaths(ctx context.Context, q session.DeathQuery) (session.DeathPage, error) {
	return s.reads.deaths(ctx, q)
}

func (r *reader) deaths(ctx context.Context, q session.DeathQuery) (session.DeathPage, error) {
	if q.Filter.Local {
		return r.local.Deaths(q), nil
	}
	if err := r.wait.seen(ctx, q.Seen); err != nil {
		return session.DeathPage{}, err
	}
	if _, err := r.sync(ctx, nil); err != nil {
		return session.DeathPage{}, err
	}
	scan := deathScan{query: &q}
	oldest := r.view.Deaths(q.Before, scan.at)
	scan.page.Forgotten = scan.page.Next == 0 && oldest > 1
	return scan.page, nil
}

// deathScan collects one page of deaths.
type deathScan struct {
	query   *session.DeathQuery
	scanned int
	// last is the number of the last certificate examined.
	last uint64
	page session.DeathPage
}

// at examines one certificate, and reports whether the page continues.
func (l *deathScan) at(number uint64, c *session.Certificate) bool {
	if len(l.page.Certificates) == l.query.Size || l.scanned == maxDeathScan {
		l.page.Next = l.last
		return false
	}
	l.scanned, l.last = l.scanned+1, number
	if l.query.Filter.Match(c) {
		l.page.Certificates, l.page.Numbers = append(l.page.Certificates, *c), append(l.page.Numbers, number)
	}
	return true
}

// Kill ends sessions for an operator: this node's local sessions here, the others through the leader. The operator gets
// the outcome of a session once this node has applied its end (N4 seen index).
func (s *Server) Kill(ctx context.Context, r session.KillRequest) ([]session.Killed, error) {
	if s.modeFacts.stopping.Load() {
		return nil, session.ErrStopping
	}
	killed := make([]session.Killed, len(r.IDs))
	global := session.KillRequest{By: r.By, Why: r.Why}
	var at []int
	for i, id := range r.IDs {
		here, err := s.locals.Kill(id, &r)
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
