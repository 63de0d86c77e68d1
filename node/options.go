package node

import (
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"holdfast/fsm"
	"holdfast/learner"
	"holdfast/learner/writes"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// Options are what a node needs besides its configuration.
type Options struct {
	// Logger may not be nil.
	Logger hclog.Logger
	// Audit takes the lines about what operators do when there is no audit_file. It should write lines of the level Info,
	// whatever Logger writes. nil is Logger.
	Audit hclog.Logger
	// Network is TCP when nil.
	Network Network
	// Version is shown by GetStatus.
	Version string
	// Applied, when set, is called for each applied entry, in order, by the goroutine that applies. It must return
	// soon.
	Applied func(index, term uint64, changes []session.Change)
	// Disk, when set, wraps the stores of Raft's log and votes, below everything that this package puts around them.
	Disk func(logs raft.LogStore, stable raft.StableStore) (raft.LogStore, raft.StableStore)
	// Clock is the wall clock for ids, certificates and incarnations (O1, T6). nil is time.Now.
	Clock func() time.Time
	// Heard, when set, is called when this node's tracker of a term has received the whole answer of a node to the
	// heartbeat that it sent at a moment. It must return soon.
	Heard func(term uint64, from session.Node, sent time.Time)
	// Members, when set, is called with the members that this node's tracker of a term finds in Raft's newest
	// configuration, first as it begins and then whenever they are others. It must return soon.
	Members func(term uint64, all []session.Member)
	// Expires, when set, is called with the sessions that this node's tracker of a term has just found expired, before
	// the tracker proposes to end them. It must return soon.
	Expires func(term uint64, found []session.Closing)
	// Leads, when set, is called with the term of each tracker that begins. The same term comes again when this node
	// stalled for less than the others take to elect. It must return soon.
	Leads func(term uint64)
	// Local, when set, is called for each local session that opens, gets a new attachment or ends on this node, before
	// the session's client hears of it. It is called again for a repeated open or resume. It must return soon, and
	// several goroutines call it.
	Local func(session.Change)
	// Runs, when set, is called before this node reads its clocks for a promise or a report, by several goroutines. A
	// simulation blocks it while the process is to stand still.
	Runs func()
	// CommitTimeout is how soon a follower hears of a commit when the leader's notice of it was lost (R7). 0 is the
	// default. A simulation spends much of its work on these messages.
	CommitTimeout time.Duration
	// Tree, when set, is called like Applied, and after it, for each entry with commands or clocks: with the tree after
	// the entry, what the entry changed there, and what became of its writes.
	Tree func(now *fsm.Tree, changes []tree.Change, wrote []fsm.Wrote)
	// Memory is the limit of the process's memory. The zero value is none.
	Memory Memory
	// Measures read how much of the machine is used; what is nil reads the machine itself.
	Measures Measures
	// Telling bounds what the node keeps to tell watches; zero values are the defaults. A simulation makes it small.
	Telling learner.Telling
	// Bounds make bounds small that are no settings; zero values are the defaults. All nodes of a cluster have the same. A
	// simulation makes them small.
	Bounds Bounds
	// Link, when set, wraps each link of this node to a leader on another node, with the stream on which its writes go.
	Link func(Link) Link

	// Console, when set, makes what serves /ui/ on the HTTP port.
	Console func(ConsoleHost) Console
	// Origins says where the values of settings come from, for the console: see [config.Origins].
	Origins map[string]string

	// Spans, when set, takes the spans of traces in the place of the collector at trace_endpoint.
	Spans sdktrace.SpanExporter

	// monotonic is the watchdog's clock. A test makes it jump, as if the process had not run.
	monotonic func() time.Time
	// pulse aligns the looks of the node's parts.
	pulse session.Pulse
	// timings are this node's.
	timings *timings
	// traces are this node's.
	traces traces
	// forwards, when set, is told of the streams on which the node's writes go to leaders.
	forwards learner.ForwardEvents
}

// Bounds are bounds of what a cluster keeps that are no settings, or below what settings may be.
type Bounds struct {
	// TreeBytes is the setting max_tree_bytes.
	TreeBytes int64
	// Writers bound what the state keeps of writes (X3), Writes the unanswered writes at a node (X1, W7).
	Writers writers.Limits
	Writes  writes.Limits
}

// Link is a node's stream to a leader, with ForwardLink the stream on which its writes go there.
type Link = learner.ForwardingLink

// ForwardLink is the stream on which a node's writes go to a leader.
type ForwardLink = learner.ForwardLink

// appliedHook lets a function observe the state.
type appliedHook func(index, term uint64, changes []session.Change)

func (h appliedHook) Applied(index, term uint64, changes []session.Change) { h(index, term, changes) }
func (h appliedHook) Restored()                                            {}
