package tree

import (
	"cmp"
	"errors"
	"slices"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// maxLagged is how often the client asks a node that is behind the client's index before it tries another node. A node
// catches up soon, and leaving it moves all sessions.
const maxLagged = 3

// Read queues a caller's read, in a session or, if h is nil, without a session.
func (m *Manager) Read(call *Call, h *sessions.Session) {
	switch b := (&readBody{m, call}); {
	case h == nil:
		m.calls[call] = struct{}{}
		m.reads = append(m.reads, b)
	case !m.sessions.Holds(h):
		m.answer(call, Done{Err: h.Err()})
	default:
		m.calls[call] = struct{}{}
		s := m.requestsOf(h)
		call.of, call.after = s, s.called
		s.reads = append(s.reads, b)
		m.markBusy(s)
	}
}

// forgetRead records that the caller of a read has given up. While no node is in reach, callers come and go, and no
// send removes their reads from the queue.
func (m *Manager) forgetRead(call *Call) {
	if s := call.of; s != nil {
		s.reads = withoutAbandoned(s.reads, &s.abandoned)
		return
	}
	m.reads = withoutAbandoned(m.reads, &m.abandoned)
}

// withoutAbandoned removes the reads whose callers have given up, once they may be half of all: removing each at once
// would cost a search each.
func withoutAbandoned(reads []*readBody, abandoned *int) []*readBody {
	if *abandoned++; *abandoned <= len(reads)/2 {
		return reads
	}
	*abandoned = 0
	return slices.DeleteFunc(reads, func(r *readBody) bool { return r.call.answered })
}

// sendSessionReads sends the reads of a session whose earlier writes were all sent (G3 order in a session), or whose
// writes are lost and never sent again. It reports false if the next read has to wait for the answer to another.
func (m *Manager) sendSessionReads(s *requests, c *conn.Conn) bool {
	for len(s.reads) > 0 {
		r := s.reads[0]
		if w := s.writes.Pending(); !r.call.answered && s.lost == nil && w != nil {
			if call, ok := w.Body.(*Call); ok && call.after <= r.call.after {
				return true
			}
		}
		if c.Window.DirectInFlight() >= maxReads || m.watches.catchesUpOn(c) ||
			r.call.Watch != nil && c != m.conns.Current() {
			return false
		}
		s.reads = slices.Delete(s.reads, 0, 1)
		if !r.call.answered {
			m.conns.SendDirect(c, r)
		}
	}
	return true
}

// sendReads sends the reads without a session. Reads wait while watches catch up with a former connection: an answer
// would come before the events that it shows (I13 no step back).
func (m *Manager) sendReads() {
	c := m.conns.Current()
	if c == nil || !c.Up() || len(m.reads) == 0 || !m.knowsState(c) {
		return
	}
	for len(m.reads) > 0 && c.Window.DirectInFlight() < maxReads && !m.watches.catchesUpOn(c) {
		r := m.reads[0]
		m.reads = slices.Delete(m.reads, 0, 1)
		if !r.call.answered {
			m.conns.SendDirect(c, r)
		}
	}
}

// readBody is a read of the tree.
type readBody struct {
	m    *Manager
	call *Call
}

// Wanted is false once the caller has its answer.
func (b *readBody) Wanted() bool { return !b.call.answered }

// Message demands a node that has applied the client's index.
func (b *readBody) Message(seq uint64) *holdfastv1.ClientMessage {
	q := b.call.Query
	q.Options.Seen, q.Watch = max(q.Options.Seen, b.m.conns.Stamp()), b.call.Watch != nil
	if b.call.of != nil {
		q.Session = uint64(b.call.of.h.ID())
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Read{Read: wire.QueryProto(seq, q)}}
}

func (m *Manager) readAnswered(c *conn.Conn, b *readBody, answer *holdfastv1.TreeAnswer) {
	call := b.call
	found, err := wire.TreeAnswerFrom(answer)
	if err == nil && found.Kind != call.Query.Kind {
		err = &session.FieldError{Field: "answer", Limit: "of the requested kind"}
	}
	m.DeliveredUpTo(c, found.Stamp)
	if m.sessions.Len() == 0 || call.Query.Options.Linearizable {
		m.conns.Served(c)
	}
	if call.of != nil {
		m.markBusy(call.of) // the next read has a free slot
	}
	if m.mayMissWrite(call) {
		m.queueAgain(b)
		return
	}
	switch {
	case call.Watch == nil || err != nil:
	case call.answered:
		m.watchUnwanted(c, call, found)
	default:
		m.watchSet(c, call, found)
	}
	m.answer(call, Done{Answer: found, Err: err})
}

func (m *Manager) readRefused(c *conn.Conn, r *window.Request, b *readBody, err error) {
	call := b.call
	if call.answered {
		return
	}
	before := call.last
	call.last = err
	verdict := route.Classify(err)
	switch {
	case call.of != nil && (errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrExpired)):
		if call.of.h.ServedBy(c, r.Seq) {
			m.sessions.LostAt(c, call.of.h, err)
		}
		m.queueAgain(b)
	case errors.Is(err, session.ErrLagging):
		m.conns.Retry(c, r, err)
		if call.lagged++; call.lagged%maxLagged == 0 {
			m.conns.Leave(c, err)
		}
	case verdict == route.Final && m.mayMissWrite(call):
		call.last = before // the refusal concerns the entry's state before the write
		m.queueAgain(b)
	case verdict == route.Final:
		m.answer(call, Done{Err: err})
	case verdict == route.Elsewhere:
		m.conns.Retry(c, r, err)
		m.conns.Leave(c, err)
	default:
		m.conns.Retry(c, r, err)
	}
}

// mayMissWrite reports whether an answer to a read may miss an earlier write of its session (G3): the write is
// unanswered, so a node has refused it temporarily, or it was sent on a former attachment, and is sent again.
func (m *Manager) mayMissWrite(call *Call) bool {
	if call.of == nil || call.answered || !m.sessions.Holds(call.of.h) {
		return false
	}
	w := call.of.writes.Oldest()
	if w == nil {
		return false
	}
	earlier, ok := w.Body.(*Call)
	return ok && earlier.after <= call.after
}

// queueAgain queues a read again: a read of a session behind the writes that were called before it, any other read
// before the queued reads.
func (m *Manager) queueAgain(b *readBody) {
	s := b.call.of
	switch {
	case b.call.answered:
	case s == nil:
		m.reads = slices.Insert(m.reads, 0, b)
	case m.sessions.Holds(s.h):
		at, _ := slices.BinarySearchFunc(s.reads, b.call.after, func(r *readBody, after uint64) int {
			return cmp.Compare(r.call.after, after)
		})
		s.reads = slices.Insert(s.reads, at, b)
		m.markBusy(s)
	}
}

// kindSet returns the kind of the watch that a read with a watch has set (V4 resumed watches).
func kindSet(q tree.Query, found tree.Answer) tree.WatchKind {
	kind := q.WatchKind()
	if kind == tree.WatchExists && found.Exists {
		return tree.WatchData
	}
	return kind
}
