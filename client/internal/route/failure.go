package route

import (
	"context"
	"errors"
	"slices"
)

// Silent reports whether err is not a node's answer.
func Silent(err error) bool { return errors.Is(err, ErrUnreachable) }

// Late reports whether err says that a caller's time is over.
func Late(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// Together joins the obstacles of several nodes. The result is unreachable only if no node answered.
func Together(errs ...error) error {
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil && !Silent(err) }) {
		return errors.Join(errs...)
	}
	own := slices.Clone(errs)
	for i, err := range own {
		own[i] = alone(err)
	}
	return errors.Join(own...)
}

// alone returns each node's own error in err, without the obstacles of other nodes. Errors joined with them stay.
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

// Failure is the obstacle of a call that tries all nodes. A node's answer outranks the silence of other nodes: the
// failure is unreachable only when no node has answered in a whole round.
type Failure struct {
	before error // of the last whole round
	round  error // of the current round
	// other: in this round a node has answered with another error than a denial.
	other bool
}

// Met records the error of an attempt.
func (o *Failure) Met(err error) {
	if o.round == nil || Silent(o.round) || !Silent(err) {
		o.round = err
	}
	o.other = o.other || !Silent(err) && !Denied(err)
}

// Denial returns why each node that has answered in this round denies the client; nil if a node does not, or none has
// answered. Another round would change nothing.
func (o *Failure) Denial() error {
	if o.other || o.round == nil || !Denied(o.round) {
		return nil
	}
	return o.round
}

// Answered reports whether a node has answered in this round.
func (o *Failure) Answered() bool { return o.round != nil && !Silent(o.round) }

// Ended begins the next round.
func (o *Failure) Ended() {
	if o.round != nil {
		o.before, o.round = o.round, nil
	}
	o.other = false
}

// Last returns the newest obstacle, nil for none. A round without an answer yet proves nothing about the nodes that it
// has not reached.
func (o *Failure) Last() error {
	if o.round == nil || Silent(o.round) && o.before != nil && !Silent(o.before) {
		return o.before
	}
	return o.round
}
