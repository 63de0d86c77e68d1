package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/session"
)

// Errors of the SDK; those of the domain are in package session.
var (
	// ErrLapsed is the cause of a session's [Session.Context] when the last promise ran out: from then on the cluster may
	// expire the session. It may come back, see [Session.Context].
	ErrLapsed = errors.New("promise has run out: the session may expire")
	// ErrUnreachable: no node answered when all were asked last, or none that may know the local session that was asked about. What
	// the attempts ran into is wrapped too.
	ErrUnreachable = errors.New("no node of the cluster can be reached")
	// ErrHeld: the client holds the session already.
	ErrHeld = errors.New("client holds the session already")
)

// unreachableError is [ErrUnreachable] with what the attempt at one node ran into.
type unreachableError struct {
	address string
	err     error
}

func unreachable(address string, err error) error { return &unreachableError{address, err} }

func (e *unreachableError) Error() string { return ErrUnreachable.Error() + ": " + e.alone().Error() }

func (e *unreachableError) Is(target error) bool { return target == ErrUnreachable }

func (e *unreachableError) Unwrap() error { return e.err }

// alone says what befell the node, and nothing of the others.
func (e *unreachableError) alone() error { return fmt.Errorf("%s: %w", e.address, e.err) }

// verdict is what a refusal means for a request.
type verdict uint8

const (
	// final: asking again changes nothing.
	final verdict = iota
	// again: the same node may answer otherwise a little later.
	again
	// elsewhere: another node may answer otherwise.
	elsewhere
)

// judge says what a refused request does next.
func judge(err error) verdict {
	switch {
	case errors.Is(err, session.ErrOutcomeUnknown), errors.Is(err, session.ErrClosing),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), passes(err):
		return again
	case errors.Is(err, session.ErrLagging), errors.Is(err, session.ErrNoLeader), errors.Is(err, session.ErrNotLeader),
		errors.Is(err, session.ErrStopping), errors.Is(err, session.ErrReadOnly), errors.Is(err, ErrUnreachable),
		status.Code(err) == codes.Unavailable:
		return elsewhere
	default:
		return final
	}
}

// passes reports whether err is a limit that passes: of requests under way, which does when some are answered, or one of which the
// node says when. The other limits are of what a client holds or sends.
func passes(err error) bool {
	limit, ok := errors.AsType[*session.LimitError](err)
	return ok && (limit.RetryAfter > 0 || strings.HasPrefix(limit.Name, "requests_"))
}

// hint returns how long the server that refused with err asks to wait; 0 when it does not say.
func hint(err error) time.Duration {
	if limit, ok := errors.AsType[*session.LimitError](err); ok {
		return min(max(limit.RetryAfter, 0), session.MaxRetryAfter)
	}
	return 0
}

// dead reports whether err, the answer to a resume or a touch, ends a session for its client. Anything else leaves the
// session alone: it is worth more than the patience of one more try.
func dead(err error) bool {
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrBadCredential) ||
		errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrInvalid)
}
