// Package history records what happened in a simulated run: what clients asked and were told, what nodes applied, and which
// faults were injected. A checker reads it afterwards; a person reads the story of one session.
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

// Kind says what happened.
type Kind uint8

// Kinds of event: first what a client knows, then what a node did, then faults.
const (
	// Opened: a client's open was answered. Asked is when it was sent, Until the promise.
	Opened Kind = iota + 1
	// Resumed: a client's resume was answered, with a new Attachment.
	Resumed
	// Touched: a touch was answered as taken. Asked is when it was sent, Until the promise, 0 for none.
	Touched
	// Promised: an SDK session's SafeUntil has changed to Until.
	Promised
	// Refused: a touch, close or resume was refused. Text says which and why.
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
	// Silent: nothing that proves the session alive leaves its client from now on.
	Silent
	// Alive: at the end of the run the client holds the session to be alive, safe until Until.
	Alive

	// AppliedOpen, AppliedMove and AppliedEnd: a node has applied a change.
	AppliedOpen
	AppliedMove
	AppliedEnd
	// Digest: a node's state at Index has the digest Text.
	Digest

	// FaultBegan and FaultEnded: Text names the fault, the same both times.
	FaultBegan
	FaultEnded
	// Healed: no fault is left, and none comes any more.
	Healed
	// Finished: the run is over.
	Finished
)

// String returns the kind in words.
func (k Kind) String() string {
	names := [...]string{
		"?", "opened", "resumed", "touched", "promised", "refused", "asks to close", "closed", "told: moved", "told: gone",
		"context ended", "goes silent", "alive", "applied open", "applied move", "applied end", "digest",
		"fault begins", "fault ends", "healed", "finished",
	}
	if int(k) >= len(names) {
		k = 0
	}
	return names[k]
}

// Event is one thing that happened. Times are since the run's start, on its one clock.
type Event struct {
	At   time.Duration
	Kind Kind
	// Who is the client, the node or the fault's target.
	Who        string
	ID         session.ID
	Attachment uint64
	Timeout    time.Duration
	// Asked is when the client sent the request, Until when its promise ends; 0: none.
	Asked, Until time.Duration
	// Index and Term are those of the entry that was applied.
	Index, Term uint64
	Cause       session.Cause
	// Certificate is set on AppliedEnd, and on ToldGone when the client was given one.
	Certificate *session.Certificate
	Text        string
}

// String returns the event as one line.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%11.4fs %-4s %s", e.At.Seconds(), e.Who, e.Kind)
	if e.ID != 0 {
		fmt.Fprintf(&b, " %s", e.ID)
	}
	if e.Attachment != 0 {
		fmt.Fprintf(&b, " attachment %d", e.Attachment)
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
		fmt.Fprintf(&b, " index %d term %d", e.Index, e.Term)
	}
	if e.Cause != 0 {
		fmt.Fprintf(&b, " %s", e.Cause)
	}
	if c := e.Certificate; c != nil {
		fmt.Fprintf(&b, " (owner %d, term %d, last touch %v before, credited %v)", c.Owner, c.Term, c.LastTouchAge, c.Credited)
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

// Events returns what was recorded, in the order of time.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// Story returns the lines that concern the session id among the faults; id 0: the faults alone. Digests are left out.
func Story(events []Event, id session.ID) string {
	var b strings.Builder
	for _, e := range events {
		if e.Kind != Digest && (e.ID == 0 || e.ID == id) {
			b.WriteString(e.String())
			b.WriteByte('\n')
		}
	}
	return b.String()
}
