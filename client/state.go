package client

import (
	"errors"

	"holdfast/session"
)

// State is what a session is to its application. The states of a session and what leads from one to another are drawn
// in the package's documentation.
type State uint8

// States of a session. The last three are final.
const (
	// StateConnecting: no node serves the session, and the client looks for one. The session lives in the cluster for
	// sure until [Session.SafeUntil], and perhaps longer.
	StateConnecting State = iota + 1
	// StateConnected: a node serves the session, and touches count.
	StateConnected
	// StateJeopardy: a node serves the session, but touches may not count: the node hears of no leader with a quorum
	// (S4), or what was promised has run out. The client looks for another node.
	StateJeopardy
	// StateConnectedReadOnly: the client allows read-only nodes, and the node that has its connection is one: it hears
	// of no leader, and serves reads only. Nothing can be written; touches count once there is a leader if the node is
	// the session's owner, and are not sent otherwise. The client looks for a read-write node, and moves there with its
	// session.
	StateConnectedReadOnly
	// StateExpired: the cluster has ended the session; a [session.ExpiredError] says what is known of that.
	StateExpired
	// StateClosed: the session was closed, or given up, or another client has resumed it; see [Session.Err].
	StateClosed
	// StateAuthFailed: the cluster refused the session's credential with [session.ErrBadCredential].
	StateAuthFailed
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
func (s State) Final() bool { return s >= StateExpired }

// trigger is what the loop learns of a session, as far as its state depends on it.
type trigger uint8

const (
	served            trigger = iota // a node serves it, and a promise holds
	servedUnpromised                 // a node serves it, and promises nothing yet
	disconnected                     // no node serves it any more
	endangered                       // its node hears of no leader with a quorum (S4)
	onlyReads                        // the node that has the connection is read-only
	counted                          // its node hears of one again, and a promise holds
	countedUnpromised                // its node hears of one again, and nothing is promised
	lapsed                           // the promise has run out
	regained                         // there is a promise again
	takenOver                        // another client has resumed it
	closed
	expired
	refused // for its credential
	givenUp
	triggers int = iota
)

// kind returns what readers of events call it.
func (t trigger) kind() EventKind {
	return [triggers]EventKind{
		served: Connected, servedUnpromised: Connected, disconnected: Disconnected, endangered: Jeopardy,
		onlyReads: ReadOnly,
		counted:   JeopardyEnded, countedUnpromised: JeopardyEnded, lapsed: Lapsed, regained: Regained,
		takenOver: Moved, closed: Ended, expired: Ended, refused: Ended, givenUp: Ended,
	}[t]
}

// ending returns what a session's end with err is.
func ending(err error) trigger {
	switch {
	case errors.Is(err, session.ErrMoved):
		return takenOver
	case errors.Is(err, session.ErrExpired):
		return expired
	case errors.Is(err, session.ErrBadCredential):
		return refused
	case errors.Is(err, session.ErrClosed):
		return closed
	default:
		return givenUp
	}
}

// transitions is the state machine of a session: the state that follows each state at each trigger.
type transitions [StateAuthFailed + 1][triggers]State

// sessionStates returns the transitions. A new state is a new row, and what leads to it a new trigger: the rows of
// final states, and the columns of ends, fill themselves.
func sessionStates() transitions {
	const c, ok, j, ro = StateConnecting, StateConnected, StateJeopardy, StateConnectedReadOnly
	t := transitions{
		c: {
			served: ok, servedUnpromised: j, disconnected: c, endangered: c, onlyReads: ro, counted: c,
			countedUnpromised: c, lapsed: c, regained: c,
		},
		ok: {
			served: ok, servedUnpromised: j, disconnected: c, endangered: j, onlyReads: ro, counted: ok,
			countedUnpromised: j, lapsed: j, regained: ok,
		},
		j: {
			served: ok, servedUnpromised: j, disconnected: c, endangered: j, onlyReads: ro, counted: ok,
			countedUnpromised: j, lapsed: j, regained: ok,
		},
		ro: {
			served: ok, servedUnpromised: j, disconnected: c, endangered: j, onlyReads: ro, counted: ok,
			countedUnpromised: j, lapsed: ro, regained: ro,
		},
	}
	for from := StateConnecting; from <= StateAuthFailed; from++ {
		if from.Final() {
			for trigger := range t[from] {
				t[from][trigger] = from
			}
			continue
		}
		t[from][takenOver], t[from][closed], t[from][givenUp] = StateClosed, StateClosed, StateClosed
		t[from][expired], t[from][refused] = StateExpired, StateAuthFailed
	}
	return t
}
