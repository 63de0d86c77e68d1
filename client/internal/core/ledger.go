package core

import (
	"errors"
	"math"
	"slices"
	"time"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// Config says how a client behaves.
type Config struct {
	// Instance names the client to the cluster (M1).
	Instance uint64
	// Servers are tried, in random order.
	Servers []string
	// ConnectTimeout and HedgeDelay bound an attempt to connect, and the wait for the next one beside it.
	ConnectTimeout, HedgeDelay time.Duration
	// ReadOnly allows the connection to stay at a read-only node (N5).
	ReadOnly bool
	// FailInFlight answers callers with [session.ErrOutcomeUnknown] when the answer to their request cannot come any
	// more.
	FailInFlight bool
	// OnlyServers has the client go to no address that it was not configured with.
	OnlyServers bool
	// ResolveNames has host names looked up.
	ResolveNames bool
	// Jitter draws what is random.
	Jitter *route.Jitter
	// Spread, when set, sorts servers so that the connections of a pool come to different ones.
	Spread func(servers []string)
}

// ledger holds the sessions, the callers that wait, and the two connections that sessions and callers are on: cur, the
// present one, and next, the candidate that may replace it.
type ledger struct {
	cfg         Config
	effects     Effects
	now         time.Time
	suspensions uint64
	sessions    map[session.ID]*Session
	opens       map[*Call]struct{} // not answered yet
	// dueAt is at or before the next moment at which a session lapses or its promise is half used up; zero for none.
	dueAt time.Time
	cur   *Conn // serves the sessions
	next  *Conn // the candidate, which becomes cur when it has served something
	// attempts numbers the resumes of all sessions (M1). It rises for each session, also for one that was dropped and
	// is resumed again.
	attempts uint64
	// forest is what there is to do with the tree; nil before its first use.
	forest *forest
	// cluster is the identity of the cluster that the seen index and stamp and the watches are of; 0 until a node has told
	// one. See clusterIs.
	cluster uint64
	// distrusted is an index that every node was behind. Resumes demand no index until a higher one is seen. See
	// endLagRound.
	distrusted uint64
}

// holds reports whether the client still holds h.
func (l *ledger) holds(h *Session) bool { return l.sessions[h.id] == h }

// emit moves the session's state on, and adds the event that its reader gets.
func (l *ledger) emit(h *Session, t trigger, err error) {
	from := h.state
	h.state = sessionStates()[from][t]
	e := Event{
		Session: h, Kind: t.kind(), From: from, To: h.state, At: l.now, Node: h.owner, SafeUntil: h.until, Err: err,
	}
	if h.on != nil {
		e.Address = h.on.Address
	} else if h.state == StateConnectedReadOnly && l.cur != nil {
		e.Address = l.cur.Address
	}
	l.effects.Events = append(l.effects.Events, e)
}

// end drops a session, and answers every caller that waits for it. A session that has ended already stays as it is: a
// candidate that refuses it may have become the present connection by that, and the caller that closed it through the
// former one may have been told that the outcome is unknown.
func (l *ledger) end(h *Session, err error) {
	if !l.holds(h) {
		return
	}
	delete(l.sessions, h.id)
	h.resuming, h.until = nil, time.Time{}
	l.emit(h, ending(err), err)
	h.err, h.on = err, nil
	l.endBranch(h, err)
	l.effects.Ended = append(l.effects.Ended, Ended{h, err})
	for _, c := range h.closing {
		l.effects.settle(c, nil, err)
	}
	for _, c := range h.upgrading {
		l.effects.settle(c, nil, err)
	}
	if h.joining != nil {
		delete(l.opens, h.joining)
		l.effects.settle(h.joining, nil, err)
	}
}

// closed ends a session as a caller wished. It answers the callers after the end, so they find the last event and the
// error of the session.
func (l *ledger) closed(h *Session) {
	closing := h.closing
	h.closing = nil
	l.end(h, session.ErrClosed)
	for _, c := range closing {
		l.effects.settle(c, nil, nil)
	}
}

// expired ends a session because the cluster says so. When this client sent a close and the certificate says closed,
// the close took effect and its answer was lost: then the session ends as wished. Not so if another process had the
// session last: that one has taken it over and closed it (I4).
func (l *ledger) expired(h *Session, err error) {
	e := &session.ExpiredError{ID: h.id}
	if known, ok := errors.AsType[*session.ExpiredError](err); ok {
		e.Certificate = known.Certificate
		if h.token.Local { // the log has forgotten the end of a global session, so no node can tell more
			e.LocalTo = known.LocalTo
		}
	}
	if cert := e.Certificate; h.closeSent && cert != nil && cert.Cause == session.CauseClosed {
		if by := cert.Left.Instance; by == 0 || by == l.cfg.Instance {
			l.closed(h)
			return
		}
	}
	l.end(h, e)
}

// giveUp answers a caller that does not wait any longer, and drops the session that nobody waits for now.
func (l *ledger) giveUp(c *Call, err error) {
	if c.settled {
		return
	}
	delete(l.opens, c)
	c.settled = true // a caller that gives up is not told that the session has ended
	switch h := c.h; {
	case h == nil:
	case c.upgrades:
		h.upgrading = slices.DeleteFunc(h.upgrading, func(other *Call) bool { return other == c })
	case c.closes:
		h.closing = slices.DeleteFunc(h.closing, func(other *Call) bool { return other == c })
		if len(h.closing) == 0 {
			l.abandon(h, err)
		}
	default:
		l.abandon(h, err)
	}
	if c.inner {
		c.last = err
		return
	}
	l.effects.Answers = append(l.effects.Answers, Answer{Call: c, Err: err})
}

// abandon drops a session that nobody waits for any more. A node may serve it, now or soon, so touches name their
// sessions from now on. A session that an open brought is closed, unless another process has resumed it since: the
// token names that process's attachment then (see takeOver).
func (l *ledger) abandon(h *Session, err error) {
	for _, c := range []*Conn{l.cur, l.next} {
		if c != nil {
			c.stray = true
		}
	}
	opened := h.joining != nil && h.joining.Want.Timeout != 0 && h.contested == 0
	if opened && l.cur != nil {
		l.cur.window.Push(&discardBody{h.token})
	}
	if len(h.closing) == 0 && h.joining == nil {
		err = session.ErrClosed
	}
	l.end(h, err)
}

// unknown answers a caller with ErrOutcomeUnknown, when the client is configured to do so.
func (l *ledger) unknown(c *Call) {
	if c != nil && l.cfg.FailInFlight {
		l.giveUp(c, session.ErrOutcomeUnknown)
	}
}

// refused notes why callers wait on, and answers those that want to know that the outcome is unknown.
func (l *ledger) refused(callers []*Call, err error) {
	for _, call := range slices.Clone(callers) {
		call.last = err
		if errors.Is(err, session.ErrOutcomeUnknown) {
			l.unknown(call)
		}
	}
}

// readOnly reports whether the node of c is read-only, and the client may stay there.
func (l *ledger) readOnly(c *Conn) bool {
	return l.cfg.ReadOnly && c != nil && c.state.Mode == session.ModeReadOnly
}

// takesWrites reports whether there is a present connection, to a node that is not known to be read-only.
func (l *ledger) takesWrites() bool { return l.cur != nil && !l.readOnly(l.cur) }

// locals reports whether the client holds a local session, and whether it holds no other.
func (l *ledger) locals() (local, all bool) {
	all = len(l.sessions) > 0
	for _, h := range l.sessions {
		is := h.token.Local && h.joining == nil // a session that is being joined may live anywhere
		local, all = local || is, all && is
	}
	return local, all
}

// allLocal reports whether no session that is held or being joined is global.
func (l *ledger) allLocal() bool {
	for _, h := range l.sessions {
		if !h.token.Local {
			return false
		}
	}
	return true
}

// needsNoLeader reports whether all sessions that are held, being joined or being opened are local.
func (l *ledger) needsNoLeader() bool {
	for call := range l.opens {
		if call.h == nil && !call.Want.Local {
			return false
		}
	}
	return l.allLocal()
}

// bound returns the given part of the smallest timeout, at most limit.
func (l *ledger) bound(part, limit time.Duration) time.Duration {
	for _, h := range l.sessions {
		if h.timeout > 0 {
			limit = min(limit, h.timeout/part)
		}
	}
	return limit
}

// backoff returns the n-th wait in a row: below a sixth of the smallest timeout, so that a client which was refused for
// long has time for several more attempts once a node serves it again. Without this a client of 4 s, after an election
// of 3 s, waits up to 2 s for its next attempt, and as long again if that one came a moment too soon.
func (l *ledger) backoff(n int) time.Duration {
	return l.cfg.Jitter.BackoffBelow(n, l.bound(connectPart, math.MaxInt64))
}

// demand returns the index that the node which serves a resume must have applied (N4), 0 for none.
func (l *ledger) demand() uint64 {
	if index := l.effects.Seen; index != l.distrusted {
		return index
	}
	return 0
}

// idle reports whether nothing needs a connection.
func (l *ledger) idle() bool {
	return len(l.sessions) == 0 && len(l.opens) == 0 && !l.forest.needsNode()
}
