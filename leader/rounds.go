package leader

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// never stands before every moment of a term.
const never time.Duration = -1

// round is one round that was begun (R1). It is never changed.
type round struct {
	// n counts from 1, on from a former tracker of the term.
	n uint64
	// began is b(n) of A1.
	began time.Duration
	// processed are the newest answers that had been processed at the begin, one per open stream (S1).
	processed []mark
}

// mark is a stream and the round of its newest processed answer.
type mark struct {
	stream *stream
	round  uint64
}

// member is what a term knows of one node. The zero of a round is nil.
type member struct {
	voter, present bool
	// directory is the one that the configuration names. A node on another is another server to Raft, and has not voted
	// for it.
	directory uint64
	// stream is the newest one while it is open (T6), hello the newest ever.
	stream *stream
	hello  session.Hello
	// doubted says that a hello was found to be none of the node's: each one is asked about from then on.
	doubted bool
	// sent is the round of the unanswered heartbeat on the stream, sentAt when it was sent.
	sent   *round
	sentAt time.Duration
	// answered is the newest round that was wholly answered, on any stream (E2); affirmed the newest so answered with a
	// term not newer than the tracker's (R3); processed the newest on this stream (S1).
	answered, affirmed, processed *round
	// silent is the first moment after the last complete answer at which a heartbeat was sent or a stream ended; never
	// when there was none. A node that has not answered in this term is silent from the term's start on (E1).
	silent time.Duration
	// started is since when the node's process runs: the latest by any of its answers, for an age also counts the
	// time in which the accountable clock stood since (I8).
	started time.Duration
	stalls  stalls
	// votesFrom is an entry that comes no sooner than the configuration in which the member got its vote, 0 while it
	// has none (R6).
	votesFrom uint64
	// told is what its node said of its state.
	told applied
}

// applied is the newest entry that a node has applied (R6), and the newest digest of its state that it has reported
// (D1).
type applied struct {
	index  uint64
	digest session.StateDigest
}

// rounds is the pure part of R1-R4, E1, E2, S1 and T6: who was sent and has answered what, and what follows from it.
// It takes the readings of the accountable clock that it needs, and is not safe for concurrent use.
type rounds struct {
	term uint64
	// interval is between two rounds; it becomes shorter, never longer.
	interval time.Duration
	// after is the number that rounds are numbered on from.
	after uint64
	// newest is the newest round begun, good the newest good one; nil before the first.
	newest, good *round
	members      map[session.Node]*member
	comparison   comparison
}

func newRounds(term uint64, interval time.Duration, after uint64) *rounds {
	return &rounds{term: term, interval: interval, after: after, members: make(map[session.Node]*member)}
}

// number returns a round's number, 0 before the first.
func (r *round) number() uint64 {
	if r == nil {
		return 0
	}
	return r.n
}

// moment returns when a round began, never before the first.
func (r *round) moment() time.Duration {
	if r == nil {
		return never
	}
	return r.began
}

// configure takes the newest configuration, which stands in the log at last or before, and returns the streams that
// ended because their nodes left it (T6, M6).
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

// replace has the node run on another directory: its streams and answers begin anew, and none of the former's counts
// for a round (R3, T6). Since when it is silent, and can vouch, is of the node, whose sessions stay: V never goes back
// (E1).
func (m *member) replace(directory uint64) {
	m.votesFrom, m.told = 0, applied{}
	m.directory, m.hello = directory, session.Hello{}
	m.doubted = false
	m.answered, m.affirmed, m.processed = nil, nil, nil
}

// open makes s the newest stream of its node and returns the one it ends, if any. The error is
// [session.ErrWrongCluster] for a node that is no member, [ErrDirectory] for one on another directory than the
// member's, and [ErrSuperseded] for a stream that is not newer than the newest, or one of a node of which somebody else
// had opened a stream: reopen decides about it (T6).
func (r *rounds) open(s *stream, now time.Duration) (*stream, error) {
	m, err := r.member(s)
	if err != nil {
		return nil, err
	}
	if m.hello.Node != 0 && !s.hello.Newer(m.hello) || m.doubted {
		return nil, ErrSuperseded
	}
	return m.begin(s, now), nil
}

// member returns the member that s says it is of.
func (r *rounds) member(s *stream) (*member, error) {
	m := r.members[s.hello.Node]
	if m == nil || !m.present {
		return nil, session.ErrWrongCluster
	}
	if m.directory != s.hello.Directory {
		return nil, ErrDirectory
	}
	return m, nil
}

// begin makes s the newest stream of m, and returns the former one.
func (m *member) begin(s *stream, now time.Duration) *stream {
	old := m.stream
	if old != nil {
		m.end(now)
	}
	m.stream, m.hello = s, s.hello
	m.told.digest = session.StateDigest{} // it may be another process, with another memory
	return old
}

// reopen decides about a stream that open refused, by what its node says itself of its newest one. A stream that the
// node does not know is refused. One that it knows takes the place of one that it does not know, whatever that said:
// nothing that anybody says in a node's name shuts the node out (T6).
func (r *rounds) reopen(s *stream, newest session.Hello, now time.Duration) (*stream, error) {
	m, err := r.member(s)
	switch {
	case err != nil:
		return nil, err
	case newest.Directory != m.directory || s.hello.Incarnation != newest.Incarnation || s.hello.Stream > newest.Stream:
		return nil, ErrSuperseded
	case m.hello.Newer(newest):
		m.doubted = true
	case m.hello.Node != 0 && !s.hello.Newer(m.hello):
		return nil, ErrSuperseded
	}
	return m.begin(s, now), nil
}

