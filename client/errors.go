package client

import (
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
)

// Errors of the SDK. Package session has the errors of the domain.
var (
	// ErrLapsed is the cause of the end of a [Session.Context] when the last promise ran out. From then on the cluster
	// may expire the session. The session may also get a new promise, see [Session.Context].
	ErrLapsed = sessions.ErrLapsed
	// ErrUnreachable: no node answered in the last round over all of them. For a local session: no node answered that
	// may know the session. ErrUnreachable also wraps the errors of the attempts.
	ErrUnreachable = route.ErrUnreachable
	// ErrHeld: the client, or another client of its pool, holds the session already.
	ErrHeld = sessions.ErrHeld
)
