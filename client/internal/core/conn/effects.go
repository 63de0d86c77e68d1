package conn

import (
	"time"

	"github.com/hashicorp/go-hclog"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/tree"
)

// Effects are what the caller must carry out, in the order of the fields and of their elements.
type Effects struct {
	// Known outlives the turn.
	Known Known
	// Actions are on connections.
	Actions []Action
	// Lookups are host names to resolve. The caller answers each with [Manager.Resolved].
	Lookups []Lookup
	// Learnt are the addresses that nodes have reported; nil if unchanged.
	Learnt []string
	// Adopted is the server of a new current connection; empty for none.
	Adopted string
	// Logs are for the log.
	Logs []Log
}

// Known is what nodes have reported to the client. Reads and resumes demand nodes that are as far (N4 seen index).
type Known struct {
	// Cluster is the identity of the cluster that Seen and Stamp belong to, 0 until it is known.
	Cluster uint64
	// Seen is the highest index.
	Seen uint64
	// Stamp is the highest stamp of the tree.
	Stamp tree.Stamp
}

// Action is something to do with a connection: a message to send, or else Do.
type Action struct {
	Conn    *Conn
	Do      Do
	Message *holdfastv1.ClientMessage // of Send
}

// Do is an action on a connection.
type Do uint8

// Actions on connections.
const (
	Send Do = iota
	// Dial opens the stream.
	Dial
	// HangUp closes the stream, which reports nothing any more.
	HangUp
	// AskMembers asks the node for the members of its cluster.
	AskMembers
)

// Lookup is a host name to resolve.
type Lookup struct {
	Round              uint64
	Server, Host, Port string
	Within             time.Duration
}

// Log is a line for the log.
type Log struct {
	Level   hclog.Level
	Message string
	Args    []any
}

// Reset empties the effects of the last turn and reuses their memory.
func (e *Effects) Reset() {
	clear(e.Actions)
	clear(e.Lookups)
	clear(e.Logs)
	e.Actions, e.Lookups, e.Logs = e.Actions[:0], e.Lookups[:0], e.Logs[:0]
	e.Learnt, e.Adopted = nil, ""
}

func (m *Manager) do(c *Conn, what Do) {
	m.Effects.Actions = append(m.Effects.Actions, Action{Conn: c, Do: what})
}

// Log adds a line to the log.
func (m *Manager) Log(level hclog.Level, message string, args ...any) {
	m.Effects.Logs = append(m.Effects.Logs, Log{level, message, args})
}
