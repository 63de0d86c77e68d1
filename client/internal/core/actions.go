package core

import (
	"time"

	"github.com/hashicorp/go-hclog"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// Action is something to do with a connection: a message to send, or else Do.
type Action struct {
	Conn    *Conn
	Do      Do
	Message *holdfastv1.ClientMessage // of Send
}

// Do says what to do with a connection.
type Do uint8

// What is done with connections.
const (
	Send Do = iota
	// Dial connects, and tells what becomes of that: [Up] and [Received], then [Down].
	Dial
	// HangUp ends the connection, which tells nothing any more.
	HangUp
	// AskMembers asks the node for the members of its cluster, and tells [Members].
	AskMembers
)

// Lookup is a name whose addresses are wanted.
type Lookup struct {
	Round              uint64
	Server, Host, Port string
	Within             time.Duration
}

// Load is how much a client has to do, and where.
type Load struct {
	Sessions int
	// Writes says that there is a connection to a node that is not known to be read-only.
	Writes bool
	// Server is where the connection is; empty for none.
	Server string
}

// Answer is what a caller waits for.
type Answer struct {
	Call    *Call
	Session *Session
	Err     error
}

// Log is a line for the log.
type Log struct {
	Level   hclog.Level
	Message string
	Args    []any
}

// Position is where the connection is, and what its node said of itself last.
type Position struct {
	Address string
	State   session.NodeState
}
