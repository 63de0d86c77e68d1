package writes

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Applied takes what an entry has decided about writes, in the order of the log, and returns the answers that go to
// clients of this node (W4). A copy that the state refused without taking its number makes its session go back (X7), so
// clients never hear of it.
//
// Moves and ends in the same entry are told before, by [Table.Moved] and [Table.Gone].
func (t *Table) Applied(wrote []Outcome, now time.Time) (answers []Outcome) {
	for _, one := range wrote {
		q := t.queues[one.Session]
		if q == nil || q.attachment != one.Attachment {
			continue
		}
		if why, ok := refusalOf(one.Err); ok {
			t.refused(q, one.Number, why, now)
			continue
		}
		if t.answer(q, one.Number) {
			answers = append(answers, one)
		}
		t.schedule(q, now)
	}
	return answers
}

// refusalOf reports whether the state left a write's number free, so that the write must be sent again.
func refusalOf(err error) (refusal, bool) {
	if err == nil {
		return refusal{}, false // before the targets, which are allocated
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
	case errors.As(err, &limit): // its entry had no position left (D2)
		return refusal{wait: limit.RetryAfter}, true
	default:
		return refusal{}, false
	}
}

// answer notes that a write is answered. It reports false if it was before.
func (t *Table) answer(q *queue, number uint64) bool {
	p := q.find(number)
	if p == nil {
		return false
	}
	q.answered(p, t.limits.Unanswered)
	if len(q.pending) == 0 {
		t.deactivate(q)
	}
	return true
}

// Skipped takes a new state after a restore, or after a lane has skipped entries. It answers from kept results, and
// goes back to send the rest again (W4, X7). A number that was taken and has no result any more is unknown.
//
// ended returns nil for an attachment that can still write in the new state, otherwise a [session.MovedError] or a
// [session.ExpiredError]: the outcome of all its unanswered writes. Without it, results of another client process would
// pass for answers.
func (t *Table) Skipped(view View, ended func(id session.ID, attachment uint64) error, now time.Time) []Outcome {
	var answers []Outcome
	for _, q := range slices.Backward(t.active) { // a queue that ends gives its place to the last one, which was seen
		if err := ended(q.session, q.attachment); err != nil {
			answers = append(answers, t.end(q, err)...)
			continue
		}
		answers = append(answers, t.kept(q, view)...)
		q.rewind(t.limits.Unanswered)
		t.schedule(q, now)
	}
	return answers
}

// kept answers the writes of a session whose numbers are taken.
func (t *Table) kept(q *queue, view View) (answers []Outcome) {
	state, _ := view.Writer(uint64(q.session))
	for number := q.lowest; number <= state.Applied && number < q.expected(); number++ {
		one := Outcome{Session: q.session, Attachment: q.attachment, Number: number}
		var ok bool
		if one.Result, ok = view.Result(uint64(q.session), number); !ok {
			one.Err = fmt.Errorf("%w: the result of write %d is gone", session.ErrOutcomeUnknown, number)
		}
		if t.answer(q, number) {
			answers = append(answers, one)
		}
	}
	return answers
}
