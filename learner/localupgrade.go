package learner

import (
	"context"
	"fmt"
	"time"

	"holdfast/session"
)

// flight is the upgrade of one local session, for all clients that ask for it while it is under way (L8).
type flight struct {
	request session.UpgradeRequest
	// begun is the moment of its beginning. Promises rest on it until the upgrade is applied, because the log cannot
	// have known the session earlier.
	begun time.Duration
	// landed is closed once the outcome is known, after err was set. A nil err says that the session is global, or was.
	landed chan struct{}
	err    error
}

// land tells all who wait for the flight its outcome.
func (f *flight) land(err error) {
	f.err = err
	close(f.landed)
}

// wait waits for a flight to land. The error says why the session is not global, or that the outcome is unknown.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.landed:
		return f.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err())
	}
}

// lift touches the session of a token at now and begins its upgrade, or returns the upgrade under way; begun says
// which. It returns nil without an error when the session is not here. The session does not expire from lift until
// refuse or the end of the upgrade.
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

// refuse ends a flight that certainly changed nothing and never will. The session is local as before, with the deadline
// that touches have given it meanwhile.
func (l *Local) refuse(f *flight, why error, now time.Duration) {
	l.mu.Lock()
	if s := l.serving[f.request.ID]; s != nil && s.flight == f {
		s.flight = nil
		l.queue.Return(s.item, max(s.item.Deadline(), now))
	}
	l.mu.Unlock()
	f.land(why)
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

// lifted returns the sessions whose upgrade is under way.
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

// connOf returns the connection that serves a session, nil when the session is not here.
func (l *Local) connOf(id session.ID) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.serving[id]; s != nil {
		return s.conn
	}
	return nil
}

// handOver calls serve, which begins to serve a session elsewhere, and then takes the session out; why is the refusal
// of later requests for it. Both happen under one lock, so the session is always found in one of the two places. It
// returns false when conn does not serve the session.
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

// leave stops serving a session that has moved or ended as a global one, and tells its connection. why is the refusal
// of later requests for it.
func (l *Local) leave(ended endings, id session.ID, why error, tell func(session.Events)) {
	for {
		c := l.connOf(id)
		if c == nil {
			return
		}
		if !l.handOver(id, c, why, func(*local) {}) {
			continue
		}
		if to := c.listener(); to != nil {
			tell(to)
			ended[c] = append(ended[c], id)
		}
		return
	}
}
