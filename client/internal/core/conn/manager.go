package conn

import (
	"slices"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/tree"
)

// Config describes how a client uses connections.
type Config struct {
	// Servers are tried in random order.
	Servers []string
	// ConnectTimeout bounds an attempt to connect. HedgeDelay is the wait before a parallel attempt starts.
	ConnectTimeout, HedgeDelay time.Duration
	// ReadOnly lets the client stay at a read-only node (N5 read-write nodes first).
	ReadOnly bool
	// OnlyServers keeps the client from addresses that are not in Servers.
	OnlyServers bool
	// ResolveNames has host names resolved.
	ResolveNames bool
	// Jitter is the source of randomness.
	Jitter *route.Jitter
	// Spread, when set, sorts servers so that the connections of a pool use different servers.
	Spread func(servers []string)
}

// Manager holds the connections of a client. Not safe for concurrent use.
type Manager struct {
	// Effects of the present turn.
	Effects Effects

	cfg         Config
	needs       Needs
	handler     Handler
	now         time.Time
	suspensions uint64

	current   *Conn // serves the sessions
	candidate *Conn // becomes current when its node has served a request
	// dialing are not up yet. The first that comes up becomes the candidate.
	dialing []*Conn

	router  route.Router
	lag     route.Lag
	failure route.Failure // why connections and nodes have failed since a node served
	// adoptedAt is when the current connection became that. brief counts those that the client has left at once, in a
	// row.
	adoptedAt time.Time
	brief     int
	// stayed: a move has ended at the connection where it began, and requests of the former candidate have to be queued
	// again.
	stayed bool
	// askMembersAt is when the client asks for the members of the cluster; zero for never. membersKnown: a node has
	// answered that.
	askMembersAt time.Time
	membersKnown bool
	// distrusted is an index that every node was behind. Resumes demand no index until a higher one is seen.
	distrusted uint64
}

// New returns a manager without connections. SetUser must follow.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg}
	m.router.Servers, m.router.Spread, m.router.Fresh = slices.Clone(cfg.Servers), cfg.Spread, true
	return m
}

// SetUser sets the users of the connections.
func (m *Manager) SetUser(n Needs, h Handler) { m.needs, m.handler = n, h }

// SetTime sets the time of the present turn. suspensions counts those of the machine that were noticed.
func (m *Manager) SetTime(now time.Time, suspensions uint64) { m.now, m.suspensions = now, suspensions }

// Now returns the time of the present turn.
func (m *Manager) Now() time.Time { return m.now }

// Suspensions counts the suspensions of the machine that were noticed.
func (m *Manager) Suspensions() uint64 { return m.suspensions }

// Current returns the connection that serves the sessions; nil for none.
func (m *Manager) Current() *Conn { return m.current }

// Candidate returns the connection that may replace the current connection; nil for none.
func (m *Manager) Candidate() *Conn { return m.candidate }

// InUse returns the current connection and the candidate, if they exist.
func (m *Manager) InUse() []*Conn {
	return slices.DeleteFunc([]*Conn{m.current, m.candidate}, func(c *Conn) bool { return c == nil })
}

// Knows reports whether the manager has not dropped c.
func (m *Manager) Knows(c *Conn) bool {
	return c == m.current || c == m.candidate || slices.Contains(m.dialing, c)
}

// Advance does all due work: it starts or continues a move, checks the connections for silence, and dials.
func (m *Manager) Advance() {
	if m.needs.Idle() {
		m.keep()
	} else {
		if m.stayed && m.current != nil {
			m.handler.ResumeSessions()
			m.handler.SendOpens()
		}
		m.stopSearchAtReadOnly()
		m.checkConns()
		m.dialNext()
		m.askMembers()
	}
	m.stayed = false
}

// keep keeps the current connection, if any, for the next need.
func (m *Manager) keep() {
	m.endMove()
	switch {
	case m.current == nil:
	case m.current.dismissed():
		m.drop(m.current, nil)
	default:
		m.current.failing = nil // the next need tries another node again
	}
}

// WakeAt returns when the manager has something to do if no input comes; zero for never.
func (m *Manager) WakeAt() time.Time {
	at := m.membersDueAt()
	if m.candidate == nil {
		at = route.Earliest(at, route.Earliest(m.router.WakesAt(len(m.dialing)), m.roundEndsAt()))
	}
	for _, c := range m.dialing {
		at = route.Earliest(at, c.deadline)
	}
	for _, c := range [...]*Conn{m.current, m.candidate} {
		if c != nil {
			at = route.Earliest(at, c.deadline)
			at = route.Earliest(at, c.Window.DueAt())
			at = route.Earliest(at, c.Touches.Due())
		}
	}
	if m.current != nil && !m.needs.Idle() { // an idle client stays with its node, so a wake-up would be useless
		at = route.Earliest(at, route.Earliest(m.current.probeAt(), m.current.stallsAt()))
	}
	return at
}

// Shut closes all connections.
func (m *Manager) Shut() {
	for _, c := range append(slices.Clone(m.dialing), m.current, m.candidate) {
		if c != nil {
			m.do(c, HangUp)
		}
	}
	m.dialing, m.current, m.candidate = nil, nil, nil
}

// Bound returns the given part of the smallest timeout, at most limit.
func (m *Manager) Bound(part, limit time.Duration) time.Duration {
	if timeout := m.needs.Held().Timeout; timeout > 0 {
		return min(limit, timeout/part)
	}
	return limit
}

// RecordStamp records a stamp of the tree that a node has reported.
func (m *Manager) RecordStamp(s tree.Stamp) { m.Effects.Known.Stamp = max(m.Effects.Known.Stamp, s) }

// Stamp returns the highest stamp of the tree that a node has reported.
func (m *Manager) Stamp() tree.Stamp { return m.Effects.Known.Stamp }

// newConn returns a connection to dial.
func (m *Manager) newConn(t route.Target, within time.Duration) *Conn {
	return &Conn{Target: t, Window: window.New(), dialed: m.now, deadline: m.now.Add(within)}
}
