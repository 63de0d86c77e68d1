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

// ErrUnreachable says that no node answered; the SDK re-exports it.
var ErrUnreachable = errors.New("no node of the cluster can be reached")

// ErrSlow reports that a node has not answered in time.
var ErrSlow = errors.New("no answer in time")

// unreachableError is [ErrUnreachable] with the error of the attempt at one node.
type unreachableError struct {
	address string
	err     error
}

// Unreachable returns an [ErrUnreachable] with the error of the attempt at one node.
func Unreachable(address string, err error) error { return &unreachableError{address, err} }

func (e *unreachableError) Error() string { return ErrUnreachable.Error() + ": " + e.alone().Error() }

func (e *unreachableError) Is(target error) bool { return target == ErrUnreachable }

func (e *unreachableError) Unwrap() error { return e.err }

// alone returns the node's own error, without the obstacles of other nodes.
func (e *unreachableError) alone() error { return fmt.Errorf("%s: %w", e.address, e.err) }

// verdict is the consequence of a refusal for a request.
type verdict uint8

const (
	// Final reports whether asking again changes nothing.
	Final verdict = iota
	// Again reports whether the same node may answer otherwise a little later.
	Again
	// Elsewhere says that another node may answer differently.
	Elsewhere
)

// Classify returns what a refused request does next.
func Classify(err error) verdict {
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

// Denied reports whether err denies the client itself: the nodes do not know the client or its roles do not suffice, or
// the two sides disagree about TLS. A retry at the node is denied again. Of joined errors each must be a denial.
func Denied(err error) bool {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !Denied(one) })
	}
	return errors.Is(err, session.ErrUnauthenticated) || errors.Is(err, session.ErrForbidden) ||
		errors.Is(err, session.ErrTLS)
}

// passes reports whether err is a temporary limit: the node names a retry time. Other limits bound what a client holds
// or sends.
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
