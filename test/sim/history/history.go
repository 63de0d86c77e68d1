// Package history records what happened in a simulated run: what clients asked and were told, what nodes applied, and
// which faults were injected. A checker reads it afterwards; a person reads the story of one session.
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
	// Opened: a client's open was answered. Asked is when it was sent, Until the promise.
	Opened Kind = iota + 1
	// Resumed: a client's resume was answered, with a new Attachment.
	Resumed
	// Touched: a node took a touch and answered it. Asked is when it was sent, Until the promise, 0 for none.
	Touched
	// Promised: an SDK session's SafeUntil has changed to Until.
	Promised
	// Refused: the request Op was refused, or its call ended without an answer. Unknown is set unless the request
	// certainly had no effect. Text says why. Asked is when it was sent.
	Refused
	// CloseAsked: a client has sent a close, or has given the session back.
	CloseAsked
	// Closed: a close was answered as done.
	Closed
	// ToldMoved: a client was told that another connection resumed the session.
	ToldMoved
	// ToldGone: a client was told that the session has ended.
	ToldGone
	// ContextEnded: the SDK session's context was cancelled.
	ContextEnded
	// Silent: from now on the client sends nothing that proves the session alive.
	Silent
	// Alive: at the end of the run the client holds the session to be alive, safe until Until; Text is its state.
	Alive
	// UpgradeAsked: a client has sent the upgrade of a local session.
	UpgradeAsked
	// Upgraded: a client was told that its local session is global, with its Attachment. Asked is when it asked, 0 if
	// it did not ask.
	Upgraded
	// ToldElsewhere: a client was told that only the session's own node can know of it (L6), and has given it up.
	ToldElsewhere
	// Wants: the client begins to try to be served, and goes on until the next Opened, Resumed, Touched or Promised of
	// Who with an Until ahead. Every client that is not silent records it when the last fault has ended.
	Wants
	// Shown: a read was answered, with Read or Certificate. Asked is when it was sent. A read that was refused is
	// Refused.
	Shown
	// OnlyReads: an SDK session has become CONNECTED_READ_ONLY.
	OnlyReads
	// TookOver: a call of the client process Instance that takes the session over on purpose has ended, with whatever
	// result. Asked is when it began.
	TookOver

	// AppliedOpen, AppliedMove and AppliedEnd: a node has applied a change.
	AppliedOpen
	AppliedMove
	AppliedEnd
	// LocalOpened, LocalMoved and LocalEnded: a node has opened a local session, given it a new attachment, or ended
	// it. A repeated request is recorded once more. Recorded from node.Options.Local.
	LocalOpened
	LocalMoved
	LocalEnded
	// Digest: a node's state at Index has the digest Text.
	Digest
	// AppliedTerm: a process of node Who has applied its first entry of Term, at Index. Recorded from
	// node.Options.Applied, before the entry's changes, and also for an entry without changes.
	AppliedTerm
	// NodeStarted: a process of node Who, whose number is Node, begins. Recorded right before node.New.
	NodeStarted
	// NodeStopped: the process of node Who has ended or was killed. Recorded when none of its actions can have an
	// effect any more.
	NodeStopped
	// Heard: the leader Who of Term has taken in the whole answer of Node to the heartbeat that it sent at Asked.
	// Recorded from node.Options.Heard.
	Heard
	// Decided: the leader Who of Term decides that the session ID expires with Attachment: pop and mark of E3, before
	// the proposal. Recorded from node.Options.Expires.
	Decided
	// Leads: the leader Who of Term begins a tracker, not always the first of the term. Recorded from
	// node.Options.Leads.
	Leads
	// Reset: all connections between Who and the host Text were reset. What was under way is lost.
	Reset
	// Stalled: the process of node Who did not run from Asked until now.
	Stalled
	// Refuses and Admits: from now on all dials of Who to the host Text fail at once, or no more.
	Refuses
	Admits

	// FaultBegan and FaultEnded: Text names the fault, in the same words both times. Clean says that it only ends
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
	// Looked: a read of the tree was answered, with Entry. Asked is when it was sent.
	Looked

	// WatchBegan: a watch is in place, and hears of what changes above the stamp in Watched.
	WatchBegan
	// WatchHeard: it has heard of a change. WatchLost: it was told that changes up to the stamp may be missing.
	WatchHeard
	WatchLost
	// WatchTold: everything up to the stamp must have been told to the watch before this.
	WatchTold
	// Viewed: a read of the watched part of the tree was answered, with Entry.
	Viewed
	// Mirrored: a mirror of the watched part was read, with Entry, whose Stamp is the mirror's. Watched has the mirror's
	// name, and the stamp that the reader has waited for.
	Mirrored
	// TreeGrew: node Who has applied the entry at Index, which changed the watched part of the tree. Recorded from
	// node.Options.Tree, for the first node that applies the entry.
	TreeGrew

	// Called: a transaction of a client that has many under way at once has ended, with Call. Asked is when it began.
	Called
	// Found: a read of such a client was answered, with Entry. Asked is when it was sent.
	Found
	// Committed: the entry of the log at Index, with Ledger. Recorded once, for the first node that applies the entry.
	Committed
	// Awaits: a client asks for a grant, with Claim. Granted: it has the grant. Forgoes: it has it not, and waits no
	// more; Text says why. Unknown is set if neither the client nor its session gave a reason.
	Awaits
	Granted
	Forgoes
	// Works: a context of the grant was seen to live. Rests: it has ended.
	Works
	Rests
	// Cedes: the grant is over for its holder; Text says why.
	Cedes
	// Stored: the resource at Path has taken a write with Token. Fenced: it has refused one.
	Stored
	Fenced
	// Vouched: the cluster was asked whether Token is that of the present holder, and has answered. Asked is when.
	Vouched
	// Lined: the line at Path was read, long after the last fault.
	Lined
	// Broke: a client removed the entry of the call Name, whose token was Token. Asked is when it asked. Text says why it
	// does not know whether it did.
	Broke
	// Froze: the client process Who did no work from Asked until now.
	Froze
	// Used: a call of a recipe has ended, with Use. Asked is when it began. Text says why it failed, and Unknown is set
	// then if it may have taken effect.
	Used
	// Frosted: node Who has applied the entry at Index, after which the cluster is frozen for Timeout (Y3). By no clock is
	// that over before Until. Thawed: it is frozen no longer. Dawdles is set on both.
	Frosted
	Thawed
	// Killed: an operator's request to end session ID was answered, with Act. Index is that of the entry that did it.
	// Asked is when it was sent.
	Killed
	// Extended: an operator's request to keep session ID for Timeout was answered, with Act; 0 takes that back. Asked is
	// when it was sent. No two requests of a run are for the same time.
	Extended
	// Kept: node Who has applied the entry at Index, after which it keeps session ID until the log clock reads Until, for
	// Timeout from then; 0 for no longer (Y4). Dawdles is set.
	Kept
	// Configured: the tracker of the leader Who of Term finds Members in Raft's newest configuration.
	Configured
	// Wanted: an operator asks for the first time to have the node Who, of the number Node, "added", "removed" or a
	// "voter", as Text says. Changed: an operator was told that it is "added" or "removed", or is an "observer".
	Wanted
	Changed
	// Listed: an operator was shown the leader's list of Members. Asked is when it was sent.
	Listed
	// Strayed: the watching client Who has lost its connection, or goes on another one, as Text says. Without Who, a node
	// has installed a snapshot, and its clients' watches went on as after a lost connection.
	Strayed
	// Filled: the client Who was refused because Room is full, or has as much under way there as it can. Emptied: it has
	// given back what it held of Room. Roomy: it has found room again. Asked is when what was refused or done was sent.
	// Unasked: it has lost its session, and asks for Room no more.
	Filled
	Emptied
	Roomy
	Unasked
	// Probed: the request Op of a client that holds little was answered, a write if Op is 0. Text says why it failed. Asked
	// is when it was sent.
	Probed
	// BackedUp: an operator has a backup of node Who, whose newest entry is that at Index, with Backup. Asked is when it
	// was asked for.
	BackedUp
)

