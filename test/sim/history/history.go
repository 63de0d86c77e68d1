// Package history records a simulated run: clients' requests and answers, what nodes applied, and the injected faults.
// A checker reads it afterwards; a person reads the story of one session.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/session"
)

// Kind is the kind of an event.
type Kind uint8

// Kinds of events: first what clients know, then what nodes did, then faults.
const (
	// Opened: a client's open was answered. Sent is when it was sent, Until the promise.
	Opened Kind = iota + 1
	// Resumed: a client's resume was answered, with a new Attachment.
	Resumed
	// Touched: a node accepted a touch and answered it. Sent is when it was sent, Until the promise, 0 for none.
	Touched
	// Promised: an SDK session's SafeUntil has changed to Until.
	Promised
	// Refused: the request Op was refused, or its call ended without an answer. Unknown is set unless the request
	// certainly had no effect. Text is the reason. Sent is when it was sent.
	Refused
	// CloseSent: a client has sent a close, or has given the session back.
	CloseSent
	// Closed: a close was answered as done.
	Closed
	// LearntMoved: a client learnt that another connection has resumed the session.
	LearntMoved
	// LearntGone: a client learnt that the session has ended.
	LearntGone
	// ContextEnded: the SDK session's context was cancelled.
	ContextEnded
	// Silent: from now on the client sends nothing that proves the session alive.
	Silent
	// Alive: at the end of the run the client holds the session to be alive, safe until Until; Text is its state.
	Alive
	// UpgradeSent: a client has sent the upgrade of a local session.
	UpgradeSent
	// Upgraded: a client learnt that its local session is global, with its Attachment. Sent is when it sent the request, 0
	// if it did not ask.
	Upgraded
	// LearntElsewhere: a client learnt that only the session's own node can know it (L6 unknown local sessions), and
	// has released the session.
	LearntElsewhere
	// Wants: the client begins to try to be served, and continues until the next Opened, Resumed, Touched or Promised of
	// Who with an Until ahead. Every client that is not silent records it when the last fault has ended.
	Wants
	// Shown: a read was answered, with Read or Certificate. Sent is when it was sent. A read that was refused is
	// Refused.
	Shown
	// OnlyReads: an SDK session has become CONNECTED_READ_ONLY.
	OnlyReads
	// TookOver: a call of the client process Instance that deliberately takes the session over has ended, with any
	// result. Sent is when it started.
	TookOver

	// AppliedOpen, AppliedMove and AppliedEnd: a node has applied a change.
	AppliedOpen
	AppliedMove
	AppliedEnd
	// LocalOpened, LocalMoved and LocalEnded: a node has opened a local session, given it a new attachment, or ended
	// it. A repeated request is recorded again. Recorded from node.Observers.Local.
	LocalOpened
	LocalMoved
	LocalEnded
	// Digest: a node's state at Index has the digest Text.
	Digest
	// AppliedTerm: a process of node Who has applied its first entry of Term, at Index. Recorded from
	// node.Observers.Applied, before the entry's changes, and also for an entry without changes.
	AppliedTerm
	// NodeStarted: a process of node Who, whose number is Node, starts. Recorded right before node.New.
	NodeStarted
	// NodeStopped: the process of node Who has ended or was killed. Recorded when none of its actions can have an
	// effect any more.
	NodeStopped
	// AnswerReceived: the leader Who of Term has received the whole answer of Node to the heartbeat that it sent at
	// Sent. Recorded from node.Observers.OnAnswer.
	AnswerReceived
	// Decided: the leader Who of Term decides that the session ID expires with Attachment: pop and mark of E3, before
	// the proposal. Recorded from node.Observers.Expires.
	Decided
	// Leads: the leader Who of Term begins a tracker, not always the first of the term. Recorded from
	// node.Observers.Leads.
	Leads
	// Reset: all connections between Who and the host Text were reset. Bytes in flight were lost.
	Reset
	// Stalled: the process of node Who did not run from the time Sent until now.
	Stalled
	// Refuses and Admits: from now on all dials of Who to the host Text fail at once, or no more.
	Refuses
	Admits

	// FaultBegan and FaultEnded: Text names the fault, with the same text both times. Clean: the fault only ends
	// processes and connections, and refuses new ones.
	FaultBegan
	FaultEnded
	// Healed: no fault is left, and none will come.
	Healed
	// Finished: the run is over.
	Finished

	// Wrote: a write to the tree was answered, with Entry. WriteLost: its call ended without an answer, and it may have
	// taken effect, or may still do so.
	Wrote
	WriteLost
	// TreeRead: a read of the tree was answered, with Entry. Sent is when it was sent.
	TreeRead

	// WatchBegan: a watch is in place, and receives changes above the stamp in Watched.
	WatchBegan
	// WatchReceived: the watch received a change. WatchLost: the watch learnt that changes up to the stamp may be
	// missing.
	WatchReceived
	WatchLost
	// WatchProgress: the watch must have received everything up to the stamp before this.
	WatchProgress
	// Viewed: a read of the watched part of the tree was answered, with Entry.
	Viewed
	// Mirrored: a mirror of the watched part was read, with Entry, whose Stamp is the mirror's. Watched has the
	// mirror's name, and the stamp that the reader has waited for.
	Mirrored
	// TreeChanged: node Who has applied the entry at Index, which changed the watched part of the tree. Recorded from
	// node.Observers.Tree, for the first node that applies the entry.
	TreeChanged

	// Called: a transaction of a client with many requests in flight has ended, with Call. Sent is when it started.
	Called
	// Found: a read of such a client was answered, with Entry. Sent is when it was sent.
	Found
	// Committed: the entry of the log at Index, with Ledger. Recorded once, for the first node that applies the entry.
	Committed
	// Awaits: a client asks for a grant, with Claim. Granted: it has the grant. GaveUp: it stops waiting without the
	// grant; Text is the reason. Unknown is set if neither the client nor its session gave a reason.
	Awaits
	Granted
	GaveUp
	// Works: a context of the grant was seen alive. Rests: it has ended.
	Works
	Rests
	// Released: the grant is over for its holder; Text is the reason.
	Released
	// Stored: the resource at Path has accepted a write with Token. Fenced: it has refused a write.
	Stored
	Fenced
	// FenceChecked: the cluster has answered whether Token is the current holder's. Sent is when the request was
	// sent.
	FenceChecked
	// QueueRead: the queue of waiters at Path was read, long after the last fault.
	QueueRead
	// Broke: a client removed the entry of the call Name, whose token was Token. Sent is when it sent the request. Text is
	// why the outcome is unknown.
	Broke
	// Froze: the client process Who did no work from the time Sent until now.
	Froze
	// Used: a call of a recipe has ended, with Use. Sent is when it started. Text is why it failed, and Unknown is
	// then set if it may have taken effect.
	Used
	// FreezeBegan: node Who has applied the entry at Index, after which the cluster is frozen for Timeout (Y3 freeze).
	// By no clock is that over before Until. Thawed: it is frozen no longer. ApplyDelay is set on both.
	FreezeBegan
	Thawed
	// Killed: an operator's request to end session ID was answered, with Act. Index is the index of the entry that
	// ended it. Sent is when it was sent.
	Killed
	// Extended: an operator's request to keep session ID for Timeout was answered, with Act; 0 cancels an extension.
	// Sent is when it was sent. Each request of a run has a different time.
	Extended
	// Kept: node Who has applied the entry at Index, after which it keeps session ID until the log clock reads Until,
	// for Timeout from then; 0 for no longer (Y4 extension). ApplyDelay is set.
	Kept
	// Configured: the tracker of the leader Who of Term finds Members in Raft's newest configuration.
	Configured
	// Wanted: an operator asks for the first time to have the node Who, of the number Node, "added", "removed" or a
	// "voter", in Text. Changed: an operator learnt that it is "added" or "removed", or is an "observer".
	Wanted
	Changed
	// Listed: an operator got the leader's list of Members. Sent is when the request was sent.
	Listed
	// ConnectionChanged: the watching client Who has lost or changed its connection, as Text says. Without Who, a node
	// has installed a snapshot, and its clients' watches continued as after a lost connection.
	ConnectionChanged
	// BudgetExhausted: Budget refused the client Who, or Who has the maximum number of requests in flight.
	// BudgetReleased: Who has released what it used of Budget. BudgetAvailable: Budget has served Who again. Sent is
	// when the request was sent. BudgetAbandoned: Who has lost its session, and uses Budget no more.
	BudgetExhausted
	BudgetReleased
	BudgetAvailable
	BudgetAbandoned
	// Probed: the request Op of a client that holds little was answered, a write if Op is 0. Text is why it failed.
	// Sent is when it was sent.
	Probed
	// BackedUp: an operator has a backup of node Who, whose newest entry is at Index, with Backup. Sent is when it was
	// requested.
	BackedUp
)

