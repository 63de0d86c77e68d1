package leader

import (
	"time"

	"holdfast/session"
)

// member is a term's knowledge of one node. The mutex of [heartbeats] guards it. A nil round means none.
type member struct {
	voter, present bool
	// directory is the data directory that the configuration names. For Raft, the same node on another directory is
	// another server, which does not vote as this member.
	directory uint64
	// stream is the newest stream while it is open (T6 newest stream only); hello is the newest hello that has ever
	// arrived.
	stream *stream
	hello  session.Hello
	// doubted says that another process sent a hello in the node's name: the leader asks the node itself about each
	// later hello.
	doubted bool
	// sent is the round of the unanswered heartbeat on the stream, sentAt the time when it was sent.
	sent   *round
	sentAt time.Duration
	// answered is the newest completely answered round, on any stream (E2 the owner answers first). affirmed is the
	// newest such round that the node answered from a term not newer than the tracker's (R3 good rounds). processed is
	// the newest answered round on this stream (S1 confirmed touches).
	answered, affirmed, processed *round
	// silent is the first moment after the last complete answer at which a heartbeat was sent or a stream ended; never
	// if there was none. A node that has not answered in this term is silent from the term's start (E1 full timeout
	// after a change of leader).
	silent time.Duration
	// started is the start of the node's process: the latest start by any of its answers. The ages in answers also
	// count time in which the accountable clock has stopped (I8 a sick server kills nobody).
	started time.Duration
	stalls  stalls
	// votesFrom is an entry at or after the configuration that gave the member its vote; 0 without a vote (R6
	// readiness).
	votesFrom uint64
	// report is the state that the node has reported.
	report applied
}

// applied has the newest entry that a node has applied (R6), and the newest digest of its state that it has reported
// (C1 digest comparison).
type applied struct {
	index  uint64
	digest session.StateDigest
	// draining says that the node is being drained, full that its disk is full (O5 full disks), both from its newest
	// answer on the stream (Q2 drained nodes get no clients).
	draining, full bool
}

// replace moves the member to another directory: streams and answers start again, and no answer of the former directory
// counts for a round (R3, T6). The beginning of the node's silence and the start of its process stay, because they
// belong to the node, whose sessions stay: V never goes back (E1).
func (m *member) replace(directory uint64) {
	m.votesFrom, m.report = 0, applied{}
	m.directory, m.hello = directory, session.Hello{}
	m.doubted = false
	m.answered, m.affirmed, m.processed = nil, nil, nil
}

// begin makes s the newest stream of m, and returns the former stream.
func (m *member) begin(s *stream, now time.Duration) *stream {
	old := m.stream
	if old != nil {
		m.end(now)
	}
	m.stream, m.hello = s, s.hello
	m.report = applied{index: m.report.index} // the new stream may belong to another process with other memory
	return old
}

// end records the end of the stream.
func (m *member) end(now time.Duration) {
	m.stream, m.sent, m.processed = nil, nil, nil
	m.markSilent(now)
}

// markSilent records that the member is silent from now on.
func (m *member) markSilent(now time.Duration) {
	if m.silent == never {
		m.silent = now
	}
}

// member returns the member that s claims to belong to.
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

// current returns the member whose newest stream is s; nil if s has ended.
func (r *rounds) current(s *stream) *member {
	if m := r.members[s.hello.Node]; m != nil && m.stream == s {
		return m
	}
	return nil
}

// open makes s the newest stream of its node, and returns the stream that it replaces, if any. The error is
// [session.ErrWrongCluster] for a node that is not a member, and [ErrDirectory] for a node on another directory than
// the member's. It is [ErrSuperseded] if s is not newer than the newest stream, or if the member is doubted: then
// reopen decides (T6).
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

// reopen decides about a stream that open has refused, using the newest stream that the node itself reports. It refuses
// a stream that the node does not know. If the node knows s but not the newest stream here, s replaces that stream: a
// hello in a node's name must not shut the node out (T6).
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

// close records the end of a stream. It changes nothing if the node has opened a newer stream.
func (r *rounds) close(s *stream, now time.Duration) {
	if m := r.current(s); m != nil {
		m.end(now)
	}
}
