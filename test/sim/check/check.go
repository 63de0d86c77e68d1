// Package check holds a run's history against the invariants of the session protocol. It looks from outside: at what
// clients were told, and at what nodes applied.
package check

import (
	"fmt"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// Bounds are what a run was configured with, and how patient the checker is.
type Bounds struct {
	// ExpiryInterval is the cluster's.
	ExpiryInterval time.Duration
	// Commit bounds a round and a commit while all that they need is well, and Calm when for long nothing was amiss
	// anywhere.
	Commit, Calm time.Duration
	// Settle is how long after a fault a cluster counts as calm: elections, Raft's back-off, clients that find their
	// way.
	Settle time.Duration
	// Interval is that of heartbeats, Quorum the number of voters that make a round good.
	Interval time.Duration
	Quorum   int
	// ReadOnlyAfter is for how long a node learns of no good round before it is read-only (N1).
	ReadOnlyAfter time.Duration
	// Serve is how long after the last fault every client has to be served at the latest.
	Serve time.Duration
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
	// Checked counts by invariant how often it was really put to the test: a history in which nobody dies proves
	// nothing.
	Checked map[string]int
}

// Marks returns the violations that concern session id as remarks of its story.
func (r Result) Marks(id session.ID) []history.Mark {
	var marks []history.Mark
	for _, v := range r.Violations {
		if v.ID == id {
			marks = append(marks, history.Mark{At: v.At, Text: v.Invariant + " VIOLATED: " + v.Text})
		}
	}
	return marks
}

// Check holds events, in the order of time, against I1 to I8, N1 to N5, liveness after the last fault, and
// linearizability.
func Check(events []history.Event, b Bounds) Result {
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	j := judge{newFacts(b), v}
	for _, e := range events {
		j.note(e, v)
	}
	j.settleTerms()
	replicas{j}.check(events)
	liveness{j}.wanting(events)
	locals{j}.check()
	modes{j}.check()
	reads{j}.check()
	for _, l := range j.sorted() {
		promises{j}.check(l)
		early{j}.check(l)
		late{j}.check(l)
		liveness{j}.served(l)
		modes{j}.again(l)
		fence{j}.check(l)
		fence{j}.told(l)
		order{j}.check(l)
	}
	return v.Result
}

// judge holds the facts of a history against one group of invariants. Each group has a type of its own, which embeds a
// judge.
type judge struct {
	*facts
	*verdict
}

// verdict collects what the judges find.
type verdict struct {
	Result
	// scope is added to the names of what is counted.
	scope string
}

// fail adds a violation that concerns a session, 0 for none.
func (v *verdict) fail(invariant string, id session.ID, at time.Duration, format string, args ...any) {
	v.Violations = append(v.Violations,
		Violation{Invariant: invariant, ID: id, At: at, Text: fmt.Sprintf(format, args...)})
}

// misled adds a violation by what a node told a client.
func (v *verdict) misled(e history.Event, invariant, format string, args ...any) {
	v.fail(invariant, e.ID, e.At, format+": %s", append(args, history.Line(e))...)
}

// checked counts that an invariant was put to the test.
func (v *verdict) checked(invariant string) { v.Checked[invariant+v.scope]++ }
