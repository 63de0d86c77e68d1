// Package check holds a run's history against the invariants of the session protocol. It looks from outside: at what clients
// were told, and at what nodes applied.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// Bounds are what a run was configured with, and how patient the checker is.
type Bounds struct {
	// ExpiryInterval is the cluster's.
	ExpiryInterval time.Duration
	// Commit bounds a round and a commit in a calm cluster.
	Commit time.Duration
	// Settle is how long after a fault a cluster counts as calm: elections, Raft's back-off, clients that find their way.
	Settle time.Duration
}

// Violation is an invariant that did not hold.
type Violation struct {
	// Invariant is its short name, such as "I3".
	Invariant string
	// ID is the session concerned, 0 when it is none.
	ID session.ID
	// At is the time of the run.
	At   time.Duration
	Text string
}

// String returns the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s violated at %.4fs, session %s: %s", v.Invariant, v.At.Seconds(), v.ID, v.Text)
}

// Result is what Check found.
type Result struct {
	Violations []Violation
	// Checked counts by invariant how often it was really put to the test: a history in which nobody dies proves nothing.
	Checked map[string]int
}

// Check holds events, in the order of time, against I1 to I4, I6 and I7.
func Check(events []history.Event, b Bounds) Result {
	c := &checker{bounds: b, lives: make(map[session.ID]*life), result: Result{Checked: make(map[string]int)}}
	for _, e := range events {
		c.note(e)
	}
	c.replicas(events)
	for _, l := range c.sorted() {
		c.promises(l)
		c.early(l)
		c.late(l)
		c.served(l)
		c.fenced(l)
		c.told(l)
	}
	return c.result
}

// life is all that is known of one session.
type life struct {
	id      session.ID
	timeout time.Duration
	// grants are the opens and resumes that were answered, touches those taken, promises all promises with an end.
	grants, touches, promises, closes []history.Event
	moved, gone, contexts, alive      []history.Event
	asked                             []history.Event // of its close
	// moves are those that a node applied.
	moves []history.Event
	// silent is when it went silent for good, 0: never. A later grant is a new voice.
	silent time.Duration
	// end is the earliest time any node applied the end at.
	end *history.Event
}

type checker struct {
	bounds Bounds
	lives  map[session.ID]*life
	result Result

	// disturbed are the times of faults; one that has not ended yet has no end.
	disturbed []span
	// healed is when the last fault ended, finished when the run did.
	healed, finished time.Duration
}

type span struct {
	what       string
	from, till time.Duration
	open       bool
}

func (c *checker) fail(invariant string, l *life, at time.Duration, format string, args ...any) {
	c.result.Violations = append(c.result.Violations,
		Violation{Invariant: invariant, ID: l.id, At: at, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) checked(invariant string) { c.result.Checked[invariant]++ }

func (c *checker) life(id session.ID) *life {
	l := c.lives[id]
	if l == nil {
		l = &life{id: id}
		c.lives[id] = l
	}
	return l
}

func (c *checker) sorted() []*life {
	lives := make([]*life, 0, len(c.lives))
	for _, l := range c.lives {
		lives = append(lives, l)
	}
	slices.SortFunc(lives, func(a, b *life) int { return cmp.Compare(a.id, b.id) })
	return lives
}

// note files one event.
func (c *checker) note(e history.Event) {
	switch e.Kind {
	case history.FaultBegan:
		c.disturbed = append(c.disturbed, span{what: e.Text, from: e.At, open: true})
	case history.FaultEnded:
		c.endFault(e)
	case history.Healed:
		c.healed = e.At
	case history.Finished:
		c.finished = e.At
	case history.Digest, history.Refused:
	case history.Opened, history.Resumed, history.Touched, history.Promised, history.CloseAsked, history.Closed,
		history.ToldMoved, history.ToldGone, history.ContextEnded, history.Silent, history.Alive:
		c.life(e.ID).hear(e)
	case history.AppliedOpen, history.AppliedMove, history.AppliedEnd:
		c.life(e.ID).apply(e)
	}
}

func (c *checker) endFault(e history.Event) {
	for i := range c.disturbed {
		if s := &c.disturbed[i]; s.open && s.what == e.Text {
			s.open, s.till = false, e.At
			return
		}
	}
}

// hear files what a client knows.
func (l *life) hear(e history.Event) {
	if e.Until != 0 {
		l.promises = append(l.promises, e)
	}
	switch e.Kind { //nolint:exhaustive // note has sorted the rest out
	case history.Opened, history.Resumed:
		l.grants, l.silent = append(l.grants, e), 0
	case history.Touched:
		l.touches = append(l.touches, e)
	case history.CloseAsked:
		l.asked = append(l.asked, e)
	case history.Closed:
		l.closes = append(l.closes, e)
	case history.ToldMoved:
		l.moved = append(l.moved, e)
	case history.ToldGone:
		l.gone = append(l.gone, e)
	case history.ContextEnded:
		l.contexts = append(l.contexts, e)
	case history.Alive:
		l.alive = append(l.alive, e)
	case history.Silent:
		if e.Attachment >= newestGrant(l).Attachment { // else another client keeps the session alive
			l.silent = e.At
		}
	}
}

// apply files what a node did.
func (l *life) apply(e history.Event) {
	if e.Timeout != 0 {
		l.timeout = e.Timeout
	}
	switch {
	case e.Kind == history.AppliedMove:
		l.moves = append(l.moves, e)
	case e.Kind == history.AppliedEnd && l.end == nil:
		l.end = &e
	}
}

// expired returns when the session's expiry was first applied.
func (l *life) expired() (time.Duration, bool) {
	if l.end == nil || l.end.Cause != session.CauseExpired {
		return 0, false
	}
	return l.end.At, true
}

// calm reports whether no fault was there from from, less the time that faults work on, till till. A cluster that starts
// is not calm either.
func (c *checker) calm(from, till time.Duration) bool {
	from -= c.bounds.Settle
	return from >= 0 && !slices.ContainsFunc(c.disturbed, func(s span) bool {
		return s.from <= till && (s.open || s.till >= from)
	})
}
