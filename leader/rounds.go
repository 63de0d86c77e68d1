package leader

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// never is before every moment of a term.
const never time.Duration = -1

// round is a round that has begun (R1 rounds). It is immutable.
type round struct {
	// n counts from 1, or continues from an earlier tracker of the term.
	n uint64
	// began is b(n) of A1.
	began time.Duration
	// processed has, for each open stream, the newest answer that had been processed when the round began (S1 confirmed
	// touches).
	processed []mark
}

// mark is a stream and the round of its newest processed answer.
type mark struct {
	stream *stream
	round  uint64
}

// number returns a round's number; 0 for nil.
func (r *round) number() uint64 {
	if r == nil {
		return 0
	}
	return r.n
}

// moment returns the beginning of a round; never for nil.
func (r *round) moment() time.Duration {
	if r == nil {
		return never
	}
	return r.began
}

// rounds is the pure part of R1-R4, E1, E2, S1 and T6: the heartbeats that each member was sent and has answered, and
// the consequences. Callers pass readings of the accountable clock. Not safe for concurrent use.
type rounds struct {
	// leads is the leader's node, term its term.
	leads session.Node
	term  uint64
	pace  *pace
	// after is the newest round of earlier trackers of the term.
	after uint64
	// newest is the newest round, good the newest good round; nil before the first.
	newest, good *round
	members      map[session.Node]*member
	comparison   comparison
}

func newRounds(term uint64, pace *pace, after uint64) *rounds {
	return &rounds{term: term, pace: pace, after: after, members: make(map[session.Node]*member)}
}

// configure applies the newest configuration, which is at the index last of the log or before. It returns the streams
// that ended because their nodes left the configuration (T6 newest stream only, M6 closing sessions stay).
func (r *rounds) configure(config []session.Member, last uint64, now time.Duration) []*stream {
	for _, m := range r.members {
		m.present, m.voter = false, false
	}
	var ended []*stream
	for _, c := range config {
		m := r.members[c.Node]
		if m == nil {
			m = &member{}
			r.members[c.Node] = m
		}
		m.present, m.voter = true, c.Voter
		if m.directory != c.Directory {
			if m.stream != nil {
				ended = append(ended, m.stream)
				m.end(now)
			}
			m.replace(c.Directory)
		}
		m.vote(last)
	}
	for _, m := range r.members {
		if !m.present && m.stream != nil {
			ended = append(ended, m.stream)
			m.end(now)
		}
	}
	return ended
}

// begin begins a round at now.
func (r *rounds) begin(now time.Duration) {
	next := &round{n: max(r.newest.number(), r.after) + 1, began: now}
	for _, m := range r.members {
		if m.stream != nil && m.processed != nil {
			next.processed = append(next.processed, mark{m.stream, m.processed.n})
		}
	}
	r.newest = next
}

// ready returns the streams on which a heartbeat can be sent.
func (r *rounds) ready() []*stream {
	var all []*stream
	for _, m := range r.members {
		if m.stream != nil && r.beats(m) {
			all = append(all, m.stream)
		}
	}
	return all
}

// beats reports whether m has answered its last heartbeat and a newer round has begun.
func (r *rounds) beats(m *member) bool {
	return m.sent == nil && r.newest != nil && m.processed != r.newest
}

// next returns the round whose heartbeat is to be sent on s at now, and records the heartbeat as sent. It returns nil
// if the last heartbeat is unanswered or no newer round has begun (R1).
func (r *rounds) next(s *stream, now time.Duration) *round {
	m := r.current(s)
	if m == nil || !r.beats(m) {
		return nil
	}
	m.sent, m.sentAt = r.newest, now
	m.markSilent(now)
	return m.sent
}

// confirmed returns c of S1 for s: the newest of its answers that had been processed when the newest good round began.
func (r *rounds) confirmed(s *stream) uint64 {
	if r.good == nil {
		return 0
	}
	for _, p := range r.good.processed {
		if p.stream == s {
			return p.round
		}
	}
	return 0
}

// known returns p of S1 for s: the newest of its processed answers.
func (r *rounds) known(s *stream) uint64 {
	if m := r.current(s); m != nil {
		return m.processed.number()
	}
	return 0
}

// expects reports whether s is its node's newest stream and an answer to round n is due on it.
func (r *rounds) expects(s *stream, n uint64) bool {
	m := r.current(s)
	return m != nil && m.sent != nil && m.sent.n == n
}

// answer processes the last chunk of an answer that was due on s and arrived at now (R1, R3 good rounds, E1 full
// timeout after a change of leader, E2 the owner answers first, S1).
func (r *rounds) answer(s *stream, a *session.Answer, now time.Duration) {
	m := r.current(s)
	m.answered, m.processed = m.sent, m.sent
	if a.Term <= r.term {
		m.affirmed = m.sent
	}
	m.report.index, m.report.draining, m.report.full = max(m.report.index, a.Applied), a.Draining, a.FullDisk
	if a.Digest.Index != 0 && a.Digest.Index == r.comparison.index {
		m.report.digest = a.Digest
	}
	m.sent, m.silent = nil, never
	m.started = max(m.started, now-max(a.ProcessAge, 0))
	m.stalls.recordAnswer(m.hello, a, now, session.GraceIntervals*r.pace.interval())
}

// advance reports whether a newer round has become good (R3).
func (r *rounds) advance() bool {
	var affirmed []*round
	for _, m := range r.members {
		if m.present && m.voter {
			affirmed = append(affirmed, m.affirmed)
		}
	}
	if len(affirmed) == 0 {
		return false
	}
	slices.SortFunc(affirmed, func(a, b *round) int { return cmp.Compare(b.number(), a.number()) })
	quorum := len(affirmed)/2 + 1
	if got := affirmed[quorum-1]; got.number() > r.good.number() {
		r.good = got
		return true
	}
	return false
}
