package writes

import (
	"errors"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Answer is a node's answer to a write that used its number.
type Answer struct {
	Result any
	// Void reports whether a void used the number instead of the write (X6 giving up).
	Void bool
	// Err is [session.ErrOutcomeUnknown] if the number is used and the result gone; otherwise nil.
	Err error
}

// Answered records the answer to a write, and returns the reports for callers.
func (q *Queue) Answered(number uint64, a Answer) []Report {
	q.refusals = 0
	w := q.find(number)
	if w == nil {
		return nil
	}
	r := Report{Fate: Done, Result: a.Result}
	switch {
	case a.Err != nil:
		r = Report{Fate: Unknown, Err: a.Err}
	case a.Void:
		r = Report{Fate: Never, Err: w.refusal}
	}
	q.setReport(w, r)
	return q.pop()
}

// Refused handles a node's refusal: the write did not use its number at this node. What the queue does depends on err:
//
//   - [tree.GapError]: it goes back to the number that the node names (X8 admission of writes).
//   - [tree.WindowError], [session.ErrLimit], and what else passes: it waits, as long as the node says, and continues
//     with the write. Each write carries the newest acknowledgement, which frees capacity (X3 kept results).
//   - [session.ErrInvalid] and the like, which do not pass: a void takes the write's
//     number, and the write's caller gets the reason.
//
// The error is [ErrResume] if there is no number to return to, or if the node does not know whether the number is used
// ([session.ErrOutcomeUnknown], see [Queue.Used]): the next attachment resolves this. It is err itself if it concerns
// the session rather than this write: [session.ErrMoved], [session.ErrExpired] and [session.ErrNoInstance] (X5 the
// opener's instance).
func (q *Queue) Refused(number uint64, err error, now time.Time) error {
	var gap *tree.GapError
	switch {
	case errors.Is(err, session.ErrMoved), errors.Is(err, session.ErrExpired), errors.Is(err, session.ErrNoInstance):
		return err
	case number < q.lowest:
		return nil // the write's answer has overtaken a void
	case number >= q.lowest+uint64(q.out):
		return nil // not sent since the queue went back: the queue has handled another refusal
	case errors.Is(err, session.ErrOutcomeUnknown):
		return ErrResume
	case errors.As(err, &gap):
		if gap.Expected < q.lowest || gap.Expected >= q.next() {
			return ErrResume
		}
		q.out = min(q.out, int(gap.Expected-q.lowest))
		return nil
	}
	w := q.find(number)
	if w == nil {
		return nil
	}
	q.out = int(number - q.lowest)
	if !passes(err) {
		w.never = w.sends == 1 && !w.void
		q.void(w)
		w.refusal = err
		return nil
	}
	q.refusals++
	wait := min(session.BusyRetryAfter<<min(q.refusals-1, 10), maxWait)
	var limit *session.LimitError
	if errors.As(err, &limit) && limit.RetryAfter > 0 {
		wait = min(limit.RetryAfter, session.MaxRetryAfter)
	}
	q.until = now.Add(wait)
	return nil
}

// passes reports whether a node may accept a refused write later.
func passes(err error) bool {
	for _, final := range []error{session.ErrInvalid, session.ErrLocalSession} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// void sends a void with the number of a write, from now on.
func (q *Queue) void(w *Write) {
	w.void = true
	q.bytes -= w.size
	w.size = 0
	q.out = min(q.out, int(w.number-q.lowest))
}

// GiveUp records that the caller of a write stops waiting (X6). A write that was never sent is cancelled: [Never].
// Otherwise its caller gets [Unknown], and the queue sends a void with the number: a number that was sent is never
// skipped. A later [Report] with Late reports whether write or void used the number.
func (q *Queue) GiveUp(w *Write) []Report {
	if w.number == 0 {
		for i, one := range q.waiting {
			if one == w {
				q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
				q.waitingBytes -= w.size
				return []Report{{Write: w, Fate: Never}}
			}
		}
		return nil
	}
	if w.gaveUp || q.find(w.number) != w {
		return nil
	}
	w.gaveUp = true
	if !w.void {
		q.void(w)
	}
	return []Report{{Write: w, Fate: Unknown}}
}

// Used reports whether a number was used when the present attachment began. For such a write,
// [session.ErrOutcomeUnknown] means that its result is gone. For a later write, the error means that the attachment has
// ended, at a node that has not applied all entries before the end (X4 a new instance starts anew): the number may be
// free, and counting it as used would skip it for ever.
func (q *Queue) Used(number uint64) bool { return number <= q.applied }

// Disconnected reports that the attachment has ended. The queue sends nothing until [Queue.Resumed].
func (q *Queue) Disconnected() { q.resumed = false }

// Resumed records the numbers that the session's open, or its move to this process, has returned (X4). Unanswered
// writes above floor are sent again with their numbers. Writes at or below floor stay unknown: another process has held
// the session. Later writes are numbered from the larger of this process's numbers and applied.
//
// The error is a [LostError]; the queue then sends nothing.
func (q *Queue) Resumed(applied, floor uint64) ([]Report, error) {
	if applied < q.Acked() {
		q.resumed = false
		return nil, &LostError{Applied: applied, Answered: q.Acked()}
	}
	if applied >= q.next() {
		floor = applied // other processes have written, and have used all numbers of this process too
	}
	for _, w := range q.sent {
		if w.report == nil && w.number <= floor {
			q.setReport(w, Report{Fate: Unknown, Err: w.refusal})
		}
	}
	all := q.pop()
	if len(q.sent) == 0 {
		q.lowest = max(q.lowest, applied+1)
	}
	q.resumed, q.applied, q.out, q.until, q.refusals = true, applied, 0, time.Time{}, 0
	return all, nil
}

// Ended ends the queue with the session (X9 writes in the certificate). left comes from its certificate, nil if the
// certificate is gone. Writes that were never sent had no effect.
func (q *Queue) Ended(left *session.Left, instance uint64) []Report {
	for _, w := range q.sent {
		if w.report != nil {
			continue
		}
		fate := Unknown
		if left != nil {
			fate = FateOf(*left, instance, w.number, w.void)
		}
		q.setReport(w, Report{Fate: fate, Err: w.refusal})
	}
	all := q.pop()
	for _, w := range q.waiting {
		all = append(all, Report{Write: w, Fate: Never})
	}
	q.waiting, q.waitingBytes, q.resumed = nil, 0, false
	return all
}
