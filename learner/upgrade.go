package learner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/session"
)

// maxFlights is how many upgrades are asked of the leader at once; who asks for more waits.
const maxFlights = 1024

// flight is the upgrade of one local session, for all who ask for it while it is under way (L8).
type flight struct {
	request session.UpgradeRequest
	// begun is when it began: until the upgrade is applied, promises rest on that, because the log has known of the
	// session since then at the earliest.
	begun time.Duration
	// landed is closed when it is known what became of it, after err was set: nil when the session is global, or was.
	landed chan struct{}
	err    error
}

// lift begins the upgrade of the session that a token speaks for, touched at now, or returns the one under way; begun
// says which. It returns nil without an error when the session is not here. From here on the session does not expire,
// until land.
func (l *Local) lift(t session.Token, now time.Duration, since uint64) (f *flight, begun bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.namedBy(t)
	if s == nil {
		return nil, false, err
	}
	s.touch(now)
	if s.flight != nil {
		return s.flight, false, nil
	}
	s.flight = &flight{begun: now, landed: make(chan struct{}), request: session.UpgradeRequest{
		ID: s.facts.ID, Timeout: s.facts.Timeout, Labels: s.facts.Labels, MS: session.MS(s.facts.OpenedAt),
		Instance: s.facts.Instance, Attempt: s.attempt, Since: since,
	}}
	l.queue.Mark(s.item)
	return s.flight, true, nil
}

// refuse ends a flight that certainly changed nothing and never will: the session is local as before, with what touches
// made of its deadline meanwhile.
func (l *Local) refuse(f *flight, why error, now time.Duration) {
	l.mu.Lock()
	if s := l.serving[f.request.ID]; s != nil && s.flight == f {
		s.flight = nil
		l.queue.Return(s.item, max(s.item.Deadline(), now))
	}
	l.mu.Unlock()
	f.land(why)
}

func (f *flight) land(err error) {
	f.err = err
	close(f.landed)
}

// wait waits for a flight to land. Its error says why the session is not global, or that it is not known.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.landed:
		return f.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err())
	}
}

// flightOf returns the upgrade of a session that is under way, nil when there is none.
func (l *Local) flightOf(id session.ID) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.serving[id]; s != nil {
		return s.flight
	}
	return nil
}

// lifted are the sessions whose upgrade is under way.
func (l *Local) lifted() (all []session.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range l.serving {
		if s.flight != nil {
			all = append(all, id)
		}
	}
	return all
}

// connOf returns the connection that serves a session, nil when it is not here.
func (l *Local) connOf(id session.ID) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.serving[id]; s != nil {
		return s.conn
	}
	return nil
}

// handOver takes a session out that conn serves, for a reason, after serve has taken it over: nobody finds it in
// neither place. It returns false when conn does not serve it.
func (l *Local) handOver(id session.ID, conn *connection, why error, serve func(s *local)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.serving[id]
	if s == nil || s.conn != conn {
		return false
	}
	serve(s)
	s.over = why
	l.drop(s)
	return true
}

// Upgrade makes a local session of this node global, and touches it (L7). Of a session that is global already it
// changes nothing. It is what a request calls that needs a global session.
func (c *connection) Upgrade(ctx context.Context, t session.Token) (session.Grant, error) {
	s := c.server
	if err := s.authentic(t); err != nil {
		return session.Grant{}, err
	}
	if s.readOnly() {
		return session.Grant{}, session.ErrReadOnly // also while one is under way, which keeps its own outcome (N2)
	}
	if t.Local {
		if err := s.upgrade(ctx, t); err != nil {
			return session.Grant{}, err
		}
		if t = s.translate(t); t.Local {
			return session.Grant{}, s.notLocal(ctx, t.ID)
		}
	}
	safe, err := c.TouchToken(ctx, t)
	if err != nil {
		return session.Grant{}, err
	}
	now, ok := s.view.Session(t.ID)
	if !ok || now.Attachment != t.Attachment {
		return session.Grant{}, s.notHere(t.ID)
	}
	return session.Grant{Session: now, Token: t, SafeFor: safe}, nil
}

// upgrade returns once the session of a local token is global, or is not here at all.
func (s *Server) upgrade(ctx context.Context, t session.Token) error {
	if !s.cfg.Upgrade && s.local.has(t.ID) {
		return &session.FieldError{
			Field: "token", Limit: "that of a global session while the cluster's setting local_session_upgrade is off",
		}
	}
	f, begun, err := s.local.lift(t, s.look(), s.view.AppliedIndex())
	if f == nil {
		return err
	}
	if begun {
		select {
		case s.flights <- f:
		case <-s.ended:
			s.local.refuse(f, session.ErrStopping, s.look())
		case <-ctx.Done():
			s.local.refuse(f, session.ErrNoLeader, s.look()) // nothing was asked
			return ctx.Err()
		}
	}
	return f.wait(ctx)
}

