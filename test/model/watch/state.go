package watch

// The arrays' sizes. An action that would exceed them is not possible until what is there has gone on.
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

// The entries of the tree. Root is the parent of both others. It stays.
const (
	pathA uint8 = iota
	pathB
	pathRoot
)

// What a change does, and with nothing and children what an event tells.
const (
	nothing uint8 = iota
	created
	deleted
	dataSet
	children
)

// State is one moment of the system. It has byte fields only. Fields in a ghost belong to an onlooker: the checks of
// properties read them, the rules do not.
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
	// One says that both changes are of one command, and so have one stamp. Own says that the first command is the
	// client's write.
	One, Own uint8
}

// node is a node with its only lane.
type node struct {
	// Published is the index of the newest root, Lane that of the lane's.
	Published, Lane uint8
	// Start is that of the ring: every change above it is there, but for those of the entries above HoleFrom up to HoleTo,
	// which are missing only where a rule about Start or about the order of publishing is left out.
	Start            stamp
	HoleFrom, HoleTo uint8
	// Restored says that the lane has not passed a snapshot that has replaced the state.
	Restored uint8
}

// kinds is a set of kinds of watches. Each kind has one path here.
type kinds uint8

// The watches that there are: a recursive one of the root, a persistent one of A, and what reads set: one-shots of A's
// data, of A's existence, and of the root's children.
const (
	watchAll = iota
	watchA
	watchData
	watchExists
	watchChild
	watches

	lasting = kinds(1<<watchAll | 1<<watchA)
	// out says of the watches of a question that it is not answered, whatever has become of the watches.
	out = kinds(1 << 7)

	oneShot = kinds(1<<watchData | 1<<watchExists | 1<<watchChild)
)

func (k kinds) has(w int) bool { return k>>w&1 == 1 }

// connection is the client's connection as its node sees it.
type connection struct {
	// Node is 1 more than the node's place in State.Node, 0 without a connection.
	Node uint8
	// Watching are the watches that the lane's table has. Later are those of a read that was answered before they were
	// registered: only where G2 is left out.
	Watching, Later kinds
	// Looked is the node's newest entry when the session was attached: the results of entries up to it are in no ring.
	Looked uint8
	Feed   feed
	// Add are the questions under way: what is owed to watches of a former connection, and new watches.
	Add [2]question
	// Read is the read under way, with the kind of its one-shot, and what the client has seen.
	Read question
	// Write says where the client's write is, and Sent that it was sent on this connection.
	Write, Sent uint8
	// Late is a read whose answer's place was not reserved with the watch: 1 more than the root's index. LateOf is its
	// one-shot. Only where G2 is left out.
	Late   uint8
	LateOf kinds
}

// The questions of a client about watches.
const (
	owed = iota
	fresh
)

// question is a request that waits at a node for the index that the client has seen.
type question struct {
	Asked       kinds
	Since, Seen stamp
}

// Where a write is at a node.
const (
	arrived  uint8 = 1 + iota // it waits for its turn
	accepted                  // it is in the queue of writes, and the lane waits for its result
	ignored                   // the queue has heard of its result, and the lane has not: nobody answers (I18)
)

// client is the SDK's side.
type client struct {
	// On says that the present connection has the watches, or is being asked for them.
	On uint8
	// Live says that the connection watches something. Told is the stamp to come back from, Pending what the node tells
	// while a watch is owed what a former connection missed.
	Live          uint8
	Told, Pending stamp
	// Seen is the highest stamp that a node has told.
	Seen stamp
	// Back and News are the watches of the questions that are not answered.
	Back, News kinds
	Watch      [watches]watched
	// Read is a read that waits to be sent: 1 more than the kind of its one-shot. Out says that one is under way.
	Read, Out uint8
	// Beside is the answer to a read of A with a one-shot through another connection: 1 more than its root's index.
	Beside uint8
	// Write says what has become of the client's write, and Taken that a queue of writes has taken it.
	Write, Taken uint8
	Ghost        reads
}

// What has become of a write.
const (
	calling uint8 = 1 + iota
	answered
)

// reads are what an onlooker notes of answers: the newest root that a read has shown.
type reads struct{ Shown stamp }

// event is what a node tells a watch.
type event struct {
	Stamp      stamp
	Kind, Path uint8
}

// watched is a watch of the client.
type watched struct {
	// Sub says that somebody hears of it, New that somebody will once the node has answered.
	Sub, New uint8
	// As in the SDK: see client/internal/core/watches.go.
	Queued, Asking, Placed, Owed, Mixed uint8
	From, Top, Lost, LostAt, Came       stamp
	Had                                 [maxHad]event
	Replay                              [maxReplay]event
	Replays                             uint8
	Ghost                               heard
}

// wanted reports whether anybody listens.
func (e *watched) wanted() bool { return e.Sub|e.New != 0 }

// heard is what an onlooker notes of a watch.
type heard struct {
	// Since is the root of its registration. Next is the place of the first change that it was not told of, Lost the
	// highest stamp of a LOST, Last the highest stamp that it was told. Doubt is the newest stamp of which it was told
	// one event and not one before.
	Since, Lost, Last, Doubt stamp
	Next                     uint8
}
