package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/session"
)

// ErrUnreachable says that no node answered; the SDK shows it under its own name.
var ErrUnreachable = errors.New("no node of the cluster can be reached")

// ErrSlow says that a node has not answered in time.
var ErrSlow = errors.New("no answer in time")

// unreachableError is [ErrUnreachable] with what the attempt at one node ran into.
type unreachableError struct {
	address string
	err     error
}

// Unreachable returns an [ErrUnreachable] of what an attempt at one node ran into.
func Unreachable(address string, err error) error { return &unreachableError{address, err} }

func (e *unreachableError) Error() string { return ErrUnreachable.Error() + ": " + e.alone().Error() }

func (e *unreachableError) Is(target error) bool { return target == ErrUnreachable }

func (e *unreachableError) Unwrap() error { return e.err }

// alone says what befell the node, and nothing of the others.
func (e *unreachableError) alone() error { return fmt.Errorf("%s: %w", e.address, e.err) }

// verdict is what a refusal means for a request.
type verdict uint8

const (
	// Final says that asking again changes nothing.
	Final verdict = iota
	// Again says that the same node may answer otherwise a little later.
	Again
	// Elsewhere says that another node may answer otherwise.
	Elsewhere
)

// Judge says what a refused request does next.
func Judge(err error) verdict {
	switch {
	case errors.Is(err, session.ErrOutcomeUnknown), errors.Is(err, session.ErrClosing),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), passes(err):
		return Again
	case errors.Is(err, session.ErrLagging), errors.Is(err, session.ErrNoLeader), errors.Is(err, session.ErrNotLeader),
		errors.Is(err, session.ErrStopping), errors.Is(err, session.ErrDraining), errors.Is(err, session.ErrReadOnly),
		errors.Is(err, ErrUnreachable), errors.Is(err, session.ErrTLS),
		status.Code(err) == codes.Unavailable:
		return Elsewhere
	default:
		return Final
	}
}

// Denied reports whether err says that nodes deny the client itself: they do not know it or its roles do not suffice, or
// the two sides do not agree on TLS. A node denies it again however often it asks. Of errors that were joined each one
// must say so.
func Denied(err error) bool {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !Denied(one) })
	}
	return errors.Is(err, session.ErrUnauthenticated) || errors.Is(err, session.ErrForbidden) ||
		errors.Is(err, session.ErrTLS)
}

// passes reports whether err is a limit that passes by itself: the node names a retry time. Other limits bound what a
// client holds or sends.
func passes(err error) bool {
	limit, ok := errors.AsType[*session.LimitError](err)
	return ok && limit.RetryAfter > 0
}

// Hint returns how long the server that refused with err asks to wait; 0 when it does not say.
func Hint(err error) time.Duration {
	if limit, ok := errors.AsType[*session.LimitError](err); ok {
		return min(max(limit.RetryAfter, 0), session.MaxRetryAfter)
	}
	return 0
}