// String returns the kind in words.
func (k Kind) String() string {
	names := [...]string{
		"?", "opened", "resumed", "touched", "promised", "refused", "asks to close", "closed", "learnt: moved",
		"learnt: gone",
		"context ended", "stops touching", "alive", "asks to upgrade", "upgraded", "learnt: elsewhere",
		"wants to be served",
		"was shown", "connected read-only", "has asked to take over", "applied open", "applied move", "applied end",
		"opened locally", "resumed locally", "ended locally", "digest",
		"applied its first entry of", "starts", "stopped", "received an answer", "decides to end", "begins a tracker of",
		"connections reset", "did not run", "is refused", "is refused no more",
		"fault begins", "fault ends", "healed", "finished", "wrote", "lost sight of a write", "read the tree",
		"watch begins", "watch received", "watch lost events", "watch progress", "viewed", "mirror showed",
		"tree changed", "has called", "found", "committed",
		"waits for a grant", "was granted", "gave up", "works", "rests", "released", "stored", "fenced",
		"checked the fence", "read the queue",
		"broke", "froze", "has used", "is frozen", "is thawed",
		"has killed", "has extended", "keeps",
		"leads members", "is wanted to be", "has become", "was shown members",
		"lost its connection",
		"fills the budget of", "releases the budget of", "gets budget again of", "lost its session with the budget of",
		"was served",
		"was backed up",
	}
	if int(k) >= len(names) {
		k = 0
	}
	return names[k]
}

