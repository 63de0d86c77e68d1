package session

import (
	"errors"

	"holdfast/session"
)

// State is a session's state for its application.
type State uint8

// States of a session. The last three are final.
const (
	StateConnecting State = iota + 1
	StateConnected
	StateJeopardy
	StateConnectedReadOnly
	StateExpired
	StateClosed
	StateAuthFailed
)

// Final reports whether the session has ended; no other state follows.
func (s State) Final() bool { return s >= StateExpired }

// Kind is the kind of a session's event.
type Kind uint8

// Kinds of events.
const (
	KindConnected Kind = iota + 1
	KindDisconnected
	KindJeopardy
	KindJeopardyEnded
	KindLapsed
	KindRegained
	KindReadOnly
	KindMoved
	KindEnded
)

// trigger is an event that may change a session's state.
type trigger uint8

const (
	served            trigger = iota // a node serves it, and a promise holds
	servedUnpromised                 // a node serves it, without a promise yet
	disconnected                     // no node serves it any more
	endangered                       // its node knows no leader with a quorum (S4 jeopardy)
	onlyReads                        // the node that has the connection is read-only
	counted                          // its node knows a leader again, and a promise holds
	countedUnpromised                // its node knows a leader again, without a promise
	lapsed                           // the promise has run out
	regained                         // there is a promise again
	takenOver                        // another client has resumed it
	closed
	expired
	refused // for its credential
	givenUp
	triggers int = iota
)

// kind returns the kind of event that readers get.
func (t trigger) kind() Kind {
	return [triggers]Kind{
		served: KindConnected, servedUnpromised: KindConnected, disconnected: KindDisconnected, endangered: KindJeopardy,
		onlyReads: KindReadOnly,
		counted:   KindJeopardyEnded, countedUnpromised: KindJeopardyEnded, lapsed: KindLapsed, regained: KindRegained,
		takenOver: KindMoved, closed: KindEnded, expired: KindEnded, refused: KindEnded, givenUp: KindEnded,
	}[t]
}

// ending returns the trigger for the end of a session with err.
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

// sessionStates returns the transitions. The rows of final states, and the columns of ends, follow a rule.
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
