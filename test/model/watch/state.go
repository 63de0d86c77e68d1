package watch

// The arrays' sizes. An action that would exceed them is impossible until there is room.
const (
	nodes     = 2
	maxLog    = 4
	maxFeed   = 10
	maxReplay = 5
	maxHad    = 2 // events of one stamp
)

// stamp is the number of a change: the index of its log entry times four, and its position in the entry.
type stamp uint8

func (s stamp) index() uint8 { return uint8(s >> 2) }

// end is the stamp of the root of an index: no change of that entry has a higher one.
func end(index uint8) stamp { return stamp(index<<2 | 3) }

// The entries of the tree. Root is the parent of both others and always exists.
const (
	pathA uint8 = iota
	pathB
	pathRoot
)

// Kinds of changes, and with nothing and children of events.
const (
	nothing uint8 = iota
	created
	deleted
	dataSet
	children
)

// State is one moment of the system. It has only byte fields. Fields in a ghost are for the oracle: only the checks
// of properties read them.
type State struct {
	Spent  Counts
	Log    [maxLog]entry
	Logged uint8
	Node   [nodes]node
	Conn   connection
	Client client
}

// change is a change of one entry of the tree.
type change struct{ Kind, Path uint8 }

// entry is an entry of the log: up to two changes.
type entry struct {
	Changes [2]change
	// One: both changes are of one command, and so have one stamp. Own: the first command is the client's write.
	One, Own uint8
}

// node is a node with its only dispatcher.
type node struct {
	// Published is the index of the newest root, Dispatched that of the dispatcher's.
	Published, Dispatched uint8
	// Start is that of the ring: every change above it is there, but for those of the entries above HoleFrom up to
	// HoleTo, which are missing only where a rule about Start or about the order of publishing is left out.
	Start            stamp
	HoleFrom, HoleTo uint8
	// Restored reports that the dispatcher has not passed a snapshot that has replaced the state.
	Restored uint8
}

// kinds is a set of kinds of watches. Each kind has one path here.
type kinds uint8

// The watches: a recursive watch of the root, a persistent watch of A, and one-shots that reads set: of A's data, of
// A's existence, and of the root's children.
const (
	watchAll = iota
	watchA
	watchData
	watchExists
	watchChild
	watches

	lasting = kinds(1<<watchAll | 1<<watchA)
	// out marks a question as unanswered, whatever happens to its watches.
	out = kinds(1 << 7)

	oneShot = kinds(1<<watchData | 1<<watchExists | 1<<watchChild)
)

func (k kinds) has(w int) bool { return k>>w&1 == 1 }

// connection is the client's connection as its node sees it.
type connection struct {
	// Node is 1 more than the node's place in State.Node, 0 without a connection.
	Node uint8
	// Watching are the watches in the dispatcher's table. Later are those of a read that was answered before they were
	// registered: only where G2 is left out.
	Watching, Later kinds
	// AttachedAt is the node's newest entry when the session was attached. The results of older entries are in no ring.
	AttachedAt uint8
	Feed       feed
	// Add are the pending questions: about due events of a former connection's watches, and about new watches.
	Add [2]question
	// Read is the pending read, with the kind of its one-shot, and the client's stamp.
	Read question
	// Write is where the client's write is, and Sent that it was sent on this connection.
	Write, Sent uint8
	// Late is a read whose answer's place was not reserved with the watch: 1 more than the root's index. LateOf is its
	// one-shot. Only where G2 is left out.
	Late   uint8
	LateOf kinds
}

// The questions of a client about watches.
const (
	catchUp = iota
	newWatches
)

// question is a request that waits at a node for the index that the client has seen.
type question struct {
	Watches     kinds
	Since, Seen stamp
}

// Where a write is at a node.
const (
	arrived  uint8 = 1 + iota // it waits for its turn
	accepted                  // in the queue of writes, and the dispatcher waits for its result
	ignored                   // the queue knows its result, but the dispatcher does not: it stays unanswered (I18)
)

// client is the SDK's side.
type client struct {
	// On: the present connection has the watches, or the request for them.
	On uint8
	// Live: the connection has a watch. Since is the stamp to resume from, Pending the node's notice while a watch
	// waits for events of a former connection.
	Live           uint8
	Since, Pending stamp
	// Seen is the highest stamp that a node has reported.
	Seen stamp
	// CatchUp and Adding are the watches of the questions that are not answered.
	CatchUp, Adding kinds
	Watch           [watches]watched
	// Read is a queued read: 1 more than the kind of its one-shot. Out: a read is in flight.
	Read, Out uint8
	// Beside is the answer to a read of A with a one-shot through another connection: 1 more than its root's index.
	Beside uint8
	// Write is the outcome of the client's write, and Accepted that a queue of writes has accepted it.
	Write, Accepted uint8
	Ghost           reads
}

// Outcomes of a write.
const (
	calling uint8 = 1 + iota
	answered
)

// reads are the oracle's notes about answers: the newest root that a read has shown.
type reads struct{ Shown stamp }

// event is a node's event for a watch.
type event struct {
	Stamp      stamp
	Kind, Path uint8
}

// watched is a watch of the client.
type watched struct {
	// Sub: a watch receives it. New: a watch will receive it once the node has answered.
	Sub, New uint8
	// As in the SDK: see client/internal/core/tree/watches.go.
	Queued, Pending, Placed, CatchingUp, Mixed uint8
	From, Top, Lost, LostAt, Came              stamp
	Had                                        [maxHad]event
	Replay                                     [maxReplay]event
	Replays                                    uint8
	Ghost                                      notes
}

// wanted reports whether the watch has a listener.
func (e *watched) wanted() bool { return e.Sub|e.New != 0 }

// notes are the oracle's notes about a watch.
type notes struct {
	// Since is the root of its registration. Next is the place of the first undelivered change, Lost the highest stamp
	// of a LOST, Last the highest delivered stamp. Doubt is the newest stamp with one delivered event and an
	// undelivered earlier event.
	Since, Lost, Last, Doubt stamp
	Next                     uint8
}