// Op is a client's request.
type Op uint8

// Requests of clients.
const (
	Open Op = iota + 1
	Resume
	Touch
	Close
	Upgrade
	Show
)

// String returns the request in words.
func (o Op) String() string {
	names := [...]string{"?", "open", "resume", "touch", "close", "upgrade", "show"}
	if int(o) >= len(names) {
		o = 0
	}
	return names[o]
}

// Event is one event: a record without behaviour, whose Kind says which fields it has. Times count from the run's
// start, on its only clock.
type Event struct {
	At   time.Duration
	Kind Kind
	// Who is the client or the node. Of a fault it is the only node concerned, empty if the fault concerns several.
	Who string
	// Node is the owner that an open or a move made on AppliedOpen and AppliedMove, and the owner at the end on
	// AppliedEnd. It is the answering node on AnswerReceived, and the number of Who on NodeStarted. On a client's event
	// it is the node that answered, 0 if the client does not know.
	Node session.Node
	// Op is the request that Refused, LearntMoved or LearntGone answers, 0 without a request. Unknown, on Refused: the
	// request may have taken effect or may still do so.
	Op         Op
	Unknown    bool
	ID         session.ID
	Attachment uint64
	// Instance is the client process that made Attachment on AppliedOpen, AppliedMove, LocalOpened and LocalMoved, 0
	// for none. On TookOver it is the client process that asked (M1 a resume is a move).
	Instance uint64
	// Local reports that Attachment is a number of the session's node (L5 local attachments), not an attachment of the
	// log.
	Local   bool
	Timeout time.Duration
	// Sent is when the request or heartbeat was sent, Until when the promise ends; 0 for none.
	Sent, Until time.Duration
	// Index and Term are the applied entry's.
	Index, Term uint64
	// ApplyDelay is how much later than At a node that applies slowly shows that it has applied the entry. Its learner
	// has received the entry by then.
	ApplyDelay time.Duration
	Cause      session.Cause
	// Certificate is set on AppliedEnd, and on LearntGone if the client got one.
	Certificate *session.Certificate
	// State is the answering node's state, zero if unknown. On NodeStarted its Mode is read-only if the node may become
	// so.
	State session.NodeState
	// Read is set on Shown. Lagging, on Refused, says that the node had not applied what the client had seen.
	Read    *Read
	Lagging bool
	// Clean is set on FaultBegan.
	Clean bool
	// Entry is set on Wrote, WriteLost, TreeRead, Viewed, Mirrored and Found.
	Entry *Entry
	// Call is set on Called, Ledger on Committed.
	Call   *Call
	Ledger *Ledger
	// Watched is set on WatchBegan, WatchReceived, WatchLost, WatchProgress and Mirrored, Grown on TreeChanged.
	Watched *Watched
	Grown   *Grown
	// Claim is set on Awaits and on the kinds behind it, except Froze and Used. Use is set on Used.
	Claim *Claim
	Use   *Use
	// Act is set on Killed and Extended.
	Act *Act
	// Members are set on Configured and Listed.
	Members []session.Member
	// Budget is set on BudgetExhausted, BudgetReleased, BudgetAvailable and BudgetAbandoned.
	Budget *Budget
	// Backup is set on BackedUp.
	Backup *Backup
	Text   string
}

