package core

import (
	"errors"
	"slices"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/client/internal/writes"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// branch is what a session does with the tree.
type branch struct {
	queue *writes.Queue
	// called counts its writes, also such as have no number yet. calls are those without an answer.
	called uint64
	calls  map[*TreeCall]struct{}
	// reads wait to be sent, in their order.
	reads []*readBody
	// gone is how many of their callers have given up, as in a forest.
	gone int
	// told is the newest acknowledgement that was sent on this attachment.
	told uint64
	// resuming: the session has to be resumed before it writes.
	resuming bool
	// upgrade makes a local session global; nil when none was asked for.
	upgrade *Call
	// lost is why the session can write no more.
	lost error
}

// Write changes the tree.
type Write struct {
	Call    *TreeCall
	Session *Session
}

func (in Write) happen(c *Core) {
	call, h := in.Call, in.Session
	c.trees()
	if !c.holds(h) {
		c.done(call, Done{Err: errors.Join(ErrNoEffect, h.err)})
		return
	}
	b := c.branchOf(h)
	err := b.lost
	if err == nil {
		size := call.Transaction.Size()
		if call.Will != nil {
			size += call.Will.Transaction.Size()
		}
		call.write, err = b.queue.Push(call, size)
	}
	if err != nil {
		c.done(call, Done{Err: errors.Join(ErrNoEffect, err)})
		return
	}
	b.called++
	call.h, call.after = h, b.called
	b.calls[call] = struct{}{}
	c.busy(h)
}

// branchOf returns the branch of a session, which the first call makes.
func (l *ledger) branchOf(h *Session) *branch {
	if h.branch == nil {
		l.trees()
		h.branch = &branch{queue: writes.New(), calls: make(map[*TreeCall]struct{})}
		if h.on != nil {
			_, _ = h.branch.queue.Resumed(0, 0) // nothing to lose: the session has not written
		}
	}
	return h.branch
}

// graft goes on with the writes of a session that a node has begun to serve (X4).
func (l *ledger) graft(h *Session, g session.Grant) {
	if h.branch == nil && g.Applied == 0 {
		return
	}
	b := l.branchOf(h)
	b.resuming, b.told = false, 0
	told, err := b.queue.Resumed(g.Applied, g.Floor)
	l.fates(told)
	if err != nil {
		b.lost = err
		for call := range b.calls {
			call.last = err
			l.fates(b.queue.GiveUp(call.write))
		}
	}
	if b.queue.Acked() > 0 {
		l.forest.unacked[h] = struct{}{}
	}
	l.busy(h)
}

// endBranch says what became of the writes and reads of a session that has ended (X9).
func (l *ledger) endBranch(h *Session, err error) {
	b := h.branch
	if b == nil {
		return
	}
	delete(l.forest.busy, h)
	delete(l.forest.paused, h)
	delete(l.forest.unacked, h)
	var left *session.Left
	if expired, ok := errors.AsType[*session.ExpiredError](err); ok && expired.Certificate != nil {
		left = &expired.Certificate.Left
	}
	for call := range b.calls {
		call.last = err
	}
	l.fates(b.queue.Ended(left, l.cfg.Instance))
	for call := range l.forest.calls {
		if call.h == h {
			l.done(call, Done{Err: err})
		}
	}
}

// fates answers the callers of writes.
func (l *ledger) fates(all []writes.Told) {
	for _, t := range all {
		call, ok := t.Write.Body.(*TreeCall)
		if !ok || t.Late {
			continue // the caller waits no longer
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
		l.done(call, d)
	}
}

// tendBranch sends the reads and writes of a session, as far as they may go out. It reports false when there is more to
// send as soon as a read has its answer.
func (q *requests) tendBranch(h *Session) bool {
	b, c := h.branch, h.on
	if c == nil || !c.up || b.resuming {
		return true // looked at again with the next attachment
	}
	if len(b.reads) == 0 && b.queue.Unanswered() == 0 {
		delete(q.forest.paused, h)
		return true
	}
	for {
		if !q.sendReads(h, c) {
			return false
		}
		if h.token.Local {
			q.upgradeToWrite(h)
			return true
		}
		if q.forest.watches.behind(c) { // as reads (I13)
			return false
		}
		s, ok := b.queue.Next(q.now)
		if !ok {
			break
		}
		b.told = s.Acked
		delete(q.forest.unacked, h)
		q.beside(c, &writeBody{h, s})
	}
	delete(q.forest.paused, h)
	if at, ok := b.queue.Wake(); ok && at.After(q.now) {
		q.forest.paused[h] = at
	}
	return true
}

// refuseAll refuses the writes and reads of a session that were not sent yet.
func (q *requests) refuseAll(h *Session, err error) {
	b := h.branch
	for call := range b.calls {
		if call.write.Number() == 0 {
			call.last = err
			q.fates(b.queue.GiveUp(call.write))
		}
	}
	reads := b.reads
	b.reads = nil
	for _, r := range reads {
		q.done(r.call, Done{Err: err})
	}
}

// upgradeToWrite makes a local session global, which then writes (U4).
func (q *requests) upgradeToWrite(h *Session) {
	b := h.branch
	if b.queue.Unanswered() == 0 {
		return
	}
	if b.upgrade == nil || b.upgrade.settled && errors.Is(b.upgrade.last, session.ErrOutcomeUnknown) {
		b.upgrade = &Call{inner: true, h: h, upgrades: true}
		h.upgrading = append(h.upgrading, b.upgrade)
		if len(h.upgrading) == 1 {
			q.queueUpgrade(h)
		}
		return
	}
	if b.upgrade.settled && b.upgrade.last != nil {
		err := errors.Join(session.ErrLocalSession, b.upgrade.last)
		b.upgrade = nil
		q.refuseAll(h, err)
	}
}

// writeBody is a write of a session.
type writeBody struct {
	h    *Session
	send writes.Send
}

// Wanted is true: a number that was sent is never left out (X6).
func (b *writeBody) Wanted() bool { return true }

func (b *writeBody) message(_ *ledger, seq uint64) *holdfastv1.ClientMessage {
	m := &holdfastv1.ClientMessage{}
	w := tree.NumberedWrite{
		Session: uint64(b.h.id), Number: b.send.Number, Acked: b.send.Acked, Void: b.send.Void,
	}
	if call, ok := b.send.Body.(*TreeCall); ok {
		w.Transaction, w.Will = call.Transaction, call.Will
		m.Trace = call.Trace.Bytes()
	}
	m.Message = &holdfastv1.ClientMessage_Write{Write: wire.WriteProto(seq, w)}
	return m
}

func (a *answers) written(c *Conn, b *writeBody, m *holdfastv1.Written) {
	if !a.holds(b.h) {
		return
	}
	result, err := wire.WrittenFrom(m)
	if err != nil {
		err = errors.Join(session.ErrOutcomeUnknown, err)
	}
	a.toldUpTo(c, result.Stamp)
	a.servedFor(c, b.h.token)
	a.writeAnswered(b.h, b.send.Number, writes.Answer{Result: result, Void: result.Void, Err: err})
}

func (a *answers) writeAnswered(h *Session, number uint64, as writes.Answer) {
	branch := h.branch
	if !a.holds(h) {
		return
	}
	a.fates(branch.queue.Answered(number, as))
	if branch.queue.Acked() > branch.told {
		a.forest.unacked[h] = struct{}{}
	}
	a.busy(h)
}

// writeRefused handles a refusal, which leaves the write's number free unless it says that the result is gone. One from
// before the present attachment says nothing: its write was sent again, or will be.
func (a *answers) writeRefused(c *Conn, r *window.Request, b *writeBody, err error) {
	h := b.h
	switch {
	case !a.holds(h):
		return
	case h.on != c || r.Seq <= h.since:
		return
	case errors.Is(err, session.ErrOutcomeUnknown) && h.branch.queue.Taken(b.send.Number):
		a.writeAnswered(h, b.send.Number, writes.Answer{Err: err})
		return
	}
	for call := range h.branch.calls {
		if call.write.Number() == b.send.Number {
			call.last = err
		}
	}
	refused := h.branch.queue.Refused(b.send.Number, err, a.now)
	a.busy(h)
	switch {
	case refused == nil:
		if route.Judge(err) == route.Elsewhere {
			a.leave(c, err)
		}
	case errors.Is(refused, session.ErrMoved):
		a.moved(h, c, holder(err))
	case errors.Is(refused, session.ErrExpired):
		a.expired(h, err)
	case !h.branch.resuming: // X5, or the node's numbers are not those of this attachment
		h.branch.resuming = true
		if h.resuming == nil {
			a.queueResume(c, h)
		}
	}
}

// acknowledge adds the results that have arrived since the node was told (X1).
func (l *ledger) acknowledge(c *Conn, touch *holdfastv1.Touch) {
	if l.forest == nil || c == nil {
		return
	}
	for h := range l.forest.unacked {
		if h.on != c || len(touch.GetAckedIds()) == session.MaxTouchBatch {
			continue
		}
		h.branch.told = h.branch.queue.Acked()
		touch.AckedIds = append(touch.AckedIds, uint64(h.id))
		touch.Acked = append(touch.Acked, h.branch.told)
		delete(l.forest.unacked, h)
	}
}

func byID(x, y *Session) int { return slices.Compare([]session.ID{x.id}, []session.ID{y.id}) }
