package session

import (
	"errors"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// Config describes how a client uses sessions.
type Config struct {
	// Instance names the client to the cluster (M1 a resume is a move).
	Instance uint64
	// FailInFlight answers callers with [session.ErrOutcomeUnknown] when the answer to their request can no longer
	// arrive.
	FailInFlight bool
	// Jitter is the source of randomness.
	Jitter *route.Jitter
}

// Tree is what sessions need of the tree.
type Tree interface {
	// Attached reports that a node has begun to serve h.
	Attached(h *Session, g session.Grant)
	// Upgraded reports that an upgrade of h has its outcome.
	Upgraded(h *Session)
	// Ended reports that h has ended because of err.
	Ended(h *Session, err error)
	// Acknowledge adds to a touch on c which results have arrived.
	Acknowledge(c *conn.Conn, touch *holdfastv1.Touch)
	// DeliveredUpTo reports that c has delivered all events up to a stamp.
	DeliveredUpTo(c *conn.Conn, stamp tree.Stamp)
}

// Manager holds the sessions of a client, and the callers that wait for one. Not safe for concurrent use.
type Manager struct {
	// Effects of the present turn.
	Effects Effects

	cfg      Config
	conns    *conn.Manager
	tree     Tree
	sessions map[session.ID]*Session
	opens    map[*Call]struct{} // without an answer
	// dueAt is at or before the next moment at which a promise runs out, or a node has not renewed one; zero for never.
	dueAt time.Time
	// attempts numbers the resumes of all sessions (M1). It rises for each session, also for a session that the client
	// dropped and resumes again.
	attempts uint64
}

var (
	// ErrLapsed means that the last promise of a session ran out.
	ErrLapsed = errors.New("promise has run out: the session may expire")
	// ErrHeld means that the client holds the session already.
	ErrHeld = errors.New("client holds the session already")
	// errOvertaken: an older resume of this client took effect after a newer resume.
	errOvertaken = errors.New("resumed elsewhere by a late request of this client")
)

const (
	// suspensionsEvery is how often a client with sessions checks for a suspension of the machine (S5 suspended
	// machines).
	suspensionsEvery = time.Second
	// MaxDeferrals is how often a candidate may defer the same resume before the client asks another node: the retry
	// times of such a node mean little.
	MaxDeferrals = 3
	// MaxTakeOvers is how often a refused take-over is repeated. Each refusal means that yet another process has
	// resumed the session.
	MaxTakeOvers = 10
)

// New returns a manager without sessions. SetTree must follow.
func New(cfg Config, conns *conn.Manager) *Manager {
	return &Manager{cfg: cfg, conns: conns, sessions: make(map[session.ID]*Session), opens: make(map[*Call]struct{})}
}

// SetTree sets the part of the client that handles the tree.
func (s *Manager) SetTree(t Tree) { s.tree = t }

// Len returns the number of sessions.
func (s *Manager) Len() int { return len(s.sessions) }

// HoldsID reports whether the client holds a session, or a caller is resuming it.
func (s *Manager) HoldsID(id session.ID) bool { return s.sessions[id] != nil }

// Holds reports whether the client still holds h.
func (s *Manager) Holds(h *Session) bool { return s.sessions[h.id] == h }

// Idle reports whether nothing needs a connection.
func (s *Manager) Idle() bool { return len(s.sessions) == 0 && len(s.opens) == 0 }

// Held counts and describes the sessions and the opens.
func (s *Manager) Held() conn.Held {
	held := conn.Held{Sessions: len(s.sessions), Opens: len(s.opens), OnlyLocal: len(s.sessions) > 0}
	for _, h := range s.sessions {
		local := h.token.Local && h.callers.joining == nil // a session that a caller resumes may be at home anywhere
		held.Local, held.OnlyLocal = held.Local || local, held.OnlyLocal && local
		held.Promised = held.Promised || !h.promise.until.IsZero()
		held.Upgrading = held.Upgrading || h.callers.upgradeSent
		held.Timeout = minPositive(held.Timeout, h.timeout)
	}
	return held
}

// Serves reports whether c serves any session.
func (s *Manager) Serves(c *conn.Conn) bool {
	for _, h := range s.sessions {
		if h.attachment.on == c {
			return true
		}
	}
	return false
}

// allLocal reports whether no session that is held or being resumed is global.
func (s *Manager) allLocal() bool {
	for _, h := range s.sessions {
		if !h.token.Local {
			return false
		}
	}
	return true
}

// onlyLocalWanted reports whether all sessions that are held, being resumed or being opened are local.
func (s *Manager) onlyLocalWanted() bool {
	for call := range s.opens {
		if call.h == nil && !call.Want.Local {
			return false
		}
	}
	return s.allLocal()
}

// NeedsLeader reports whether any session or open needs more than the read-only node of c: if it is global, or local
// and not at home there.
func (s *Manager) NeedsLeader(c *conn.Conn) bool {
	for call := range s.opens {
		if call.h == nil && (!call.Want.Local || call.on != c) {
			return true
		}
	}
	for _, h := range s.sessions {
		if !h.token.Local || h.attachment.on != c && !h.resumingOn(c) {
			return true
		}
	}
	return false
}

// WakeAt returns when the manager has something to do if no input comes; zero for never.
func (s *Manager) WakeAt() time.Time {
	if len(s.sessions) == 0 {
		return s.dueAt
	}
	return route.Earliest(s.dueAt, s.conns.Now().Add(suspensionsEvery))
}

// hold begins to hold a session for a caller.
func (s *Manager) hold(call *Call, t session.Token) *Session {
	h := &Session{id: t.ID, token: t, state: StateConnecting, callers: callers{joining: call}}
	h.Handle, call.h = call.Session, h
	s.sessions[t.ID] = h
	return h
}

// emit changes the state of a session, and adds the event for its reader.
func (s *Manager) emit(h *Session, t trigger, err error) {
	from := h.state
	h.state = sessionStates()[from][t]
	e := Event{
		Session: h, Kind: t.kind(), From: from, To: h.state, At: s.conns.Now(), Node: h.owner,
		SafeUntil: h.promise.until, Err: err,
	}
	if on := h.attachment.on; on != nil {
		e.Address = on.Address
	} else if current := s.conns.Current(); h.state == StateConnectedReadOnly && current != nil {
		e.Address = current.Address
	}
	s.Effects.Events = append(s.Effects.Events, e)
}

// end drops a session, and answers every caller that waits for the session. A second end changes nothing: the refusal
// of a candidate may have made the candidate current, and the caller that closed the session may have got its answer
// with the former connection.
func (s *Manager) end(h *Session, err error) {
	if !s.Holds(h) {
		return
	}
	delete(s.sessions, h.id)
	h.attachment.resuming, h.promise.until = nil, time.Time{}
	s.emit(h, ending(err), err)
	h.err, h.attachment.on = err, nil
	s.tree.Ended(h, err)
	s.Effects.Ended = append(s.Effects.Ended, Ended{h, err})
	for _, c := range h.callers.closing {
		s.answer(c, nil, err)
	}
	for _, c := range h.callers.upgrading {
		s.answer(c, nil, err)
	}
	if joining := h.callers.joining; joining != nil {
		delete(s.opens, joining)
		s.answer(joining, nil, err)
	}
}

// closed ends a session as a caller wished. The answers follow the end, so callers find the last event and the error of
// the session.
func (s *Manager) closed(h *Session) {
	closing := h.callers.closing
	h.callers.closing = nil
	s.end(h, session.ErrClosed)
	for _, c := range closing {
		s.answer(c, nil, nil)
	}
}

// expired ends a session because the cluster reports its end. If this client sent a close and the certificate says
// closed, the close took effect and its answer was lost: the session ends as requested. If the last holder was another
// process, this process has taken the session over and closed it: then the session ends with the certificate (I4 one
// owner).
func (s *Manager) expired(h *Session, err error) {
	e := &session.ExpiredError{ID: h.id}
	if known, ok := errors.AsType[*session.ExpiredError](err); ok {
		e.Certificate = known.Certificate
		if h.token.Local { // the log has forgotten the end of a global session, so no node knows more
			e.LocalTo = known.LocalTo
		}
	}
	if cert := e.Certificate; h.callers.closeSent && cert != nil && cert.Cause == session.CauseClosed {
		if by := cert.Left.Instance; by == 0 || by == s.cfg.Instance {
			s.closed(h)
			return
		}
	}
	s.end(h, e)
}

// servedFor records that c served the session of t. A node serves a local session without a leader, so its answer is no
// evidence for other sessions. The answer counts only if all sessions are local, or if there is no better connection.
func (s *Manager) servedFor(c *conn.Conn, t session.Token) {
	if !t.Local || s.onlyLocalWanted() || s.conns.Current() == nil && s.allLocal() {
		s.conns.Served(c)
	}
}

// ServedFor records that c served a request of h.
func (s *Manager) ServedFor(c *conn.Conn, h *Session) { s.servedFor(c, h.token) }

// Shut ends all sessions.
func (s *Manager) Shut() {
	for call := range s.opens {
		s.answer(call, nil, session.ErrClosed)
	}
	for _, h := range s.sessions {
		s.end(h, session.ErrClosed)
	}
	clear(s.opens)
}
