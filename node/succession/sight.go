package succession

import (
	"time"

	"holdfast/session"
)

// view is what this node finds about a leader.
type view uint8

const (
	// unknown: nothing. probing: a probe of the leader's address is in flight. lives: the leader leads, or cannot say.
	// gone: the leader leads no more.
	unknown view = iota
	probing
	lives
	gone
)

// sight is what this node finds about a node that leads, or led.
type sight struct {
	of     session.Node
	view   view
	number uint64
	// since is when the probe began: with the end of the last connection, or a question of another voter.
	since time.Time
	// again is when to probe the address again, zero while a probe is in flight. wait is the latest delay between two
	// probes.
	again time.Time
	wait  time.Duration
	// opened is the number of the node's connections when the probe began.
	opened   uint64
	evidence Finding
}

// watch probes the leader once its connections have ended.
func (m *Machine) watch(now time.Time, f Facts, e *Effects) {
	s := &m.sight
	follows := m.leaderOfTerm && f.Leader == m.leader && m.eligible(f)
	late := !now.Before(s.since.Add(AnswerTimeout))
	switch {
	case s.view == unknown && follows:
		if l := f.Links(m.leader); l.Open == 0 && l.Lost {
			m.probe(now, f, m.leader, e)
		}
	case s.view == lives && late && follows && s.of == m.leader:
		m.probe(now, f, s.of, e)
	case s.view == lives && late:
		s.view = unknown
	case s.view == probing:
		m.await(now, f, e)
	}
}

// await probes the leader's address again when the next probe is due. After AnswerTimeout, silence counts as an answer.
func (m *Machine) await(now time.Time, f Facts, e *Effects) {
	s := &m.sight
	switch late := !now.Before(s.since.Add(AnswerTimeout)); {
	case !late && !s.again.IsZero() && !now.Before(s.again):
		s.number++
		s.again = time.Time{}
		e.Probe = &Probe{s.number, s.of, m.term, s.since.Add(AnswerTimeout)}
	case !late:
	case m.leaderOfTerm && s.of == m.leader && f.Links(s.of).Lost:
		s.view, s.evidence = gone, Unclear
	default: // silence alone is no evidence before the first heartbeat, or after this node closed the connections
		s.view = unknown
	}
}

// probe begins to probe a node.
func (m *Machine) probe(now time.Time, f Facts, at session.Node, e *Effects) {
	m.sight = sight{
		of: at, view: probing, number: m.sight.number + 1, since: now, wait: probeRetry, opened: f.Links(at).Opened,
	}
	e.Probe = &Probe{m.sight.number, at, m.term, now.Add(AnswerTimeout)}
}

// finds reports whether this node finds a leader gone.
func (m *Machine) finds(now time.Time, f Facts, leader session.Node) bool {
	return m.sight.of == leader && m.sight.view == gone || m.leader == leader && m.silent(now, f)
}

// silent reports whether the leader sent no heartbeat for the silence limit. A frozen leader closes no connection.
func (m *Machine) silent(now time.Time, f Facts) bool {
	return m.silence > 0 && m.leaderOfTerm && m.leader != m.self && m.silentFor(now, f) >= m.silence
}

// silentFor returns the time without a heartbeat. Time in which this process did not run does not count, nor does time in
// which it knew no leader: Raft names a leader before it has noted the contact.
func (m *Machine) silentFor(now time.Time, f Facts) time.Duration {
	return min(f.Silence, now.Sub(m.awake), now.Sub(m.known))
}

// convinced reports whether this node finds the leader gone too. If it does not know, it begins a probe.
func (m *Machine) convinced(now time.Time, f Facts, e *Effects, q Question) bool {
	if q.Leader == m.self { // it follows, and leads no more
		return f.Leader == 0
	}
	if m.finds(now, f, q.Leader) {
		return true
	}
	s := &m.sight
	if (s.of != q.Leader || s.view == unknown) && s.view != probing && f.Links(q.Leader).Open == 0 {
		m.probe(now, f, q.Leader, e)
	}
	return false
}
