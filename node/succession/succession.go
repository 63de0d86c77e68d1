package succession

import (
	"time"

	"holdfast/session"
)

const (
	// Patience is how long a voter waits for an answer of the leader's address, from the end of the leader's last
	// connection on.
	Patience = 150 * time.Millisecond
	// Turn is the head start of each voter over the next one, in the order of their numbers.
	Turn = 20 * time.Millisecond
	// Bond is how long a voter is bound to the voter that it backs.
	Bond = 500 * time.Millisecond
	// Span is how long after the end of a leader voters try to stand. Then Raft's timeouts decide.
	Span = time.Second
	// firstRetry and lastRetry are the times between two questions to a voter that refused. Each is twice the one before.
	firstRetry = 10 * time.Millisecond
	lastRetry  = 160 * time.Millisecond
	// firstLook is the time until the leader's address is asked again after it gave no clear answer. Each is twice the
	// one before. A process that ends closes its connections one after the other, and its listener among them.
	firstLook = 2 * time.Millisecond
	// looksPerSilence is how often a voter looks for silence in the time after which it believes in it.
	looksPerSilence = 6
	// paused is how late a wake may be. A process that wakes later did not run, and what it should have heard meanwhile
	// may wait in its sockets.
	paused = 100 * time.Millisecond
	// counts is how long a backing counts at the voter that was backed, from its question on. When that voter stands,
	// its backers are bound to it for the rest of their Bond, in which the election takes place.
	counts = Bond / 2
)

// phase is what a voter does about a leader that is gone.
type phase uint8

const (
	// idle: nothing. turn: waits for its turn. asks: asks the others. stands: it has been told to stand.
	idle phase = iota
	turn
	asks
	stands
)

// view is what this node finds about a leader.
type view uint8

const (
	// unknown: nothing. looks: asks its address. lives: it says that it leads. gone: it leads no more.
	unknown view = iota
	looks
	lives
	gone
)

// Machine is one voter's side. Not safe for concurrent use. The zero value is not valid: use [New].
type Machine struct {
	self session.Node
	// silence is how long nothing was heard of a leader that is gone although its connections are open; 0: never.
	silence time.Duration
	// awake is since when the process runs without a pause, next when the machine last asked to be woken.
	awake, next time.Time
	// follows says that Raft knows a leader, known since when: what it heard before says nothing about that leader.
	follows bool
	known   time.Time
	// term is the newest term seen; it has begun, or this process has, at bond.until - Bond.
	term uint64
	// leader is the newest leader known; heard says that it is the leader of term.
	leader session.Node
	heard  bool

	bond  bond
	sight sight
	run   run
}

// bond is the voter that this node is bound to until a moment; to is 0 for nobody at all.
type bond struct {
	to    session.Node
	until time.Time
}

// sight is what this node finds about a node that leads, or led.
type sight struct {
	of     session.Node
	view   view
	number uint64
	// since is when the look began: with the end of the last connection, or a question of another voter.
	since time.Time
	// again is when to ask the address again, zero while it is being asked. wait is how long it was put off last.
	again time.Time
	wait  time.Duration
	// opened is the number of the node's connections when the look began.
	opened   uint64
	evidence Finding
}

// run is what this node does to stand in a leader's place.
type run struct {
	phase phase
	// began is when this node first found the leader gone. Span counts from it.
	began time.Time
	// next is the moment of the next step of the phase.
	next  time.Time
	retry time.Duration
	// newest is the number of the newest canvass. asked are the moments of the canvasses since the phase asks began.
	newest uint64
	asked  []time.Time
	// backed is until when the backing of each voter counts.
	backed map[session.Node]time.Time
}

// New returns the machine of a node whose process has just started. It finds a leader gone of which Raft has heard
// nothing for silence, even if its connections are open; 0 is for ever.
func New(self session.Node, silence time.Duration) *Machine {
	return &Machine{self: self, silence: silence}
}

// Calm is the time after which the machine wants to be woken while it finds nothing. Sooner wakes do no harm.
func (m *Machine) Calm() time.Duration { return m.silence / looksPerSilence }

// Wake takes note of the time and of changed facts.
func (m *Machine) Wake(now time.Time, f Facts) Effects {
	m.note(now, f)
	return m.step(now, f)
}

