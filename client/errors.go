package client

import (
	"errors"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// Errors of the SDK; those of the domain are in package session.
var (
	// ErrLapsed is the cause of a session's [Session.Context] when the last promise ran out: from then on the cluster
	// may expire the session. It may come back, see [Session.Context].
	ErrLapsed = errors.New("promise has run out: the session may expire")
	// ErrUnreachable: no node answered when all were asked last, or none that may know the local session that was asked
	// about. What the attempts ran into is wrapped too.
	ErrUnreachable = route.ErrUnreachable
	// ErrHeld: the client holds the session already.
	ErrHeld = errors.New("client holds the session already")
)

// dead reports whether err, the answer to a resume or a touch, ends a session for its client. Anything else leaves the
// session alone: it is worth more than the patience of one more try.
func dead(err error) bool {
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrBadCredential) ||
		errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrInvalid)
}
