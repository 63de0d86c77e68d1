package pending

import (
	"errors"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Applied records an entry's decisions about writes, in the order of the log. A write that the entry answered is no
// longer pending. When the state refuses a copy without using its number, the session goes back (X7), so clients never
// see such a refusal.
//
// The caller reports moves and ends in the same entry first, by [Table.Moved] and [Table.Gone].
func (t *Table) Applied(wrote []Outcome, now time.Time) {
	for _, one := range wrote {
		q := t.queues[one.Session]
		if q == nil || q.attachment != one.Attachment {
			continue
		}
		if why, ok := refusalOf(one.Err); ok {
			t.refused(q, one.Number, why, now)
			continue
		}
		t.acknowledge(q, one.Number)
		t.schedule(q, now)
	}
}

// refusalOf reports whether the state left a write's number unused, so that the write must be sent again.
func refusalOf(err error) (refusal, bool) {
	if err == nil {
		return refusal{}, false // before the targets below, which are allocated
	}
	var (
		gap    *tree.GapError
		window *tree.WindowError
		limit  *session.LimitError
	)
	switch {
	case errors.As(err, &gap):
		return refusal{gap: true}, true
	case errors.As(err, &window):
		return refusal{window: true}, true
	case errors.As(err, &limit): // its entry had no position left (D2 stamps)
		return refusal{wait: limit.RetryAfter}, true
	default:
		return refusal{}, false
	}
}

// acknowledge records that a write is answered.
func (t *Table) acknowledge(q *queue, number uint64) {
	p := q.find(number)
	if p == nil {
		return
	}
	q.acknowledge(p, t.limits.Unanswered)
	if len(q.pending) == 0 {
		t.deactivate(q)
	}
}

// Restored continues at the state of a restored snapshot. Writes whose number the state has used are answered from the
// kept results (W4 answers from applied entries). The rest is sent again (X7 queue of the node).
//
// ended returns nil for an attachment that can still write in the new state, and otherwise the reason: the table then
// drops its queue.
func (t *Table) Restored(view View, ended func(id session.ID, attachment uint64) error, now time.Time) {
	for _, q := range slices.Backward(t.active) { // backward: a dropped queue is replaced by the last
		if ended(q.session, q.attachment) != nil {
			t.drop(q)
			continue
		}
		state, _ := view.Writer(uint64(q.session))
		for number := q.lowest; number <= state.Applied && number < q.expected(); number++ {
			t.acknowledge(q, number)
		}
		q.rewind(t.limits.Unanswered)
		t.schedule(q, now)
	}
}
