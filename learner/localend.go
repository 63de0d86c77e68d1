package learner

import (
	"slices"
	"time"

	"holdfast/session"
)

// localGone is a session that has ended, and the connection that must be told.
type localGone struct {
	facts       session.Session
	certificate session.Certificate
	conn        *connection
}

// close ends s at its client's request. The error says why s is served no longer.
func (l *Local) close(s *local, now time.Duration, wall time.Time) (localGone, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s.over != nil:
		return localGone{}, s.over
	case s.flight != nil:
		return localGone{}, session.ErrClosing // retry once the outcome of the upgrade is known
	}
	return l.end(s, fate{cause: session.CauseClosed}, now, wall), nil
}

// localDue returns when a session comes due: a timeout after its newest touch, later by the credit of the node's stalls
// since (L3, I8).
func localDue(it *session.Item[time.Duration], stalls *session.Stalls) time.Duration {
	return stalls.Due(it.Deadline(), it.Deadline()-it.Value, it.Value)
}

// due is localDue at now, and later when the cluster is or was frozen (Y3). Called with mu held.
func (l *Local) due(it *session.Item[time.Duration], now time.Duration, stalls *session.Stalls) time.Duration {
	due := localDue(it, stalls)
	if heard := l.frost.Heard(now); heard > 0 {
		due = max(due, heard+it.Value)
	}
	return due
}

// thaw takes in at now whether the cluster is frozen, as far as this node has applied it (Y3).
func (l *Local) thaw(t session.LogTime, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frost.Look(t, t.Running(), now)
}

// expire ends the sessions that are due at now.
func (l *Local) expire(now time.Duration, stalls *session.Stalls, wall time.Time) []localGone {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := func(it *session.Item[time.Duration]) time.Duration { return l.due(it, now, stalls) }
	if l.queue.Sift(now, due) == 0 && l.queue.Due() == 0 {
		return nil
	}
	var over []*local
	l.queue.Take(now, func(it *session.Item[time.Duration]) (time.Duration, session.Verdict) {
		at := due(it)
		if at <= now {
			over = append(over, l.serving[it.ID()])
		}
		return at, session.Pop
	})
	gone := make([]localGone, len(over))
	for i, s := range over {
		at := due(s.item)
		gone[i] = l.end(s, fate{
			cause: session.CauseExpired, late: max(now-at, 0),
			credit: max(localDue(s.item, stalls)-s.item.Deadline(), 0),
		}, now, wall)
	}
	l.expired += uint64(len(gone))
	return gone
}

// fate is how a session ends, as its certificate tells it.
type fate struct {
	cause        session.Cause
	late, credit time.Duration
	by, why      string
}

// end ends s and remembers its certificate. Called with mu held.
func (l *Local) end(s *local, f fate, now time.Duration, wall time.Time) localGone {
	c := session.Certificate{
		ID: s.facts.ID, Cause: f.cause, LastTouchAge: max(now-s.last, 0), Owner: l.node,
		EndedAt: wall.Truncate(time.Millisecond),
		Story: session.Story{
			Timeout: s.facts.Timeout, OpenedAt: s.facts.OpenedAt, Labels: s.facts.Labels,
			Late: f.late, Credit: f.credit, By: f.by, Why: f.why,
		},
	}
	s.over = expired(&c)
	l.drop(s)
	l.ended[c.ID] = c
	return localGone{s.facts, c, s.conn}
}

// remember puts s into the ring, in place of the oldest session once the ring is full. Called with mu held.
func (l *Local) remember(s *local) {
	one := past{s.facts.ID, s.request}
	if len(l.ring) < localCertificates {
		l.ring = append(l.ring, one)
		return
	}
	first := l.ring[l.oldest]
	delete(l.requests, first.request)
	delete(l.ended, first.id)
	l.ring[l.oldest] = one
	l.oldest = (l.oldest + 1) % localCertificates
}

// drop takes s out and remembers that it was here. Called with mu held.
func (l *Local) drop(s *local) {
	l.remember(s)
	l.queue.Remove(s.facts.ID)
	delete(l.serving, s.facts.ID)
	l.usage.Sessions--
	l.usage.Bytes -= s.cost()
	if len(l.order) > 2*len(l.serving)+1024 {
		l.order = slices.DeleteFunc(l.order, func(id session.ID) bool { return l.serving[id] == nil })
	}
}

// certificate returns how a session ended, false when the node does not know.
func (l *Local) certificate(id session.ID) (session.Certificate, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.ended[id]
	return c, ok
}
