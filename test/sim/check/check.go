// Package check has the judges of the simulation. It checks the recorded history of a run against the invariants I1 to
// I8 of ARCHITECTURE.md, I9 to I18 of docs/tree.md, and further rules of docs/protocol.md. The judges know only what is
// visible from outside: the answers that clients got, and what nodes applied.
//
// # How a check works
//
// [Check] notes each event by its subject: sessions in life.go, leaders in leaders.go, nodes in nodes.go, faults in
// weather.go, all together in facts.go. Then it calls the judges, one for each group of invariants. A judge embeds the
// facts and the verdict. It calls checked for each case that puts an invariant to the test, and fail for a violation.
// A soak fails if the cases of some invariant never occurred. README.md of the simulation lists the judges with their
// files.
//
// # Run
//
//	go test ./test/sim/check                      # made-up histories that the judges must accept or refuse
//	SEED=17 go test -run 'TestSim$' ./test/sim    # one seed of the simulation
//
// # Read a failure
//
// A [Violation] has the invariant, the time of the run and the session. The comment above the judge that reports the
// violation says what the judge demands; to find the judge, search for the violation's text. The run also prints the
// story of the session, with the violations at their times. README.md of the simulation continues from there.
//
// # Add a check
//
// Record the necessary events in package history, and collect them in a note method. Write the judge in a file of this
// package, and call it in [Check]. Test it with a correct history that the test breaks in one way after the other, as
// planted_test.go does. Name the check in the table of docs/guarantees.md, and plant a bug that it must find
// (test/planted).
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
	// Commit bounds a round and a commit while all required parts are healthy. Calm bounds them after a long time
	// without faults.
	Commit, Calm time.Duration
	// Recovery is how long after a fault a cluster counts as calm again. It covers elections, Raft's back-off, and
	// clients that search for a node.
	Recovery time.Duration
	// Interval is the time between heartbeats, Quorum the number of voters that make a round good.
	Interval time.Duration
	Quorum   int
	// Reap is the interval at which a leader checks for due entries of the tree (D5 TTLs and containers).
	Reap time.Duration
	// ReadOnlyAfter is how long a node is without a good round until it is read-only (N1 node mode).
	ReadOnlyAfter time.Duration
	// Serve is how long after the last fault a client may wait to be served.
	Serve time.Duration
	// Keeps: nodes keep so many changes for watches that no watch falls behind them.
	Keeps bool
	// Probe bounds a request of a client with few sessions in a calm cluster, whatever others hold.
	Probe time.Duration
	// Small are the bounds of the tree whose refusals the cluster itself reports: the replay knows no bounds. A refused
	// write changes nothing.
	Small bool
	// Turn is how long after the last fault a client may wait for a grant that others hold; 0 checks no wait.
	Turn time.Duration
}

// Violation is an invariant that did not hold.
type Violation struct {
	// Invariant is the short name, such as "I3".
	Invariant string
	// ID is the session concerned, 0 for none.
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

// Marks returns the violations of one session as marks for its story.
func (r Result) Marks(id session.ID) []history.Mark {
	var marks []history.Mark
	for _, v := range r.Violations {
		if v.ID == id {
			marks = append(marks, history.Mark{At: v.At, Text: v.Invariant + " VIOLATED: " + v.Text})
		}
	}
	return marks
}

// Check checks events, which are sorted by time. Besides the invariants it checks elections (F1 to F4), read-only nodes
// (N1 to N5), liveness after the last fault, and linearizability.
func Check(events []history.Event, b Bounds) Result {
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	j := judge{newFacts(b), v}
	for _, e := range events {
		j.note(e, v)
	}
	j.closeTerms()
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
	budgets{j}.check()
	for _, l := range j.sorted() {
		promises{j}.check(l)
		early{j}.check(l)
		late{j}.check(l)
		freezes{j}.check(l)
		operators{j}.check(l)
		liveness{j}.served(l)
		modes{j}.again(l)
		fence{j}.check(l)
		fence{j}.reported(l)
		order{j}.check(l)
	}
	return v.Result
}

// judge checks the facts of a history for one group of invariants. Each group has its own type, which embeds a judge.
type judge struct {
	*facts
	*verdict
}

// verdict collects the judges' findings.
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

// misled adds a violation by a node's answer to a client.
func (v *verdict) misled(e history.Event, invariant, format string, args ...any) {
	v.fail(invariant, e.ID, e.At, format+": %s", append(args, history.Line(e))...)
}

// checked counts that an invariant was put to the test.
func (v *verdict) checked(invariant string) { v.Checked[invariant+v.scope]++ }
