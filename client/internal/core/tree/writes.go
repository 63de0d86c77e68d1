package tree

import (
	"errors"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/client/internal/writes"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// Write writes in a session for a caller.
func (m *Manager) Write(call *Call, h *sessions.Session) {
	if !m.sessions.Holds(h) {
		m.answer(call, Done{Err: errors.Join(ErrNoEffect, h.Err())})
		return
	}
	s := m.requestsOf(h)
	err := s.lost
	if err == nil {
		size := call.Transaction.Size()
		if call.Will != nil {
			size += call.Will.Transaction.Size()
		}
		call.write, err = s.writes.Push(call, size)
	}
	if err != nil {
		m.answer(call, Done{Err: errors.Join(ErrNoEffect, err)})
		return
	}
	s.called++
	call.of, call.after = s, s.called
	s.calls[call] = struct{}{}
	m.markBusy(s)
}

// Attached continues the writes of a session that a node has started to serve (X4 a new instance starts anew).
func (m *Manager) Attached(h *sessions.Session, g session.Grant) {
	if m.bySession[h] == nil && g.Applied == 0 {
		return
	}
	s := m.requestsOf(h)
	s.mustResume, s.acked = false, 0
	fates, err := s.writes.Resumed(g.Applied, g.Floor)
	m.answerWrites(fates)
	if err != nil {
		s.lost = err
		for call := range s.calls {
			call.last = err
			m.giveUpWrite(call)
		}
	}
	if s.writes.Acked() > 0 {
		m.unacked[s] = struct{}{}
	}
	m.markBusy(s)
}

// Upgraded sends the writes of a session that has become global, or answers them if it has not.
func (m *Manager) Upgraded(h *sessions.Session) {
	if s := m.bySession[h]; s != nil {
		m.markBusy(s)
	}
}

// Ended answers the writes and reads of a session that has ended (X9 writes in the certificate).
func (m *Manager) Ended(h *sessions.Session, err error) {
	s := m.bySession[h]
	if s == nil {
		return
	}
	delete(m.bySession, h)
	delete(m.busy, s)
	delete(m.paused, s)
	delete(m.unacked, s)
	var left *session.Left
	if expired, ok := errors.AsType[*session.ExpiredError](err); ok && expired.Certificate != nil {
		left = &expired.Certificate.Left
	}
	for call := range s.calls {
		call.last = err
	}
	m.answerWrites(s.writes.Ended(left, m.cfg.Instance))
	for call := range m.calls {
		if call.of == s {
			m.answer(call, Done{Err: err})
		}
	}
}

// answerWrites answers the callers of writes with a known fate.
func (m *Manager) answerWrites(all []writes.Report) {
	for _, t := range all {
		call, ok := t.Write.Body.(*Call)
		if !ok || t.Late {
			continue // the caller has given up
		}
		d := Done{}
		switch t.Fate {
		case writes.Done:
			d.Result, _ = t.Result.(tree.Result)
		case writes.Never:
			d.Err = errors.Join(ErrNoEffect, t.Err, call.last)
		case writes.TookEffect:
			d.Err = errors.Join(ErrResultGone, t.Err, call.last)
		case writes.Unknown:
			d.Err = errors.Join(session.ErrOutcomeUnknown, t.Err, call.last)
		}
		m.answer(call, d)
	}
}

// sendRequests sends a session's reads and writes as far as their order allows. It reports false if requests remain
// that the next answer to a read lets out.
func (m *Manager) sendRequests(s *requests) bool {
	c := s.h.Conn()
	if c == nil || !c.Up() || s.mustResume {
		return true // the next attachment makes the session busy again
	}
	if len(s.reads) == 0 && s.writes.Unanswered() == 0 {
		delete(m.paused, s)
		return true
	}
	for {
		if !m.sendSessionReads(s, c) {
			return false
		}
		if s.h.Local() {
			m.upgradeToWrite(s)
			return true
		}
		if m.watches.catchesUpOn(c) { // writes wait as reads do (I13 no step back)
			return false
		}
		send, ok := s.writes.Next(m.conns.Now())
		if !ok {
			break
		}
		s.acked = send.Acked
		delete(m.unacked, s)
		m.conns.SendDirect(c, &writeBody{s, send})
	}
	delete(m.paused, s)
	if at, ok := s.writes.Wake(); ok && at.After(m.conns.Now()) {
		m.paused[s] = at
	}
	return true
}

// upgradeToWrite makes a local session global, which then writes (U4 the first write upgrades).
func (m *Manager) upgradeToWrite(s *requests) {
	if s.writes.Unanswered() == 0 {
		return
	}
	if s.upgrade == nil {
		s.upgrade = m.sessions.UpgradeForWrites(s.h)
		return
	}
	switch answered, err := s.upgrade.Outcome(); {
	case !answered:
	case errors.Is(err, session.ErrOutcomeUnknown):
		s.upgrade = m.sessions.UpgradeForWrites(s.h)
	case err != nil:
		s.upgrade = nil
		m.refuseUnsent(s, errors.Join(session.ErrLocalSession, err))
	}
}

// refuseUnsent refuses the writes and reads of a session that were not sent yet.
func (m *Manager) refuseUnsent(s *requests, err error) {
	for call := range s.calls {
		if call.write.Number() == 0 {
			call.last = err
			m.answerWrites(s.writes.GiveUp(call.write))
		}
	}
	reads := s.reads
	s.reads = nil
	for _, r := range reads {
		m.answer(r.call, Done{Err: err})
	}
}

// writeBody is a write of a session.
type writeBody struct {
	of   *requests
	send writes.Send
}

// Wanted is true: a number that was sent is never left out (X6 giving up).
func (b *writeBody) Wanted() bool { return true }

// Message numbers the write.
func (b *writeBody) Message(seq uint64) *holdfastv1.ClientMessage {
	m := &holdfastv1.ClientMessage{}
	w := tree.NumberedWrite{
		Session: uint64(b.of.h.ID()), Number: b.send.Number, Acked: b.send.Acked, Void: b.send.Void,
	}
	if call, ok := b.send.Body.(*Call); ok {
		w.Transaction, w.Will = call.Transaction, call.Will
		m.Trace = call.Trace.Bytes()
	}
	m.Message = &holdfastv1.ClientMessage_Write{Write: wire.WriteProto(seq, w)}
	return m
}

func (m *Manager) written(c *conn.Conn, b *writeBody, answer *holdfastv1.Written) {
	s := b.of
	if !m.sessions.Holds(s.h) {
		return
	}
	result, err := wire.WrittenFrom(answer)
	if err != nil {
		err = errors.Join(session.ErrOutcomeUnknown, err)
	}
	m.DeliveredUpTo(c, result.Stamp)
	m.sessions.ServedFor(c, s.h)
	m.writeAnswered(s, b.send.Number, writes.Answer{Result: result, Void: result.Void, Err: err})
}

func (m *Manager) writeAnswered(s *requests, number uint64, answer writes.Answer) {
	if !m.sessions.Holds(s.h) {
		return
	}
	m.answerWrites(s.writes.Answered(number, answer))
	if s.writes.Acked() > s.acked {
		m.unacked[s] = struct{}{}
	}
	m.markBusy(s)
}

// writeRefused handles a refusal, which leaves the write's number free unless it says that the result is gone. A
// refusal from before the present attachment says nothing: its write was sent again, or will be.
func (m *Manager) writeRefused(c *conn.Conn, r *window.Request, b *writeBody, err error) {
	s := b.of
	switch {
	case !m.sessions.Holds(s.h):
		return
	case !s.h.ServedBy(c, r.Seq):
		return
	case errors.Is(err, session.ErrOutcomeUnknown) && s.writes.Used(b.send.Number):
		m.writeAnswered(s, b.send.Number, writes.Answer{Err: err})
		return
	}
	for call := range s.calls {
		if call.write.Number() == b.send.Number {
			call.last = err
		}
	}
	refused := s.writes.Refused(b.send.Number, err, m.conns.Now())
	m.markBusy(s)
	switch {
	case refused == nil:
		if route.Classify(err) == route.Elsewhere {
			m.conns.Leave(c, err)
		}
	case m.sessions.LostAt(c, s.h, refused):
	case !s.mustResume: // X5, or the node's numbers are not those of this attachment
		s.mustResume = true
		if !s.h.Resuming() {
			m.sessions.QueueResume(c, s.h)
		}
	}
}

// giveUpWrite answers the caller of a write that stops waiting. The queue says nothing about a write that a node has
// answered while an earlier write has no answer: its outcome comes too late for the caller.
func (m *Manager) giveUpWrite(call *Call) {
	m.answerWrites(call.of.writes.GiveUp(call.write))
	m.answer(call, Done{Err: errors.Join(session.ErrOutcomeUnknown, call.last)})
}

// outcomeUnknown gives up a write whose answer can no longer arrive on its connection, if the client is configured to
// fail requests in flight and the write lacks UntilAnswered.
func (m *Manager) outcomeUnknown(b *writeBody) {
	call, ok := b.send.Body.(*Call)
	if m.cfg.FailInFlight && ok && !call.UntilAnswered && !call.answered && m.sessions.Holds(b.of.h) {
		m.answerWrites(b.of.writes.GiveUp(call.write))
	}
}

// Acknowledge adds to a touch on c the results that have arrived since the node's last acknowledgement (X1 numbered
// writes).
func (m *Manager) Acknowledge(c *conn.Conn, touch *holdfastv1.Touch) {
	for s := range m.unacked {
		if s.h.Conn() != c || len(touch.GetAckedIds()) == session.MaxTouchBatch {
			continue
		}
		s.acked = s.writes.Acked()
		touch.AckedIds = append(touch.AckedIds, uint64(s.h.ID()))
		touch.Acked = append(touch.Acked, s.acked)
		delete(m.unacked, s)
	}
}
