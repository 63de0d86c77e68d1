package leader

import (
	"time"

	"holdfast/session"
)

// member is what a term knows of one node. The mutex of [heartbeats] guards it. A round that is nil stands for none.
type member struct {
	voter, present bool
	// directory is the data directory that the configuration names. The node on another directory is another server to
	// Raft, and does not vote as this member.
	directory uint64
	// stream is the newest stream while it is open (T6); hello is the newest hello ever.
	stream *stream
	hello  session.Hello
	// doubted says that some other process sent a hello in the node's name: the node is asked about each later hello.
	doubted bool
	// sent is the round of the unanswered heartbeat on the stream, sentAt when it was sent.
	sent   *round
	sentAt time.Duration
	// answered is the newest round that was wholly answered, on any stream (E2). affirmed is the newest such round that
	// was answered with a term not newer than the tracker's (R3). processed is the newest on this stream (S1).
	answered, affirmed, processed *round
	// silent is the first moment after the last complete answer at which a heartbeat was sent or a stream ended; never
	// if there was none. A node that has not answered in this term is silent from the term's start (E1).
	silent time.Duration
	// started is when the node's process started: the latest start by any of its answers, because an age also counts
	// the time for which the accountable clock has stood since (I8).
	started time.Duration
	stalls  stalls
	// votesFrom is an entry that is not before the configuration in which the member got its vote, 0 while it has none
	// (R6).
	votesFrom uint64
	// told is what the node said of its state.
	told applied
}

// applied is the newest entry that a node has applied (R6), and the newest digest of its state that it has reported
// (D1).
type applied struct {
	index  uint64
	digest session.StateDigest
	// draining says that the node is being drained, full that its disk is full (O5), each by its newest answer on the
	// stream (Q2).
	draining, full bool
}

// replace moves the member to another directory: streams and answers begin anew, and no answer of the former directory
// counts for a round (R3, T6). The start of its silence and of its process stay, because they belong to the node, whose
// sessions stay: V never goes back (E1).
func (m *member) replace(directory uint64) {
	m.votesFrom, m.told = 0, applied{}
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
	m.told = applied{index: m.told.index} // the stream may be another process's, with other memory
	return old
}

// end notes the end of the stream.
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

// member returns the member that s claims to be of.
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

// current returns the member whose newest stream is s, nil if s has ended.
func (r *rounds) current(s *stream) *member {
	if m := r.members[s.hello.Node]; m != nil && m.stream == s {
		return m
	}
	return nil
}

// open makes s the newest stream of its node, and returns the stream that this ends, if any. The error is
// [session.ErrWrongCluster] for a node that is no member, and [ErrDirectory] for a node on another directory than the
// member's. It is [ErrSuperseded] if s is not newer than the newest stream, or if the member is doubted: then reopen
// decides (T6).
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

// reopen decides about a stream that open refused, by the newest stream that the node itself reports. It refuses a
// stream that the node does not know. A stream that the node knows replaces a newest stream that the node does not
// know, whatever that claimed: no hello in a node's name shuts the node out (T6).
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

// close notes the end of a stream. It changes nothing if the node has opened a newer stream.
func (r *rounds) close(s *stream, now time.Duration) {
	if m := r.current(s); m != nil {
		m.end(now)
	}
}
