package client

import (
	"holdfast/client/internal/core"
	"holdfast/client/internal/route"
)

// Errors of the SDK; those of the domain are in package session.
var (
	// ErrLapsed is the cause of a session's [Session.Context] when the last promise ran out: from then on the cluster
	// may expire the session. It may come back, see [Session.Context].
	ErrLapsed = core.ErrLapsed
	// ErrUnreachable: no node answered when all were asked last, or none that may know the local session that was asked
	// about. What the attempts ran into is wrapped too.
	ErrUnreachable = route.ErrUnreachable
	// ErrHeld: the client holds the session already.
	ErrHeld = core.ErrHeld
)
