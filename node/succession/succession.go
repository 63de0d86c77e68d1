package succession

import (
	"time"

	"holdfast/session"
)

const (
	// AnswerTimeout is how long a voter waits for an answer of the leader's address, from the end of the leader's last
	// connection on.
	AnswerTimeout = 150 * time.Millisecond
	// Turn is the head start of each voter over the next one, in the order of their numbers.
	Turn = 20 * time.Millisecond
	// Bond is how long a voter is bound to the voter that it backs.
	Bond = 500 * time.Millisecond
	// Span is the time after the end of a leader in which voters may campaign. Then Raft's timeouts decide.
	Span = time.Second
	// firstRetry and lastRetry are the times between two questions to a voter that refused. Each is twice the one
	// before.
	firstRetry = 10 * time.Millisecond
	lastRetry  = 160 * time.Millisecond
	// probeRetry is the time until the next probe of the leader's address after an unclear answer. Each is twice
	// the one before. A process that ends closes its connections one after the other, and its listener among them.
	probeRetry = 2 * time.Millisecond
	// wakesPerLimit is how often a calm voter wakes within the silence limit, so that it notices its own pauses.
	wakesPerLimit = 4
	// paused is how late a wake may be. A process that wakes later did not run, and messages from meanwhile may wait in
	// its sockets.
	paused = 100 * time.Millisecond
	// counts is how long a backing counts at the voter that was backed, from its question on. When that voter
	// campaigns, its backers are bound to it for the rest of their Bond, in which the election takes place.
	counts = Bond / 2
)

// Machine is one voter's side. Not safe for concurrent use. The zero value is not valid: use [New].
type Machine struct {
	self session.Node
	// silence is the time without a heartbeat after which a leader with open connections counts as gone; 0: never.
	silence time.Duration
	// awake is since when the process runs without a pause, next is the latest requested wake-up.
	awake, next time.Time
	// follows says that Raft knows a leader, known since when: heartbeats from before say nothing about that leader.
	follows bool
	known   time.Time
	// term is the newest term seen; it has begun, or this process has, at bond.until - Bond.
	term uint64
	// leader is the newest leader known; leaderOfTerm says that it is the leader of term.
	leader       session.Node
	leaderOfTerm bool

	bond  bond
	sight sight
	run   run
}

// bond binds this node to a voter until a moment; to 0 means to no voter at all.
type bond struct {
	to    session.Node
	until time.Time
}

// New returns the machine of a node whose process has just started. It counts a leader as gone when Raft received no
// heartbeat for silence, even if the leader's connections are open; 0 is for ever.
func New(self session.Node, silence time.Duration) *Machine {
	return &Machine{self: self, silence: silence}
}

// Calm is the time after which the machine wants to be woken while it finds nothing. Sooner wakes do no harm.
func (m *Machine) Calm() time.Duration { return m.silence / wakesPerLimit }

// Wake takes note of the time and of changed facts.
func (m *Machine) Wake(now time.Time, f Facts) Effects {
	m.note(now, f)
	return m.step(now, f)
}

// Found records the finding of a probe.
func (m *Machine) Found(now time.Time, f Facts, number uint64, found Finding) Effects {
	m.note(now, f)
	if number == m.sight.number && m.sight.view == probing {
		switch found {
		case Refused, NotLeading:
			m.sight.view, m.sight.evidence = gone, found
		case Leading:
			m.sight.view = lives
		case Unclear, Silent:
			m.sight.again, m.sight.wait = now.Add(m.sight.wait), 2*m.sight.wait
		}
	}
	return m.step(now, f)
}

// OnQuestion answers the question of a voter, and reports whether this node backs it.
func (m *Machine) OnQuestion(now time.Time, f Facts, from session.Node, q Question) (backs bool, e Effects) {
	m.note(now, f)
	e = m.step(now, f)
	if m.concerns(f, from, q) && m.convinced(now, f, &e, q) && m.free(now, f, from, q) {
		m.bond = bond{from, now.Add(Bond)}
		m.rest()
		backs, e.Canvass = true, nil // it yields, and stops asking for backing
	}
	e.Wake = m.wake(now, f)
	return backs, e
}

