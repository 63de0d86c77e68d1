package pending

import (
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// StreamBegan records a new stream to the leader. Copies on the former stream may be lost, so every queue goes back (X7
// queue of the node).
func (t *Table) StreamBegan(now time.Time) {
	t.streaming = true
	t.rewind(now)
}

func (t *Table) rewind(now time.Time) {
	for _, q := range t.active {
		q.rewind(t.limits.Unanswered)
		t.schedule(q, now)
	}
}

// StreamEnded records the end of the stream. Nothing is sent before the next one begins.
func (t *Table) StreamEnded() { t.streaming = false }

// Next returns the writes to send now: the writes of each session in order, and connections in turn (W9 fair turns), at
// most [session.MaxPeerBatch] with [session.MaxForwardBytes] together, or one larger write. It returns none when none
// may be sent; the caller then calls it again after any other call, and at [Table.Wake]. If the writes cannot be sent,
// the caller must end the stream.
func (t *Table) Next(now time.Time) (out []session.ForwardedWrite) {
	if !t.streaming {
		return nil
	}
	t.wake(now)
	bytes := 0
	for turn := t.ready.First(); turn != nil && len(out) < session.MaxPeerBatch; turn = t.ready.First() {
		q := turn.Value
		p := q.sends(now)
		if p == nil { // the queue has changed since it was listed
			t.ready.Remove(turn)
			q.listed = false
			t.schedule(q, now)
			continue
		}
		if len(out) > 0 && bytes+p.size() > session.MaxForwardBytes {
			break
		}
		t.ready.Serve(turn)
		q.listed = false
		bytes += p.size()
		out = append(out, t.forwarded(q, p))
		q.out++
		t.list(q, now)
	}
	return out
}

// forwarded returns a write for the log. The write carries the session's newest acknowledgement instead of the
// acknowledgement at its arrival. Otherwise a session that fills its window would get WINDOW for ever, whatever its
// client acknowledges meanwhile (X3).
func (t *Table) forwarded(q *queue, p *entry) session.ForwardedWrite {
	w := p.Write
	w.Acked = min(q.acked, w.Number-1)
	return session.ForwardedWrite{
		Command: t.encode(w), Weight: w.Weight, Session: w.Session, Number: w.Number,
		Connection: q.connection, Principal: q.principal,
	}
}

// Refused records the leader's refusals (W4 answers from applied entries). Their sessions go back, even if the refused
// number has been answered meanwhile (X7).
func (t *Table) Refused(refusals []session.WriteRefusal, now time.Time) {
	for _, r := range refusals {
		t.refused(t.queues[r.Session], r.Number, refusal{wait: r.RetryAfter, gap: r.Why == session.WriteGap}, now)
	}
}

// refused goes back after a copy of a write was refused. q may be nil.
func (t *Table) refused(q *queue, number uint64, why refusal, now time.Time) {
	if q == nil || len(q.pending) == 0 {
		return
	}
	q.refused(number, why, now)
	t.schedule(q, now)
}

// wake processes the queues whose timers have expired.
func (t *Table) wake(now time.Time) {
	for q := t.timers.due(now); q != nil; q = t.timers.due(now) {
		if len(q.pending) == 0 {
			t.quiet = append(t.quiet, q)
			continue
		}
		t.list(q, now)
	}
}

// Wake returns the next time at which [Table.Next] and [Table.Due] must be called without another event; false for
// none: nothing is sent without a stream.
func (t *Table) Wake() (time.Time, bool) {
	if len(t.timers) == 0 || !t.streaming {
		return time.Time{}, false
	}
	return t.timers[0].timer.at, true
}

// Due returns acknowledgements to send for quiet sessions (X3 kept results), at most [tree.MaxAcknowledgements]. It
// returns a session again after another Quiet, until view shows that the state has the acknowledgement: then the table
// forgets the session. Call it again while it returns any.
func (t *Table) Due(view View, now time.Time) (all []session.Acknowledged) {
	if !t.streaming {
		return nil
	}
	t.wake(now)
	for len(t.quiet) > 0 && len(all) < tree.MaxAcknowledgements {
		q := t.quiet[0]
		t.quiet[0] = nil
		t.quiet = t.quiet[1:]
		if len(q.pending) > 0 || q.timer.place > 0 || t.queues[q.session] != q {
			continue // the session has written meanwhile, or is gone
		}
		state, _ := view.Writer(uint64(q.session))
		upTo := min(q.acked, state.Applied)
		switch {
		case upTo > state.Acked:
			all = append(all, session.Acknowledged{Session: q.session, UpTo: upTo})
		case q.began == 0 || q.expected() > state.Applied:
			t.drop(q)
			continue
		default: // the client must go back to a number that the view does not show
		}
		t.timers.set(q, now.Add(t.limits.Quiet))
	}
	return all
}
