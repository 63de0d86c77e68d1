package client

import (
	"errors"
	"slices"
)

// silent reports that err is no node's word.
func silent(err error) bool { return errors.Is(err, ErrUnreachable) }

// together joins what several nodes had against a call. It is [ErrUnreachable] only if none of them answered.
func together(errs ...error) error {
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil && !silent(err) }) {
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
	if !silent(err) {
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

// obstacle is what stands in the way of a call that goes round the nodes. A node's word outranks that others do not answer: it is
// [ErrUnreachable] only when no node has answered in a whole round.
type obstacle struct {
	before error // of the last whole round
	round  error // of the one under way
}

// met takes what an attempt ran into.
func (o *obstacle) met(err error) {
	if o.round == nil || silent(o.round) || !silent(err) {
		o.round = err
	}
}

// ended begins the next round.
func (o *obstacle) ended() {
	if o.round != nil {
		o.before, o.round = o.round, nil
	}
}

// last returns what stood in the way last, nil for nothing. That nobody has answered yet in a round says nothing of the nodes that it
// has not come to.
func (o *obstacle) last() error {
	if o.round == nil || silent(o.round) && o.before != nil && !silent(o.before) {
		return o.before
	}
	return o.round
}