// Backed records that a voter backs this node.
func (m *Machine) Backed(now time.Time, f Facts, number uint64, from session.Node) Effects {
	m.note(now, f)
	if r := &m.run; r.phase == asking {
		// Only answers to questions of this attempt count: a former attempt may have ended because this node yielded.
		if ago := r.newest - number; number <= r.newest && ago < uint64(len(r.canvassedAt)) {
			r.backed[from] = later(r.backed[from], r.canvassedAt[uint64(len(r.canvassedAt))-1-ago].Add(counts))
		}
	}
	return m.step(now, f)
}

// Leads answers a probe of another node: whether this node leads the term, or a later one.
func Leads(f Facts, term uint64) bool { return f.Leads && f.Term >= term }

// note records the facts. A new term binds this node to no voter for a while: an election is running, and a second
// campaign would split its votes. The start of the process does the same, because the process forgot its bond.
func (m *Machine) note(now time.Time, f Facts) {
	if m.awake.IsZero() || !m.next.IsZero() && now.After(m.next.Add(paused)) {
		m.awake = now
	}
	if f.Leader != 0 && !m.follows {
		m.known = now
	}
	m.follows = f.Leader != 0
	if f.Term != m.term {
		m.term, m.leaderOfTerm = f.Term, false
		m.bond = bond{0, now.Add(Bond)}
		m.rest()
	}
	if f.Leader != 0 && (!m.leaderOfTerm || f.Leader != m.leader) {
		m.leader, m.leaderOfTerm = f.Leader, true
		m.sight = sight{of: f.Leader, number: m.sight.number}
		m.rest()
		m.run.began = time.Time{}
	}
	if s := &m.sight; s.view != unknown {
		if l := f.Links(s.of); l.Open > 0 || l.Opened != s.opened {
			*s = sight{of: s.of, number: s.number}
			m.rest()
			m.run.began = time.Time{}
		}
	}
	if m.run.phase != idle && !m.eligible(f) {
		m.rest()
	}
}

// step does what is due.
func (m *Machine) step(now time.Time, f Facts) (e Effects) {
	m.watch(now, f, &e)
	m.advance(now, f, &e)
	e.Wake = m.wake(now, f)
	return e
}

// concerns reports whether a question is about this node's term and about no other leader than this node knows.
func (m *Machine) concerns(f Facts, from session.Node, q Question) bool {
	return from != m.self && f.votes(from) && f.votes(m.self) && !f.Leads && q.Term == m.term &&
		(!m.leaderOfTerm || q.Leader == m.leader) && (f.Leader == 0 || f.Leader == q.Leader) && !q.Last.Before(f.Last())
}

// free reports whether this node may back a voter. While this node itself only asks, it yields to a better voter: one
// with a longer log, or with a log as long and a smaller number. It then ignores further answers.
func (m *Machine) free(now time.Time, f Facts, from session.Node, q Question) bool {
	switch {
	case !now.Before(m.bond.until), m.bond.to == from:
		return m.run.phase != campaigning
	case m.bond.to == m.self && m.run.phase == asking:
		return f.Last().Before(q.Last) || from < m.self
	default:
		return false
	}
}

// wake returns when something is due.
func (m *Machine) wake(now time.Time, f Facts) time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if m.sight.view == probing || m.sight.view == lives {
		sooner(m.sight.since.Add(AnswerTimeout))
	}
	if m.sight.view == probing && !m.sight.again.IsZero() {
		sooner(m.sight.again)
	}
	switch {
	case m.run.phase != idle:
		sooner(m.run.next)
	case !m.run.began.IsZero() && now.Before(m.bond.until) && m.bond.until.Before(m.run.began.Add(Span)):
		sooner(m.bond.until)
	}
	if m.silence > 0 && m.leaderOfTerm && m.leader != m.self {
		sooner(now.Add(m.Calm()))
		if left := m.silence - m.silentFor(now, f); left > 0 {
			sooner(now.Add(left))
		}
	}
	m.next = at
	return at
}