// Line returns an event as one line.
func Line(e Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%11.4fs %-4s %s", e.At.Seconds(), e.Who, e.Kind)
	if e.Op != 0 {
		fmt.Fprintf(&b, " %s", e.Op)
	}
	if e.Unknown {
		b.WriteString(", outcome unknown")
	}
	if e.Node != 0 {
		fmt.Fprintf(&b, " node %d", e.Node)
	}
	if e.ID != 0 {
		fmt.Fprintf(&b, " %s", e.ID)
	}
	if e.Attachment != 0 {
		fmt.Fprintf(&b, " attachment %d", e.Attachment)
	}
	if e.Local {
		b.WriteString(" (local)")
	}
	if e.Instance != 0 {
		fmt.Fprintf(&b, " of process %d", e.Instance)
	}
	if e.Timeout != 0 {
		fmt.Fprintf(&b, " timeout %v", e.Timeout)
	}
	if e.Sent != 0 {
		fmt.Fprintf(&b, " sent %.4fs", e.Sent.Seconds())
	}
	if e.Until != 0 {
		fmt.Fprintf(&b, " safe until %.4fs", e.Until.Seconds())
	}
	if e.Index != 0 {
		fmt.Fprintf(&b, " index %d", e.Index)
	}
	if e.Term != 0 {
		fmt.Fprintf(&b, " term %d", e.Term)
	}
	if e.Cause != 0 {
		fmt.Fprintf(&b, " %s", e.Cause)
	}
	b.WriteString(details(e))
	if c := e.Certificate; c != nil {
		fmt.Fprintf(&b, " (owner %d, term %d, last touch %v before, credited %v)", c.Owner, c.Term, c.LastTouchAge,
			c.Credited)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %s", e.Text)
	}
	return b.String()
}

// Recorder collects events. Safe for concurrent use.
type Recorder struct {
	start time.Time

	mu     sync.Mutex
	events []Event // guarded by mu
}

// NewRecorder returns a Recorder whose time is 0 now.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// Since returns t as a time of the run.
func (r *Recorder) Since(t time.Time) time.Duration { return t.Sub(r.start) }

// Now returns the time of the run.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// Add records e as of now.
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Since(r.start)
	r.events = append(r.events, e)
}

// Events returns the recorded events, sorted by time.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}
