// Package check holds a run's history against the invariants of the session protocol. It sees only what an outsider
// sees: what clients were told, and what nodes applied.
package check

import (
	"fmt"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// Bounds is how a run was configured, and how patient the checker is.
type Bounds struct {
	// ExpiryInterval is the cluster's expiry interval.
	ExpiryInterval time.Duration
	// Commit bounds a round and a commit while every part that they need is healthy. Calm bounds them when nothing has
	// been amiss anywhere for long.
	Commit, Calm time.Duration
	// Settle is how long after a fault a cluster counts as calm again. It covers elections, Raft's back-off, and
	// clients that look for a node.
	Settle time.Duration
	// Interval is the one between heartbeats, Quorum the number of voters that make a round good.
	Interval time.Duration
	Quorum   int
	// Reap is how often a leader looks for what is due in the tree (D5).
	Reap time.Duration
	// ReadOnlyAfter is how long a node hears of no good round until it is read-only (N1).
	ReadOnlyAfter time.Duration
	// Serve is how long after the last fault a client may wait to be served.
	Serve time.Duration
	// Keeps says that nodes keep so many changes for watches that none falls behind them.
	Keeps bool
	// Probe is how long a request of a client that holds little may take in a calm cluster, whatever others hold.
	Probe time.Duration
	// Small are the bounds of the tree that the cluster's own refusals tell of: the replay knows none. A write that one
	// of them refuses changes nothing.
	Small bool
	// Turn is how long after the last fault a client may wait for what others hold; 0 judges no such wait.
	Turn time.Duration
}

// Violation is an invariant that did not hold.
type Violation struct {
	// Invariant is its short name, such as "I3".
	Invariant string
	// ID is the session concerned, 0 if it concerns none.
	ID session.ID
	// At is the time of the run.
	At   time.Duration
	Text string
}

// String returns the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s violated at %.4fs, session %s: %s", v.Invariant, v.At.Seconds(), v.ID, v.Text)
}

// Result is the outcome of Check.
type Result struct {
	Violations []Violation
	// Checked counts, by invariant, the cases that put it to the test: a history in which no session dies proves
	// nothing.
	Checked map[string]int
}

// Marks returns the violations of one session as remarks for its story.
func (r Result) Marks(id session.ID) []history.Mark {
	var marks []history.Mark
	for _, v := range r.Violations {
		if v.ID == id {
			marks = append(marks, history.Mark{At: v.At, Text: v.Invariant + " VIOLATED: " + v.Text})
		}
	}
	return marks
}

// Check holds events, sorted by time, against I1 to I8, F1 to F4, N1 to N5, I11, I9, I12, I13 and I15 of the tree in
// part, liveness after the last fault, and linearizability.
func Check(events []history.Event, b Bounds) Result {
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	j := judge{newFacts(b), v}
	for _, e := range events {
		j.note(e, v)
	}
	j.settleTerms()
	replicas{j}.check(events)
	liveness{j}.wanting(events)
	sequence{j}.check()
	elections{j}.check()
	locals{j}.check()
	modes{j}.check()
	members{j}.check()
	reads{j}.check()
	entries{j}.check()
	watches{judge: j}.check()
	replays{j}.check()
	claims{j}.check()
	rooms{j}.check()
	for _, l := range j.sorted() {
		promises{j}.check(l)
		early{j}.check(l)
		late{j}.check(l)
		freezes{j}.check(l)
		operators{j}.check(l)
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
	// scope is appended to the names of counted invariants.
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
