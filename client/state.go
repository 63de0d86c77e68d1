package client

import (
	sessions "holdfast/client/internal/core/session"
)

// State describes a session as its application sees it. The package's documentation has a drawing of the states and
// their transitions.
type State uint8

// States of a session. The last three are final.
const (
	// StateConnecting: no node serves the session, and the client searches for a node. The session lives in the cluster
	// until [Session.SafeUntil] at least.
	StateConnecting = State(sessions.StateConnecting)
	// StateConnected: a node serves the session, and touches count.
	StateConnected = State(sessions.StateConnected)
	// StateJeopardy: a node serves the session, but touches may not count. The node knows no leader with a quorum (S4
	// jeopardy), or the promise has run out. The client searches for another node.
	StateJeopardy = State(sessions.StateJeopardy)
	// StateConnectedReadOnly: the client allows read-only nodes, and is connected to a read-only node: it knows no
	// leader, and serves only reads. Touches go to the node only if it owns the session, and count once there is a
	// leader. The client searches for a read-write node, and moves there with its session.
	StateConnectedReadOnly = State(sessions.StateConnectedReadOnly)
	// StateExpired: the cluster has ended the session. [Session.Err] is a [session.ExpiredError].
	StateExpired = State(sessions.StateExpired)
	// StateClosed: the session or its client was closed, or another client has resumed the session; see [Session.Err].
	StateClosed = State(sessions.StateClosed)
	// StateAuthFailed: the cluster refused the session's credential with [session.ErrBadCredential].
	StateAuthFailed = State(sessions.StateAuthFailed)
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case StateConnecting:
		return "connecting"
	case StateConnected:
		return "connected"
	case StateJeopardy:
		return "jeopardy"
	case StateConnectedReadOnly:
		return "connected read-only"
	case StateExpired:
		return "expired"
	case StateClosed:
		return "closed"
	case StateAuthFailed:
		return "auth failed"
	default:
		return "unknown"
	}
}

// Final reports whether the session has ended; no other state follows.
func (s State) Final() bool { return sessions.State(s).Final() }
