package dispatch

import (
	"time"

	"holdfast/learner/tree/pending"
	"holdfast/tree"
	"holdfast/watch"
)

// Read is a read of a connection.
type Read struct {
	// Key is the caller's key for the request, which the answer carries.
	Key   uint64
	Query tree.Query
	// Attachment is the attachment of Query.Session; 0 without a session.
	Attachment uint64
	// Bytes is the memory of the waiting request (G8 request bounds).
	Bytes int
	// Until is the time at which a wait for an index ends with [session.ErrLagging] (M5 lagging, not expired).
	Until time.Time
}

// Write is a write of a connection. Key is the caller's key for the request, which the answer carries.
type Write struct {
	Key uint64
	pending.Write
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
	// Stamp is the stamp of the dispatcher's tree for a read, and the write's own position in the log for a write (G4
	// stamps of answers). A write that repeats an earlier one has a Result with an older stamp, from its effect.
	Stamp tree.Stamp
	// Read is the answer to a read. Result is the kept result of a write; nil for other requests.
	Read   tree.Answer
	Result []byte
	// Err is the refusal of the request, or session.ErrOutcomeUnknown for a write whose result is gone.
	Err error
	// Lost says that watches were added, but the ring no longer has all changes since the client left (V4).
	Lost bool
	// Removed counts the removed watches.
	Removed int
	// More is the end of a portion of the changes since the client left. The portion was delivered, and no watch was
	// added.
	More *tree.Portion

	// bytes is the largest possible size of the answer until it is filled, and then its size; filled says that all
	// fields above are set. guarded by Conn.mu
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

// Request is a request without an answer yet. It belongs to its dispatcher.
type Request struct {
	conn  *Conn
	queue *sessionQueue // nil for a request without a session
	kind  kind
	key   uint64
	bytes int
	until time.Time

	query    tree.Query
	addition tree.Addition
	// passed is called in the turn of a barrier.
	passed  func()
	write   Write
	refusal error

	// index is the index that the dispatcher must reach. awaitsIndex says that the leader has not answered with the
	// index yet (G5 linearizable reads).
	index       uint64
	awaitsIndex bool
	// place is the request's position in the heap of requests that wait for an index, plus 1; 0 for none.
	place   int
	blocked bool // for lack of memory (G9 answer bounds)
	// reserved are bytes of the connection's answers for a read that later writes have passed; 0 for other requests.
	reserved int
}

// kind is the kind of a [Request].
type kind uint8

const (
	reading kind = iota
	adding
	writing
	refusing
	barrier
)

// options returns how fresh the dispatcher's tree must be.
func (p *Request) options() tree.ReadOptions {
	if p.kind == adding {
		return p.addition.Options
	}
	return p.query.Options
}

// seen returns the index that the client has seen, which the dispatcher must reach before it answers (N4 seen index, V4
// resumed watches).
func (p *Request) seen() uint64 {
	return max(p.options().Seen, p.addition.Since).Index()
}

// largest returns the largest size of the answer to a read; for a whole list, the size with names of a usual length.
// stat is the entry's.
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

// maxACL is the approximate largest size of an access list.
const maxACL = 16 << 10

// watches converts an addition's watches to those of package watch.
func watches(a *tree.Addition) []watch.Watch {
	all := make([]watch.Watch, len(a.Watches))
	for i, w := range a.Watches {
		all[i] = watch.Watch{Path: w.Path, Kind: w.Kind}
	}
	return all
}
