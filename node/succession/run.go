package succession

import (
	"time"

	"holdfast/session"
)

// phase is what a voter does about a leader that is gone.
type phase uint8

const (
	// idle: nothing. turn: waits for its turn. asking: asks the others for backing. campaigning: Raft has the order to
	// campaign.
	idle phase = iota
	turn
	asking
	campaigning
)

// run is this node's way to a campaign in a leader's place.
type run struct {
	phase phase
	// began is when this node first found the leader gone. Span counts from it.
	began time.Time
	// next is the moment of the next step of the phase.
	next  time.Time
	retry time.Duration
	// newest is the number of the newest canvass. canvassedAt are the moments of the canvasses since the phase asking
	// began.
	newest      uint64
	canvassedAt []time.Time
	// backed is until when the backing of each voter counts.
	backed map[session.Node]time.Time
}

// rest ends this node's way to a campaign. The time that has passed counts.
func (m *Machine) rest() {
	m.run.phase, m.run.canvassedAt, m.run.backed = idle, nil, nil
}

// eligible reports whether this node may campaign: it votes, and Raft follows. TimeoutNow helps only a follower: a
// candidate is in an election already.
func (m *Machine) eligible(f Facts) bool {
	return f.Follows && f.votes(m.self) && m.leader != 0 && m.leader != m.self
}

// advance continues towards a campaign in the place of a leader that is gone.
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
	if r.phase == campaigning && !now.Before(r.next) { // Raft has not moved
		r.phase, r.next = turn, now
	}
	if r.phase == turn && !now.Before(r.next) {
		r.phase, r.retry, r.canvassedAt, r.backed = asking, firstRetry, nil, map[session.Node]time.Time{}
		r.next = now
	}
	if r.phase == asking {
		m.canvass(now, f, e)
	}
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

// canvass asks the remaining voters to back this node, and campaigns once a majority backs it.
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
		r.phase, r.next = campaigning, now.Add(Bond)
		m.bond = bond{m.self, r.next}
		e.Campaign = &Campaign{
			Leader: m.leader, Term: m.term, Opened: m.sight.opened, Silence: m.silence, Backers: backers,
			Evidence: m.sight.evidence, Since: m.sight.since,
		}
		if m.sight.view != gone {
			e.Campaign.Evidence, e.Campaign.Since = Silent, now.Add(-f.Silence)
		}
		return
	}
	if now.Before(r.next) {
		return
	}
	r.newest++
	r.canvassedAt, r.next = append(r.canvassedAt, now), now.Add(r.retry)
	r.retry = min(2*r.retry, lastRetry)
	m.bond = bond{m.self, now.Add(Bond)}
	e.Canvass = &Canvass{r.newest, others, Question{m.leader, m.term, f.Last()}}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
