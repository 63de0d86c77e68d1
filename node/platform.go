package node

import (
	"time"

	"github.com/hashicorp/raft"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"holdfast/fsm"
	"holdfast/learner"
	"holdfast/learner/tree/pending"
	"holdfast/node/health"
	"holdfast/node/ports"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// Platform is what a node stands on. Zero values stand for the machine itself and for the usual bounds.
type Platform struct {
	// Network is TCP when nil.
	Network ports.Network
	// Clock is the wall clock for ids, certificates and incarnations (O1 ids from the log, T6 newest stream only). nil
	// is time.Now.
	Clock func() time.Time
	// Runs, when set, is called before this node reads its clocks for a promise or a report, by several goroutines. A
	// simulation blocks it while the process is to stand still.
	Runs func()
	// Disk, when set, wraps the stores of Raft's log and votes, below everything that this package puts around them.
	Disk func(logs raft.LogStore, stable raft.StableStore) (raft.LogStore, raft.StableStore)
	// Measures read how much of the machine is used.
	Measures health.Measures
	// Link, when set, wraps each link of this node to a leader on another node, with the stream for its writes.
	Link func(Link) Link
	// Spans, when set, gets the spans of traces in place of the collector at trace_endpoint.
	Spans sdktrace.SpanExporter
	// CommitTimeout is how soon a follower learns of a commit when the leader's notice of it was lost (R7 commit
	// notices). A simulation spends much of its work on these messages.
	CommitTimeout time.Duration
	// WatchLimits bounds the events that the node keeps for watches.
	WatchLimits learner.WatchLimits
	// Bounds are the same on all nodes of a cluster.
	Bounds Bounds

	// monotonic is the watchdog's clock; nil is time.Now. A test makes it jump, as if the process had not run.
	monotonic func() time.Time
	// writes, when set, are the writes that go to leaders, in the place of those of the node's clients.
	writes learner.PendingWrites
	// noNotices keeps the leader from telling followers of commits at once (R7).
	noNotices bool
}

// withDefaults returns p with the machine's own clocks where none are set.
func (p Platform) withDefaults() Platform {
	if p.Clock == nil {
		p.Clock = time.Now
	}
	if p.monotonic == nil {
		p.monotonic = time.Now
	}
	return p
}

// Observers are functions that a node calls, where they are set. They must return soon.
type Observers struct {
	// Applied is called for each applied entry, in order, by the goroutine that applies.
	Applied func(index, term uint64, changes []session.Change)
	// Tree is called after Applied for each entry with commands or clocks: with the tree after the entry, what the
	// entry changed there, and the outcomes of its writes.
	Tree func(now *fsm.Tree, changes []tree.Change, wrote []fsm.Wrote)
	// OnAnswer is called when this node's tracker of a term has received the whole answer of a node to the heartbeat
	// that it sent at a moment.
	OnAnswer func(term uint64, from session.Node, sent time.Time)
	// Members is called with the members that this node's tracker of a term finds in Raft's newest configuration, first
	// at its beginning and then after each change.
	Members func(term uint64, all []session.Member)
	// Expires is called with the sessions that this node's tracker of a term has just found expired, before the tracker
	// proposes to end them.
	Expires func(term uint64, found []session.Closing)
	// Leads is called with the term of each tracker that begins. The same term comes again when this node stalled for
	// less than the others take to elect.
	Leads func(term uint64)
	// Local is called by several goroutines for each local session that opens, gets a new attachment or ends on this
	// node, before the session's client hears of it. It is called again for a repeated open or resume.
	Local func(session.Change)
}

// Bounds are bounds that are no settings, or lower than settings may be. Zero values stand for the defaults.
type Bounds struct {
	// TreeBytes is the setting max_tree_bytes.
	TreeBytes int64
	// Writers bound what the state keeps of writes (X3 kept results), Writes the unanswered writes at a node (X1
	// numbered writes, W7 size bounds).
	Writers writers.Limits
	Writes  pending.Limits
}

// Link is a node's stream to a leader, with ForwardLink the stream on which its writes go there.
type Link = learner.ForwardingLink

// ForwardLink is the stream on which a node's writes go to a leader.
type ForwardLink = learner.ForwardLink
