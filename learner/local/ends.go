package local

import (
	"slices"
	"time"

	"holdfast/session"
)

// Ended is an ended session, with the connection to notify.
type Ended struct {
	Session     session.Session
	Certificate session.Certificate
	Conn        Conn
}

// Close ends s at its client's request. The error says why s is no longer served.
func (t *Table) Close(s *Session, now time.Duration, wall time.Time) (Ended, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case s.over != nil:
		return Ended{}, s.over
	case s.upgrade != nil:
		return Ended{}, session.ErrClosing // the client retries once the outcome of the upgrade is known
	}
	return t.end(s, fate{cause: session.CauseClosed}, now, wall), nil
}

// Kill ends a session for an operator. here is false when the session is not here, and the log decides about it.
func (t *Table) Kill(id session.ID, r *session.KillRequest, now time.Duration,
	wall time.Time,
) (one Ended, here bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.ended[id]; ok {
		return Ended{}, true, expired(&c)
	}
	s := t.serving[id]
	switch {
	case s == nil:
		return Ended{}, false, nil
	case s.upgrade != nil:
		return Ended{}, true, session.ErrClosing // the log will soon decide which kind of session it is
	}
	return t.end(s, fate{cause: session.CauseKilled, by: r.By, why: r.Why}, now, wall), true, nil
}

// dueWithStalls returns the time when a session comes due: a timeout after its newest touch, plus the credit of the
// node's stalls since (L3; I8, a sick server kills nobody).
func dueWithStalls(it *session.Item[time.Duration], stalls *session.Stalls) time.Duration {
	return stalls.Due(it.Deadline(), it.Deadline()-it.Value, it.Value)
}

// due is dueWithStalls at now, postponed if the cluster is or was frozen (Y3). Called with mu held.
func (t *Table) due(it *session.Item[time.Duration], now time.Duration, stalls *session.Stalls) time.Duration {
	due := dueWithStalls(it, stalls)
	if fullFrom := t.freezes.FullTimeoutFrom(now); fullFrom > 0 {
		due = max(due, fullFrom+it.Value)
	}
	return due
}

// RecordLogTime records at now whether the cluster is frozen, according to the applied log (Y3 freeze).
func (t *Table) RecordLogTime(at session.LogTime, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.freezes.Update(at, at.Running(), now)
}

// Expire ends the sessions that are due at now.
func (t *Table) Expire(now time.Duration, stalls *session.Stalls, wall time.Time) []Ended {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := func(it *session.Item[time.Duration]) time.Duration { return t.due(it, now, stalls) }
	if t.queue.Sift(now, due) == 0 && t.queue.Due() == 0 {
		return nil
	}
	var over []*Session
	t.queue.Take(now, func(it *session.Item[time.Duration]) (time.Duration, session.Verdict) {
		at := due(it)
		if at <= now {
			over = append(over, t.serving[it.ID()])
		}
		return at, session.Pop
	})
	all := make([]Ended, len(over))
	for i, s := range over {
		at := due(s.item)
		all[i] = t.end(s, fate{
			cause: session.CauseExpired, late: max(now-at, 0),
			credit: max(dueWithStalls(s.item, stalls)-s.item.Deadline(), 0),
		}, now, wall)
	}
	t.expired += uint64(len(all))
	return all
}

// fate is the cause of a session's end, for its certificate.
type fate struct {
	cause        session.Cause
	late, credit time.Duration
	by, why      string
}

// end ends s and remembers its certificate. Called with mu held.
func (t *Table) end(s *Session, f fate, now time.Duration, wall time.Time) Ended {
	c := session.Certificate{
		ID: s.facts.ID, Cause: f.cause, LastTouchAge: max(now-s.last, 0), Owner: t.node,
		EndedAt: wall.Truncate(time.Millisecond),
		Story: session.Story{
			Spec: s.facts.Spec, OpenedAt: s.facts.OpenedAt,
			Late: f.late, Credit: f.credit, By: f.by, Why: f.why,
		},
	}
	s.over = expired(&c)
	t.drop(s)
	t.ended[c.ID] = c
	return Ended{s.facts, c, s.conn}
}

// remember adds s to the ring, and replaces the oldest session once the ring is full. Called with mu held.
func (t *Table) remember(s *Session) {
	one := former{s.facts.ID, s.request}
	if len(t.ring) < rememberedEnds {
		t.ring = append(t.ring, one)
		return
	}
	first := t.ring[t.oldest]
	delete(t.requests, first.request)
	delete(t.ended, first.id)
	t.ring[t.oldest] = one
	t.oldest = (t.oldest + 1) % rememberedEnds
}

// drop removes s and remembers that it was here. Called with mu held.
func (t *Table) drop(s *Session) {
	t.remember(s)
	t.queue.Remove(s.facts.ID)
	delete(t.serving, s.facts.ID)
	t.usage.Sessions--
	t.usage.Bytes -= s.cost()
	if len(t.order) > 2*len(t.serving)+1024 {
		t.order = slices.DeleteFunc(t.order, func(id session.ID) bool { return t.serving[id] == nil })
	}
}

// Certificate returns a session's certificate; false when the node has none.
func (t *Table) Certificate(id session.ID) (session.Certificate, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.ended[id]
	return c, ok
}

// Deaths returns one page of the certificates of local sessions. Their numbers count backwards from the newest entry of
// the ring, so sessions that end between two pages may repeat a certificate.
func (t *Table) Deaths(q session.DeathQuery) (page session.DeathPage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.ring)
	last := uint64(0)
	for back := max(int(min(q.Before, rememberedEnds)), 0); back < n; back++ {
		c, ok := t.ended[t.ring[(t.oldest+n-1-back)%n].id]
		if !ok {
			continue // the session became global
		}
		if len(page.Certificates) == q.Size {
			page.Next = last
			return page
		}
		last = uint64(back) + 1
		if q.Filter.Match(&c) {
			page.Certificates, page.Numbers = append(page.Certificates, c), append(page.Numbers, last)
		}
	}
	page.Forgotten = n == rememberedEnds
	return page
}
