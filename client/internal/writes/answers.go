package writes

import (
	"errors"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Answer is what a node says about a write that took its number.
type Answer struct {
	Result any
	// Void says that a void took the number, and not the write (X6).
	Void bool
	// Err is [session.ErrOutcomeUnknown] if the number is taken and the result gone; otherwise nil.
	Err error
}

// Answered takes the answer to a write, and returns what callers hear.
func (q *Queue) Answered(number uint64, a Answer) []Told {
	q.refusals = 0
	w := q.find(number)
	if w == nil {
		return nil
	}
	told := Told{Fate: Done, Result: a.Result}
	switch {
	case a.Err != nil:
		told = Told{Fate: Unknown, Err: a.Err}
	case a.Void:
		told = Told{Fate: Never, Err: w.refusal}
	}
	q.tell(w, told)
	return q.pop()
}

// Refused takes a node's refusal: the write did not take its number at this node. What the queue does depends on err:
//
//   - [tree.GapError]: it goes back to the number that the node names (X8).
//   - [tree.WindowError], [session.ErrLimit], and what else passes: it waits, as long as the node says, and goes on
//     with the write. Each write carries the newest acknowledgement, which makes room (X3).
//   - [session.ErrInvalid] and the like, which do not pass: a void takes the write's
//     number, and the write's caller hears why.
//
// The error is [ErrResume] if there is nothing to go back to, or if the node does not know whether the number is taken
// ([session.ErrOutcomeUnknown], see [Queue.Taken]): the next attachment tells. It is err itself if it is about the
// session and not about this write: [session.ErrMoved], [session.ErrExpired] and [session.ErrNoInstance] (X5).
func (q *Queue) Refused(number uint64, err error, now time.Time) error {
	var gap *tree.GapError
	switch {
	case errors.Is(err, session.ErrMoved), errors.Is(err, session.ErrExpired), errors.Is(err, session.ErrNoInstance):
		return err
	case number < q.lowest:
		return nil // its answer has overtaken a void
	case number >= q.lowest+uint64(q.out):
		return nil // it was not sent since the queue went back: another refusal has told
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
	wait := min(session.BusyRetryAfter<<min(q.refusals-1, 10), mostWait)
	var limit *session.LimitError
	if errors.As(err, &limit) && limit.RetryAfter > 0 {
		wait = min(limit.RetryAfter, session.MaxRetryAfter)
	}
	q.until = now.Add(wait)
	return nil
}

// passes reports whether a refused write may be taken later.
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

// GiveUp says that the caller of a write waits no longer (X6). A write that was never sent is taken back: [Never].
// Otherwise its caller hears [Unknown], and the queue sends a void with the number: a number that was sent is never
// skipped. A later [Told] with Late says which of the two took the number.
func (q *Queue) GiveUp(w *Write) []Told {
	if w.number == 0 {
		for i, one := range q.waiting {
			if one == w {
				q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
				q.waitingBytes -= w.size
				return []Told{{Write: w, Fate: Never}}
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
	return []Told{{Write: w, Fate: Unknown}}
}

// Taken reports whether a number was used up when the present attachment began. Of such a write
// [session.ErrOutcomeUnknown] says that its result is gone. Of a later one it says that the attachment has ended, at a
// node that has not seen all entries before the end (X4): the number may be free, and whoever counts it as used up
// leaves it out for ever.
func (q *Queue) Taken(number uint64) bool { return number <= q.applied }

// Disconnected says that the attachment has ended. The queue sends nothing until [Queue.Resumed].
func (q *Queue) Disconnected() { q.resumed = false }

// Resumed takes the numbers that the session's open, or its move to this process, has told (X4). Unanswered writes
// above floor are sent again under their numbers. Those at or below it stay unknown: another process has had the
// session. Later writes are numbered from the larger of this process's numbers and applied.
//
// The error is a [LostError]; the queue then sends nothing.
func (q *Queue) Resumed(applied, floor uint64) ([]Told, error) {
	if applied < q.Acked() {
		q.resumed = false
		return nil, &LostError{Applied: applied, Answered: q.Acked()}
	}
	if applied >= q.next() {
		floor = applied // others have written above all numbers of this process, so they have had these numbers too
	}
	for _, w := range q.sent {
		if w.told == nil && w.number <= floor {
			q.tell(w, Told{Fate: Unknown, Err: w.refusal})
		}
	}
	all := q.pop()
	if len(q.sent) == 0 {
		q.lowest = max(q.lowest, applied+1)
	}
	q.resumed, q.applied, q.out, q.until, q.refusals = true, applied, 0, time.Time{}, 0
	return all, nil
}

// Ended says that the session has ended (X9). left is what its certificate says, nil if there is none any more. Writes
// that were never sent had no effect.
func (q *Queue) Ended(left *session.Left, instance uint64) []Told {
	for _, w := range q.sent {
		if w.told != nil {
			continue
		}
		fate := Unknown
		if left != nil {
			fate = FateOf(*left, instance, w.number, w.void)
		}
		q.tell(w, Told{Fate: fate, Err: w.refusal})
	}
	all := q.pop()
	for _, w := range q.waiting {
		all = append(all, Told{Write: w, Fate: Never})
	}
	q.waiting, q.waitingBytes, q.resumed = nil, 0, false
	return all
}