// Found takes the finding of a look.
func (m *Machine) Found(now time.Time, f Facts, number uint64, found Finding) Effects {
	m.note(now, f)
	if number == m.sight.number && m.sight.view == looks {
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

// Asked answers the question of a voter, and reports whether this node backs it.
func (m *Machine) Asked(now time.Time, f Facts, from session.Node, q Question) (backs bool, e Effects) {
	m.note(now, f)
	e = m.step(now, f)
	if m.concerns(f, from, q) && m.convinced(now, f, &e, q) && m.free(now, f, from, q) {
		m.bond = bond{from, now.Add(Bond)}
		m.rest()
		backs = true
	}
	e.Wake = m.wake(now)
	return backs, e
}

// Backed takes the yes of a voter that was asked.
func (m *Machine) Backed(now time.Time, f Facts, number uint64, from session.Node) Effects {
	m.note(now, f)
	if r := &m.run; r.phase == asks {
		// Only answers to questions of this attempt count: a former attempt may have ended because this node yielded.
		if ago := r.newest - number; number <= r.newest && ago < uint64(len(r.asked)) {
			r.backed[from] = later(r.backed[from], r.asked[uint64(len(r.asked))-1-ago].Add(counts))
		}
	}
	return m.step(now, f)
}

// Leads answers a look of another node: whether this node leads the term, or a later one.
func Leads(f Facts, term uint64) bool { return f.Leads && f.Term >= term }

// note takes note of the facts. A new term binds this node to nobody for a while: an election is under way, and who
// stands beside it splits its votes. So does the start of the process, which forgot whom it was bound to.
func (m *Machine) note(now time.Time, f Facts) {
	if m.awake.IsZero() || !m.next.IsZero() && now.After(m.next.Add(paused)) {
		m.awake = now
	}
	if f.Leader != 0 && !m.follows {
		m.known = now
	}
	m.follows = f.Leader != 0
	if f.Term != m.term {
		m.term, m.heard = f.Term, false
		m.bond = bond{0, now.Add(Bond)}
		m.rest()
	}
	if f.Leader != 0 && (!m.heard || f.Leader != m.leader) {
		m.leader, m.heard = f.Leader, true
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

// rest ends what this node does to stand. The time that it has spent counts.
func (m *Machine) rest() {
	m.run.phase, m.run.asked, m.run.backed = idle, nil, nil
}

// eligible reports whether this node may stand: it votes, and Raft follows. TimeoutNow would do nothing good in another
// state. A candidate is in an election already.
func (m *Machine) eligible(f Facts) bool {
	return f.Follows && f.votes(m.self) && m.leader != 0 && m.leader != m.self
}

// step does what is due.
func (m *Machine) step(now time.Time, f Facts) (e Effects) {
	m.watch(now, f, &e)
	m.advance(now, f, &e)
	e.Wake = m.wake(now)
	return e
}

// watch looks after the leader once its connections have ended.
func (m *Machine) watch(now time.Time, f Facts, e *Effects) {
	s := &m.sight
	follows := m.heard && f.Leader == m.leader && m.eligible(f)
	late := !now.Before(s.since.Add(Patience))
	switch {
	case s.view == unknown && follows:
		if l := f.Links(m.leader); l.Open == 0 && l.Lost {
			m.look(now, f, m.leader, e)
		}
	case s.view == lives && late && follows && s.of == m.leader:
		m.look(now, f, s.of, e)
	case s.view == lives && late:
		s.view = unknown
	case s.view == looks:
		m.await(now, f, e)
	}
}

// await asks the leader's address again when it is time to, and takes silence for an answer in the end.
func (m *Machine) await(now time.Time, f Facts, e *Effects) {
	s := &m.sight
	switch late := !now.Before(s.since.Add(Patience)); {
	case !late && !s.again.IsZero() && !now.Before(s.again):
		s.number++
		s.again = time.Time{}
		e.Look = &Look{s.number, s.of, m.term, s.since.Add(Patience)}
	case !late:
	case m.heard && s.of == m.leader && f.Links(s.of).Lost:
		s.view, s.evidence = gone, Unclear
	default: // silence alone is no evidence for a node that has heard no leader or has closed the connections itself
		s.view = unknown
	}
}

// look begins a look.
func (m *Machine) look(now time.Time, f Facts, at session.Node, e *Effects) {
	m.sight = sight{
		of: at, view: looks, number: m.sight.number + 1, since: now, wait: firstLook, opened: f.Links(at).Opened,
	}
	e.Look = &Look{m.sight.number, at, m.term, now.Add(Patience)}
}

// advance goes on with standing in the place of a leader that is gone.
func (m *Machine) advance(now time.Time, f Facts, e *Effects) {
	r := &m.run
	if !m.finds(now, f, m.leader) {
		m.rest()
		r.began = time.Time{}
		return
	}
	if !m.eligible(f) {
		m.rest()
		return
	}
	if r.began.IsZero() {
		r.began = now
	}
	if !now.Before(r.began.Add(Span)) {
		m.rest()
		return
	}
	if r.phase == idle && !now.Before(m.bond.until) {
		r.phase, r.next = turn, later(r.began, m.bond.until).Add(Turn*time.Duration(m.rank(f)))
	}
	if r.phase == stands && !now.Before(r.next) { // Raft has not moved
		r.phase, r.next = turn, now
	}
	if r.phase == turn && !now.Before(r.next) {
		r.phase, r.retry, r.asked, r.backed = asks, firstRetry, nil, map[session.Node]time.Time{}
		r.next = now
	}
	if r.phase == asks {
		m.canvass(now, f, e)
	}
}

// finds reports whether this node finds a leader gone.
func (m *Machine) finds(now time.Time, f Facts, leader session.Node) bool {
	return m.sight.of == leader && m.sight.view == gone || m.leader == leader && m.silent(now, f)
}

// silent reports whether nothing was heard of the leader for long. A leader that is frozen closes no connection. Time
// in which this process did not run does not count, nor does time in which it knew no leader: Raft names a leader
// before it has noted the contact.
func (m *Machine) silent(now time.Time, f Facts) bool {
	silence := min(f.Silence, now.Sub(m.awake), now.Sub(m.known))
	return m.silence > 0 && m.heard && m.leader != m.self && silence >= m.silence
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// rank is the number of voters whose turn is before this node's.
func (m *Machine) rank(f Facts) int {
	n := 0
	for _, v := range f.Voters {
		if v < m.self && v != m.leader {
			n++
		}
	}
	return n
}

// canvass asks voters that do not back this node yet, and stands once a majority does.
func (m *Machine) canvass(now time.Time, f Facts, e *Effects) {
	r := &m.run
	var backers, others []session.Node
	for _, v := range f.Voters {
		switch {
		case v == m.self:
		case now.Before(r.backed[v]):
			backers = append(backers, v)
		default:
			others = append(others, v)
		}
	}
	if len(backers)+1 > len(f.Voters)/2 {
		r.phase, r.next = stands, now.Add(Bond)
		m.bond = bond{m.self, r.next}
		e.Stand = &Stand{
			Leader: m.leader, Term: m.term, Opened: m.sight.opened, Silence: m.silence, Backers: backers,
			Evidence: m.sight.evidence, Since: m.sight.since,
		}
		if m.sight.view != gone {
			e.Stand.Evidence, e.Stand.Since = Silent, now.Add(-f.Silence)
		}
		return
	}
	if now.Before(r.next) {
		return
	}
	r.newest++
	r.asked, r.next = append(r.asked, now), now.Add(r.retry)
	r.retry = min(2*r.retry, lastRetry)
	m.bond = bond{m.self, now.Add(Bond)}
	e.Canvass = &Canvass{r.newest, others, Question{m.leader, m.term, f.Last()}}
}

// concerns reports whether a question is about this node's term and about no other leader than this node knows.
func (m *Machine) concerns(f Facts, from session.Node, q Question) bool {
	return from != m.self && f.votes(from) && f.votes(m.self) && !f.Leads && q.Term == m.term &&
		(!m.heard || q.Leader == m.leader) && (f.Leader == 0 || f.Leader == q.Leader) && !q.Last.Before(f.Last())
}

// convinced reports whether this node finds the leader gone too. If it does not know, it begins a look.
func (m *Machine) convinced(now time.Time, f Facts, e *Effects, q Question) bool {
	if q.Leader == m.self { // it follows, and leads no more
		return f.Leader == 0
	}
	if m.finds(now, f, q.Leader) {
		return true
	}
	s := &m.sight
	if (s.of != q.Leader || s.view == unknown) && s.view != looks && f.Links(q.Leader).Open == 0 {
		m.look(now, f, q.Leader, e)
	}
	return false
}

// free reports whether this node may back a voter. While this node itself only asks, it yields to a better voter: one
// with a longer log, or with a log as long and a smaller number. It then heeds no answers any more.
func (m *Machine) free(now time.Time, f Facts, from session.Node, q Question) bool {
	switch {
	case !now.Before(m.bond.until), m.bond.to == from:
		return m.run.phase != stands
	case m.bond.to == m.self && m.run.phase == asks:
		return f.Last().Before(q.Last) || from < m.self
	default:
		return false
	}
}

// wake returns when something is due.
func (m *Machine) wake(now time.Time) time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if m.sight.view == looks || m.sight.view == lives {
		sooner(m.sight.since.Add(Patience))
	}
	if m.sight.view == looks && !m.sight.again.IsZero() {
		sooner(m.sight.again)
	}
	switch {
	case m.run.phase != idle:
		sooner(m.run.next)
	case !m.run.began.IsZero() && now.Before(m.bond.until) && m.bond.until.Before(m.run.began.Add(Span)):
		sooner(m.bond.until)
	}
	if m.silence > 0 && m.heard && m.leader != m.self {
		sooner(now.Add(m.Calm()))
	}
	m.next = at
	return at
}
