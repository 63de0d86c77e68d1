package core

import (
	"errors"
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
	// ResolveNames has host names looked up.
	ResolveNames bool
	// Jitter draws what is random.
	Jitter *route.Jitter
	// Spread, when set, sorts servers so that the connections of a pool come to different ones.
	Spread func(servers []string)
}

// ledger holds the sessions, the callers that wait, and the connections that both are on.
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
	next  *Conn // is tried, and becomes cur when it has served something
	// attempts numbers the resumes of all sessions (M1). It rises for each session, also for one that was dropped and
	// is resumed again.
	attempts uint64
	// distrusted is the index that every node was behind: while none is higher, resumes go without it. See endLagRound.
	distrusted uint64
}

// holds reports whether h is still held.
func (l *ledger) holds(h *Session) bool { return l.sessions[h.id] == h }

// emit has the session's state follow what happened, and tells its reader.
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

// end lets go of a session and tells everyone who waits for it.
func (l *ledger) end(h *Session, err error) {
	delete(l.sessions, h.id)
	h.resuming, h.until = nil, time.Time{}
	l.emit(h, ending(err), err)
	h.err, h.on = err, nil
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

// closed ends a session as its client wished. Whoever waits for that finds it ended: its last event is there, and Err
// says why.
func (l *ledger) closed(h *Session) {
	closing := h.closing
	h.closing = nil
	l.end(h, session.ErrClosed)
	for _, c := range closing {
		l.effects.settle(c, nil, nil)
	}
}

// expired ends a session as the cluster says. A close that took effect, and whose answer was lost, is one that was
// wished.
func (l *ledger) expired(h *Session, err error) {
	e := &session.ExpiredError{ID: h.id}
	if known, ok := errors.AsType[*session.ExpiredError](err); ok {
		e.Certificate = known.Certificate
		if h.token.Local { // of one that was global the log has forgotten the end: there is nothing to ask a node for
			e.LocalTo = known.LocalTo
		}
	}
	if h.closeSent && e.Certificate != nil && e.Certificate.Cause == session.CauseClosed {
		l.closed(h)
		return
	}
	l.end(h, e)
}

// giveUp answers a caller who waits no longer, and lets go of what nobody waits for.
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
	l.effects.Answers = append(l.effects.Answers, Answer{Call: c, Err: err})
}

// abandon lets go of a session that nobody waits for any more. If a node serves it, or will, touches must leave it out.
// One that an open brought is closed, unless another process has resumed it since: its token names that one's
// attachment then (see takeOver).
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

// unknown answers a caller who wants to know that the outcome of its request will not be heard.
func (l *ledger) unknown(c *Call) {
	if c != nil && l.cfg.FailInFlight {
		l.giveUp(c, session.ErrOutcomeUnknown)
	}
}

// readOnly reports whether c is stayed at as a read-only node.
func (l *ledger) readOnly(c *Conn) bool {
	return l.cfg.ReadOnly && c != nil && c.state.Mode == session.ModeReadOnly
}

// takesWrites reports whether there is a connection to a node that is not known to be read-only.
func (l *ledger) takesWrites() bool { return l.cur != nil && !l.readOnly(l.cur) }

// locals reports whether a local session is held, and whether nothing else is.
func (l *ledger) locals() (local, all bool) {
	all = len(l.sessions) > 0
	for _, h := range l.sessions {
		is := h.token.Local && h.joining == nil // where one lives that is being joined is not known
		local, all = local || is, all && is
	}
	return local, all
}

// allLocal reports whether no global session is held or being joined.
func (l *ledger) allLocal() bool {
	for _, h := range l.sessions {
		if !h.token.Local {
			return false
		}
	}
	return true
}

// needsNoLeader reports whether all that is held, being joined or to be opened is local.
func (l *ledger) needsNoLeader() bool {
	for call := range l.opens {
		if call.h == nil && !call.Want.Local {
			return false
		}
	}
	return l.allLocal()
}

// bound returns a part of the smallest timeout, at most limit.
func (l *ledger) bound(part, limit time.Duration) time.Duration {
	for _, h := range l.sessions {
		if h.timeout > 0 {
			limit = min(limit, h.timeout/part)
		}
	}
	return limit
}

// demand returns what a resume that is sent now may not be older than.
func (l *ledger) demand() uint64 {
	if index := l.effects.Seen; index != l.distrusted {
		return index
	}
	return 0
}

// idle reports that nothing needs a connection.
func (l *ledger) idle() bool { return len(l.sessions) == 0 && len(l.opens) == 0 }