// fly serves upgrades until ctx ends.
func (s *Server) fly(ctx context.Context) {
	defer close(s.ended)
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, maxFlights)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		select {
		case f := <-s.flights:
			wg.Go(func() {
				defer func() { <-places }()
				s.ascend(ctx, f)
			})
		case <-ctx.Done():
			return
		}
	}
}

// ascend asks the leader for an upgrade until it is known what became of it. Once an outcome is unknown only the log
// decides: the command is asked for again, as it was, and changes nothing if it had taken effect (L7).
func (s *Server) ascend(ctx context.Context, f *flight) {
	unknown := false
	for {
		request := f.request
		reply, err := s.ask(ctx, session.Request{Upgrade: &request})
		switch {
		case err == nil:
			err = s.view.WaitApplied(ctx, reply.Index) // then the session has been handed over
			if err != nil {
				err = fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err)
			}
			f.land(err)
			return
		case errors.Is(err, session.ErrExpired):
			f.land(s.fell(ctx, f, reply.Index))
			return
		case errors.Is(err, session.ErrOutcomeUnknown):
			unknown = true
		case unknown && errors.Is(err,
			session.ErrStopping): // nothing will be asked any more, and who waits keeps the node from stopping
			f.land(fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err))
			return
		case !unknown:
			s.local.refuse(f, err, s.look())
			return
		}
		if !s.pause(ctx) {
			f.land(fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err()))
			return
		}
	}
}

// pause waits for half an interval; false when ctx has ended.
func (s *Server) pause(ctx context.Context) bool {
	timer := time.NewTimer(s.cfg.Interval / 2)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fell ends a session of which the log says that it became global and has ended, or may have. Its error is
// session.ErrOutcomeUnknown, when this node has not applied that: then the session is left as it is.
func (s *Server) fell(ctx context.Context, f *flight, index uint64) error {
	if err := s.view.WaitApplied(ctx, index); err != nil {
		return fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, err)
	}
	id := f.request.ID
	certificate, ok := s.certificate(id)
	if !ok {
		certificate = session.Certificate{ID: id, Owner: s.cfg.Node}
	}
	ended := make(endings)
	s.leave(ended, id, s.gone(id), func(e session.Events) { e.Gone(certificate) })
	ended.forget()
	return nil
}

// promote serves a session as the global one that it has become by an entry, through the connection that served it so
// far (L8). It is called where entries are applied, before anything shows that this one was: no touch falls between the
// two, and no move or end of the session can be applied first.
func (s *Server) promote(granted session.Session) {
	for {
		c := s.local.connOf(granted.ID)
		if c == nil || s.handOver(c, granted) {
			return
		}
	}
}

// handOver is promote for a connection; false when another one serves the session by now.
func (s *Server) handOver(c *connection, granted session.Session) bool {
	tag := s.table.nextTag()
	s.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	var a *attached
	done := s.local.handOver(granted.ID, c, session.ErrMoved, func(one *local) {
		s.local.upgraded++
		confirmed := mark{}
		if one.flight != nil && !s.stalls.suspendedSince(one.flight.begun) {
			confirmed = mark{tag: tag, at: one.flight.begun} // S2: by its commit, as of the request
		}
		a = s.table.promote(granted, one, confirmed)
	})
	if done && c.events != nil {
		delete(c.locals, granted.ID)
		c.sessions[granted.ID] = a
		c.all = nil
	}
	return done
}

// restoreLifted looks at the sessions whose upgrade is under way in the state that a snapshot brought (M4).
func (s *Server) restoreLifted(ended endings) {
	for _, id := range s.local.lifted() {
		now, global := s.view.Session(id)
		certificate, over := s.view.Certificate(id)
		switch {
		case global && now.Owner == s.cfg.Node:
			// Nobody but this node's own clients can have brought it back here, and they wait for the flight.
			s.promote(now)
		case global:
			s.leave(ended, id, session.MovedTo(now), func(e session.Events) {
				e.Moved(id, now.Attachment, now.Instance)
			})
		case over:
			s.leave(ended, id, expired(&certificate), func(e session.Events) { e.Gone(certificate) })
		}
	}
}

// leave stops serving a local session, for a reason, and tells its connection.
func (s *Server) leave(ended endings, id session.ID, why error, tell func(session.Events)) {
	for {
		c := s.local.connOf(id)
		if c == nil {
			return
		}
		if !s.local.handOver(id, c, why, func(*local) {}) {
			continue
		}
		if c.events == nil {
			return
		}
		tell(c.events)
		ended[c] = append(ended[c], id)
		return
	}
}

// upgraded returns the attachment that a local one became when its session did (L5): whoever had the token speaks for
// the same connection as before. It returns nil when the session did not become global from that attachment, or is
// served here no longer.
func (s *Server) upgraded(t session.Token) *attached {
	if a := s.table.find(t.ID); a != nil && t.Local && a.local != 0 && a.local == t.Attachment {
		return a
	}
	return nil
}

// translate returns the token of the attachment that a local one became, else t.
func (s *Server) translate(t session.Token) session.Token {
	if a := s.upgraded(t); a != nil {
		t.Attachment, t.Local = a.attachment, false
	}
	return t
}
