package succession

import (
	"time"

	"holdfast/session"
)

// view is what this node finds about a leader.
type view uint8

const (
	// unknown: nothing. looks: asks its address. lives: it says that it leads, or cannot say. gone: it leads no more.
	unknown view = iota
	looks
	lives
	gone
)

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
