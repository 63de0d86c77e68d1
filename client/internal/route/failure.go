package route

import (
	"context"
	"errors"
	"slices"
)

// Silent reports that err is no node's word.
func Silent(err error) bool { return errors.Is(err, ErrUnreachable) }

// Late reports whether err says that a caller's time is over.
func Late(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// Together joins what several nodes had against a call. It is unreachable only if none of them answered.
func Together(errs ...error) error {
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil && !Silent(err) }) {
		return errors.Join(errs...)
	}
	told := slices.Clone(errs)
	for i, err := range told {
		told[i] = alone(err)
	}
	return errors.Join(told...)
}

// alone says what befell each node that err tells of, and nothing of the others. What is joined with that stays.
func alone(err error) error {
	if !Silent(err) {
		return err
	}
	switch e := err.(type) { //nolint:errorlint // goes down the tree itself
	case *unreachableError:
		return e.alone()
	case interface{ Unwrap() []error }:
		var each []error
		for _, one := range e.Unwrap() {
			each = append(each, alone(one))
		}
		return errors.Join(each...)
	default:
		return alone(errors.Unwrap(err))
	}
}

// Failure is what stands in the way of a call that goes round the nodes. A node's word outranks that others do not
// answer: it is unreachable only when no node has answered in a whole round.
type Failure struct {
	before error // of the last whole round
	round  error // of the one under way
	// other: a node has said in this round something else than that it denies the client.
	other bool
}

// Met takes what an attempt ran into.
func (o *Failure) Met(err error) {
	if o.round == nil || Silent(o.round) || !Silent(err) {
		o.round = err
	}
	o.other = o.other || !Silent(err) && !Denied(err)
}

// Denial returns why each node that has answered in this round denies the client, nil if one does not, or none has
// answered. Another round would change nothing.
func (o *Failure) Denial() error {
	if o.other || o.round == nil || !Denied(o.round) {
		return nil
	}
	return o.round
}

// Answered reports whether a node has said anything in this round.
func (o *Failure) Answered() bool { return o.round != nil && !Silent(o.round) }

// Ended begins the next round.
func (o *Failure) Ended() {
	if o.round != nil {
		o.before, o.round = o.round, nil
	}
	o.other = false
}

// Last returns what stood in the way last, nil for nothing. That nobody has answered yet in a round says nothing of the
// nodes that it has not come to.
func (o *Failure) Last() error {
	if o.round == nil || Silent(o.round) && o.before != nil && !Silent(o.before) {
		return o.before
	}
	return o.round
}
