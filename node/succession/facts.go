package succession

import (
	"slices"
	"time"

	"holdfast/session"
)

// Entry is the last entry of a log.
type Entry struct{ Term, Index uint64 }

// Before reports whether a log that ends with e is shorter, by Raft's comparison, than a log that ends with other.
func (e Entry) Before(other Entry) bool {
	return e.Term < other.Term || e.Term == other.Term && e.Index < other.Index
}

// Links are the connections that a node has opened to this node's Raft port.
type Links struct {
	// Open is the number of open connections. Opened is the number of connections so far.
	Open   int
	Opened uint64
	// Lost says that the other side ended the last of them.
	Lost bool
}

// Facts are what Raft and its network say at the moment of an event.
type Facts struct {
	// Term is Raft's term. Leader is the leader that Raft knows, 0 for none; Leads says that it is this node.
	Term   uint64
	Leader session.Node
	Leads  bool
	// Follows says that Raft is in the state of a follower: it neither campaigns nor leads.
	Follows bool
	// Silence is the time since Raft last received a heartbeat, or voted.
	Silence time.Duration
	// Last returns the last entry of this node's log. It is called only while a voter asks for backing.
	Last func() Entry
	// Voters are the voters of the newest configuration.
	Voters []session.Node
	// Links are the connections of the leader, or of the node that a question names as the leader.
	Links func(session.Node) Links
}

// votes reports whether a node is a voter.
func (f Facts) votes(node session.Node) bool { return slices.Contains(f.Voters, node) }

// Question is what a voter asks another: back me, because the leader of the term is gone.
type Question struct {
	Leader session.Node
	Term   uint64
	Last   Entry
}

// Finding is the answer of the leader's address to a probe: whether the leader leads.
type Finding uint8

// Findings.
const (
	// Unclear is any answer that says nothing about the leader: none yet, or an error.
	Unclear Finding = iota
	// Refused says that no process listens at the address.
	Refused
	// Leading and NotLeading are what the process there says of the term.
	Leading
	NotLeading
	// Silent says that the leader sent no heartbeat for long, although its connections are open. No probe finds it.
	Silent
)

// String returns the finding in words.
func (f Finding) String() string {
	return [...]string{
		"no answer", "connection refused", "it leads", "it does not lead", "no heartbeat",
	}[f]
}
