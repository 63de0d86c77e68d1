package zk

import (
	"sync/atomic"
	"time"

	"holdfast/session"
)

// ending ends a connection because of its session's events.
type ending interface {
	// endWhenSent ends the connection once everything that waits is sent.
	endWhenSent(why error)
	// endOfSession is endWhenSent, for a session that has ended or moved.
	endOfSession(why error)
}

// clientSession is the session that a connection serves. It receives the node's events of the session.
type clientSession struct {
	ending ending
	mode   func() session.Mode
	client func() session.Client
	// instance is set by the handshake before the node sends the connection its first event.
	instance uint64
	// token, timeout (T) and clientTimeout (P, the timeout in the client's answer; Z4 timeout) are set once by the
	// handshake, and may be read once began is true.
	token                  session.Token
	timeout, clientTimeout time.Duration
	began                  atomic.Bool
	// closing: the client closes its session, so the answer to the close ends the connection, rather than the session's
	// end.
	closing atomic.Bool
}

func (s *clientSession) begin(g session.Grant) {
	s.token, s.timeout, s.clientTimeout = g.Token, g.Session.Timeout, timeoutForClient(g.Session.Timeout)
	s.began.Store(true)
}

// id returns the session's id, 0 before the session began.
func (s *clientSession) id() session.ID {
	if !s.began.Load() {
		return 0
	}
	return s.token.ID
}

// Client returns who the client is, for the node's log.
func (s *clientSession) Client() session.Client { return s.client() }

// Gone ends the connection, because its session has ended. Bytes that may be sent to the client are sent before (Z6
// closing).
func (s *clientSession) Gone(session.Certificate) {
	if !s.closing.Load() {
		s.ending.endOfSession(errGone)
	}
}

// Moved ends the connection, unless the connection itself resumed the session.
func (s *clientSession) Moved(_ session.ID, _, instance uint64) {
	if instance != s.instance {
		s.ending.endOfSession(errMoved)
	}
}

// MovedLocally is Moved for a local session.
func (s *clientSession) MovedLocally(id session.ID, attachment, instance uint64) {
	s.Moved(id, attachment, instance)
}

// Jeopardy ends the connection of a global session at a node that has become read-only (Z9 read-only). Otherwise
// nothing is needed: the client gets no bytes while the promise is short (Z5 disconnected before expired).
func (s *clientSession) Jeopardy(time.Time, []string) {
	if s.began.Load() && !s.token.Local && s.mode() == session.ModeReadOnly {
		s.ending.endWhenSent(errReadOnly)
	}
}

// JeopardyEnded ends the connection of a local session, whose node was read-only (Z9 read-only). The client connects
// again, as to a read-write server.
func (s *clientSession) JeopardyEnded() {
	if s.began.Load() && s.token.Local {
		s.ending.endWhenSent(errReadWrite)
	}
}

// Draining ends the connection of a session: ZooKeeper's clients then connect to another server. A drained node does
// not accept the session again (Q1 drain); a node with a full disk serves a client that comes back (O5 full disks).
func (s *clientSession) Draining(why *session.DrainingError) {
	if s.began.Load() {
		s.ending.endWhenSent(why)
	}
}

// DrainingEnded is no news.
func (s *clientSession) DrainingEnded() {}

// DrainTimeout ends the connection.
func (s *clientSession) DrainTimeout() { s.ending.endWhenSent(session.ErrDraining) }