// close notes the end of a stream; one that is not the newest any more changes nothing.
func (r *rounds) close(s *stream, now time.Duration) {
	if m := r.current(s); m != nil {
		m.end(now)
	}
}

// current returns the member whose newest stream s is, nil when s has ended.
func (r *rounds) current(s *stream) *member {
	if m := r.members[s.hello.Node]; m != nil && m.stream == s {
		return m
	}
	return nil
}

func (m *member) end(now time.Duration) {
	m.stream, m.sent, m.processed = nil, nil, nil
	m.hush(now)
}

// hush notes a moment from which the member is silent.
func (m *member) hush(now time.Duration) {
	if m.silent == never {
		m.silent = now
	}
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

// ready returns the streams that a heartbeat can be sent on.
func (r *rounds) ready() []*stream {
	var all []*stream
	for _, m := range r.members {
		if m.stream != nil && r.beats(m) {
			all = append(all, m.stream)
		}
	}
	return all
}

// beats reports whether a newer round has begun than the last one that m was sent on its stream, and that one is
// answered.
func (r *rounds) beats(m *member) bool {
	return m.sent == nil && r.newest != nil && m.processed != r.newest
}

// next returns the round whose heartbeat s is to be sent at now, and notes it as sent; nil when there is none: the last
// heartbeat is not answered yet, or no newer round has begun (R1).
func (r *rounds) next(s *stream, now time.Duration) *round {
	m := r.current(s)
	if m == nil || !r.beats(m) {
		return nil
	}
	m.sent, m.sentAt = r.newest, now
	m.hush(now)
	return m.sent
}

// confirmed returns c of S1 for s: the newest of its answers that had been processed before the begin of the newest
// good round.
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

// expects reports whether s is its node's newest stream and an answer to round n is due on it.
func (r *rounds) expects(s *stream, n uint64) bool {
	m := r.current(s)
	return m != nil && m.sent != nil && m.sent.n == n
}

// answer takes the last chunk of the answer that s was expected to give, which arrived at now (R1, R3, E1, E2, S1).
func (r *rounds) answer(s *stream, a *session.Answer, now time.Duration) {
	m := r.current(s)
	m.answered, m.processed = m.sent, m.sent
	if a.Term <= r.term {
		m.affirmed = m.sent
	}
	m.told.index = max(m.told.index, a.Applied)
	if a.Digest.Index != 0 && a.Digest.Index == r.comparison.index {
		m.told.digest = a.Digest
	}
	m.sent, m.silent = nil, never
	m.started = max(m.started, now-max(a.ProcessAge, 0))
	m.stalls.hear(m.hello, a, now, session.GraceIntervals*r.interval)
}

// judge finds out whether a newer round has become good (R3), and reports it.
func (r *rounds) judge() bool {
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

// lost reports whether m is lost at now (E1). A node without a stream is, and so is one that was removed, whose stream
// ended with that (M6); one that is silent since the term began has three intervals to open its first.
func (r *rounds) lost(m *member, now time.Duration) bool {
	at, ok := r.losing(m)
	return ok && at <= now
}

// losing returns when m is lost unless it answers before; false when nothing of it is awaited.
func (r *rounds) losing(m *member) (time.Duration, bool) {
	switch {
	case m.stream == nil && m.hello.Node != 0:
		return never, true
	case m.stream == nil:
		return 3 * r.interval, true
	case m.sent != nil:
		return m.sentAt + 3*r.interval, true
	default:
		return 0, false
	}
}

// nextLoss returns the first moment after now at which a member will be lost unless it answers; false if none will.
func (r *rounds) nextLoss(now time.Duration) (time.Duration, bool) {
	first, found := time.Duration(0), false
	for _, m := range r.members {
		if at, ok := r.losing(m); ok && at > now && (!found || at < first) {
			first, found = at, true
		}
	}
	return first, found
}

// ownerState is what counts about an owner when its sessions expire.
type ownerState struct {
	// vouches is V of E1: a session of the owner is not due before vouches + its timeout.
	vouches time.Duration
	// stalls are the owner's.
	stalls *session.Stalls
	// horizon is the begin of the newest round that lets sessions of the owner expire that were due by then (E2).
	horizon time.Duration
}

// ownerStates are the states of all owners at one moment. A node that is no member has that of a lost one (M6).
type ownerStates [1 << 8]ownerState

// owners returns the state of every owner at now.
func (r *rounds) owners(now time.Duration) *ownerStates {
	var all ownerStates
	for i := range all {
		all[i] = ownerState{horizon: r.good.moment()}
	}
	for node, m := range r.members {
		w := &all[node]
		w.vouches, w.stalls = max(w.vouches, m.started), m.stalls.known
		if r.lost(m, now) {
			w.vouches = max(w.vouches, m.silent)
		} else {
			w.horizon = min(w.horizon, m.answered.moment())
		}
	}
	return &all
}

// due returns when a session comes due (E1).
func (w *ownerStates) due(it *item) time.Duration {
	return w[it.Value.owner].due(it.Deadline(), it.Value.timeout())
}

// due returns when a session of the owner comes due that has a deadline, 0 before its first touch. Its silence began
// a timeout and T/200 before: at a touch, see intake.touch and shard.applied, or at vouches.
func (w *ownerState) due(deadline, timeout time.Duration) time.Duration {
	due := max(deadline, w.vouches+timeout)
	if w.stalls == nil {
		return due
	}
	return w.stalls.Due(due, due-extension(timeout), timeout)
}
