package lane

import (
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Read is a read that a connection asks for.
type Read struct {
	// Key is the caller's name for the request, which the answer carries.
	Key   uint64
	Query tree.Query
	// Attachment is that of Query.Session; 0 without a session.
	Attachment uint64
	// Bytes is what the request takes while it waits (G8).
	Bytes int
	// Until is the moment at which a wait for an index ends with [session.ErrLagging] (M5).
	Until time.Time
}

// Write is a write that a connection asks for.
type Write struct {
	Key        uint64
	Session    session.ID
	Attachment uint64
	// What follows is for the queue of writes: the lane does not look at it.
	Number, Acked uint64
	Void          bool
	Body          []byte
	Weight        uint32
	// Connection is the node's number of the connection, Principal whose room the write takes.
	Connection, Principal uint64
}

// Addition adds watches to a connection.
type Addition struct {
	Key      uint64
	Addition tree.Addition
	Bytes    int
	Until    time.Time
}

// Answer is the answer to a request.
type Answer struct {
	Key uint64
	// Stamp is that of the lane's tree for a read, and for a write its own position in the log (G4). A write that repeats
	// an earlier one has a Result with an older stamp: that of its effect.
	Stamp tree.Stamp
	// Read is what a read found. Result is what the state keeps of a write; nil for anything else.
	Read   tree.Answer
	Result []byte
	// Err is the refusal of the request, or session.ErrOutcomeUnknown for a write whose result is gone.
	Err error
	// Lost says that watches were added, but that the ring no longer has all changes that they are owed (V4).
	Lost bool
	// Removed counts the watches that were removed.
	Removed int
	// More says how far a part of what lasting watches are owed went, which was told instead of adding them.
	More *tree.Portion

	// bytes is what the answer takes at most until it is filled, and then what it takes; filled says that all of the
	// above is there. guarded by Conn.mu
	bytes  int
	filled bool
}

// Message is an event or an answer.
type Message struct {
	// Answer is nil for an event.
	Answer *Answer
	Event  tree.Event
	// Once says that the event ends a one-shot watch.
	Once bool
}

// Pending is a request that its connection still waits for. It belongs to its lane.
type Pending struct {
	conn  *Conn
	queue *order // nil for a request without a session
	kind  kind
	key   uint64
	bytes int
	until time.Time

	query    tree.Query
	addition tree.Addition
	// passed is called in the turn of a marker.
	passed  func()
	write   Write
	refusal error

	// index is the one that the lane has to reach. unasked says that the leader has not told it yet (G5).
	index   uint64
	unasked bool
	// place is the request's place among those that wait for an index, plus 1; 0: it has none.
	place   int
	blocked bool // for the want of room (G9)
}

// kind is what a [Pending] request is.
type kind uint8

const (
	reading kind = iota
	adding
	writing
	refusing
	marking
)

// options returns how new the lane's tree must be.
func (p *Pending) options() tree.ReadOptions {
	if p.kind == adding {
		return p.addition.Options
	}
	return p.query.Options
}

// seen returns the index that the client has seen, which the lane reaches before it answers (N4, V4).
func (p *Pending) seen() uint64 {
	return max(p.options().Seen, p.addition.Since).Index()
}

// largest returns what the answer to a read may take, at most, and of a whole list what it takes with names of a usual
// length. stat is that of the entry.
func largest(q *tree.Query, stat tree.Stat) int {
	const plain = 256
	switch q.Kind {
	case tree.GetEntry:
		return plain + stat.Bytes
	case tree.ListChildren, tree.ListEphemerals:
		if q.Whole {
			return plain + stat.Children*nameBytes
		}
		if q.PageSize > 0 && !q.WithData {
			return plain + min(tree.MaxPageBytes, q.PageSize*(plain+tree.MaxPath))
		}
		return plain + tree.MaxPageBytes
	case tree.GetACL:
		return plain + len(q.Path) + maxACL
	case tree.GetStat, tree.CheckFence, tree.Sync:
		return plain
	default:
		return plain
	}
}

// maxACL is about what an access list takes, at most.
const maxACL = 16 << 10

// watches returns an addition's watches as package watch names them.
func watches(a *tree.Addition) []watch.Watch {
	all := make([]watch.Watch, len(a.Watches))
	for i, w := range a.Watches {
		all[i] = watch.Watch{Path: w.Path, Kind: w.Kind}
	}
	return all
}