// String returns the kind in words.
func (k Kind) String() string {
	names := [...]string{
		"?", "opened", "resumed", "touched", "promised", "refused", "asks to close", "closed", "told: moved",
		"told: gone",
		"context ended", "goes silent", "alive", "asks to upgrade", "upgraded", "told: elsewhere", "wants to be served",
		"was shown", "connected read-only", "has asked to take over", "applied open", "applied move", "applied end",
		"opened locally", "resumed locally", "ended locally", "digest",
		"applied its first entry of", "starts", "stopped", "heard", "decides to end", "begins a tracker of",
		"connections reset", "has stood", "is refused", "is refused no more",
		"fault begins", "fault ends", "healed", "finished", "wrote", "lost sight of a write", "looked",
		"watch begins", "watch heard", "watch was told LOST", "watch was told everything", "viewed", "mirror showed",
		"tree grew", "has called", "found", "committed",
		"awaits", "was granted", "forgoes", "works", "rests", "cedes", "stored", "fenced", "vouched", "lined",
		"broke", "froze", "has used", "is frozen", "is thawed",
		"has killed", "has extended", "keeps",
		"leads members", "is wanted to be", "has become", "was shown members",
		"strays",
		"fills", "empties", "finds room in", "has lost its session with", "was served",
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

// Event is one thing that happened: a record without behaviour, whose Kind says which fields it has. Times count from
// the run's start, on its only clock.
type Event struct {
	At   time.Duration
	Kind Kind
	// Who is the client or the node. Of a fault it is the only node concerned, empty if the fault concerns several.
	Who string
	// Node is the owner that an open or a move made on AppliedOpen and AppliedMove, and the owner at the end on
	// AppliedEnd. It is the answering node on Heard, and the number of Who on NodeStarted. On what a client was told it
	// is the node that answered, 0 if the client does not know.
	Node session.Node
	// Op is the request that Refused, ToldMoved or ToldGone answers, 0 if the client was told without a request.
	// Unknown, on Refused, says that the request may have taken effect or may still do so.
	Op         Op
	Unknown    bool
	ID         session.ID
	Attachment uint64
	// Instance is the client process that made Attachment on AppliedOpen, AppliedMove, LocalOpened and LocalMoved, 0
	// for none. On TookOver it is the client process that asked (M1).
	Instance uint64
	// Local says that Attachment is a number of the session's node (L5), not an attachment of the log.
	Local   bool
	Timeout time.Duration
	// Asked is when the request or heartbeat was sent, Until when the promise ends; 0 for none.
	Asked, Until time.Duration
	// Index and Term are the applied entry's.
	Index, Term uint64
	// Dawdles is how much later than At a node that applies slowly shows that it has applied the entry. Its learner has
	// taken the entry in by then.
	Dawdles time.Duration
	Cause   session.Cause
	// Certificate is set on AppliedEnd, and on ToldGone if the client was given one.
	Certificate *session.Certificate
	// State is what the answering node told about itself, zero if not known. On NodeStarted its Mode is read-only if
	// the node may become so.
	State session.NodeState
	// Read is set on Shown. Lagging, on Refused, says that the node had not applied what the client had seen.
	Read    *Read
	Lagging bool
	// Clean is set on FaultBegan.
	Clean bool
	// Entry is set on Wrote, WriteLost, Looked, Viewed, Mirrored and Found.
	Entry *Entry
	// Call is set on Called, Ledger on Committed.
	Call   *Call
	Ledger *Ledger
	// Watched is set on WatchBegan, WatchHeard, WatchLost, WatchTold and Mirrored, Grown on TreeGrew.
	Watched *Watched
	Grown   *Grown
	// Claim is set on Awaits and on the kinds behind it, except Froze and Used. Use is set on Used.
	Claim *Claim
	Use   *Use
	// Act is set on Killed and Extended.
	Act *Act
	// Members are set on Configured and Listed.
	Members []session.Member
	// Room is set on Filled, Emptied, Roomy and Unasked.
	Room *Room
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
	if e.Asked != 0 {
		fmt.Fprintf(&b, " sent %.4fs", e.Asked.Seconds())
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
	b.WriteString(told(e))
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

// Events returns what was recorded, sorted by time.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}
