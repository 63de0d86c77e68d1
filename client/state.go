package client

import "holdfast/client/internal/core"

// State is what a session is to its application. The states of a session and what leads from one to another are drawn
// in the package's documentation.
type State uint8

// States of a session. The last three are final.
const (
	// StateConnecting: no node serves the session, and the client looks for one. The session lives in the cluster for
	// sure until [Session.SafeUntil], and perhaps longer.
	StateConnecting = State(core.StateConnecting)
	// StateConnected: a node serves the session, and touches count.
	StateConnected = State(core.StateConnected)
	// StateJeopardy: a node serves the session, but touches may not count: the node hears of no leader with a quorum
	// (S4), or what was promised has run out. The client looks for another node.
	StateJeopardy = State(core.StateJeopardy)
	// StateConnectedReadOnly: the client allows read-only nodes, and the node that has its connection is one: it hears
	// of no leader, and serves reads only. Nothing can be written; touches count once there is a leader if the node is
	// the session's owner, and are not sent otherwise. The client looks for a read-write node, and moves there with its
	// session.
	StateConnectedReadOnly = State(core.StateConnectedReadOnly)
	// StateExpired: the cluster has ended the session; a [session.ExpiredError] says what is known of that.
	StateExpired = State(core.StateExpired)
	// StateClosed: the session was closed, or given up, or another client has resumed it; see [Session.Err].
	StateClosed = State(core.StateClosed)
	// StateAuthFailed: the cluster refused the session's credential with [session.ErrBadCredential].
	StateAuthFailed = State(core.StateAuthFailed)
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

// Final reports whether the session has ended: no other state follows.
func (s State) Final() bool { return core.State(s).Final() }
