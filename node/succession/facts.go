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
	// Follows says that Raft is in the state of a follower: it does not stand, and does not lead.
	Follows bool
	// Silence is how long ago Raft heard of its leader, or voted.
	Silence time.Duration
	// Last returns the last entry of this node's log. It is called only while somebody stands.
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

// Finding is the answer of an address at which the leader was asked whether it leads.
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
	// Silent says that nothing was heard of the leader for long, although its connections are open. It is no finding of
	// a look.
	Silent
)

// String returns the finding in words.
func (f Finding) String() string {
	return [...]string{
		"no answer", "connection refused", "it leads", "it does not lead", "nothing heard",
	}[f]
}
