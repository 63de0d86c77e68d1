package sim

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/check"
	"holdfast/test/sim/faults"
	"holdfast/test/sim/history"
	"holdfast/test/sim/stats"
)

// report is the report of one seed while it runs.
type report struct {
	mu sync.Mutex
	*stats.Report
}

func newReport(seed uint64, nodes int) *report { return &report{Report: stats.New(seed, nodes)} }

func (r *report) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Failures = append(r.Failures, text)
}

func (r *report) count(what string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Counts[what] += n
}

// fault counts a fault that has ended.
func (r *report) fault(k faults.Kind, hit bool) { //nolint:revive // flag-parameter: it is counted
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Faults[k.String()]++
	if hit {
		r.Hit[k.String()]++
	}
}

// lived counts what the history of a cluster shows.
func (r *report) lived(d time.Duration, events []history.Event, result check.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Virtual = d
	opened, moved, ended := make(map[session.ID]bool), make(map[uint64]bool), make(map[session.ID]bool)
	locally, upgraded := make(map[session.ID]bool), make(map[session.ID]bool)
	for _, e := range events {
		switch e.Kind { //nolint:exhaustive // the other kinds are not counted
		case history.LocalOpened:
			locally[e.ID] = true
		case history.LocalEnded:
			r.Counts["local sessions ended: "+e.Cause.String()]++
		case history.AppliedOpen:
			if locally[e.ID] {
				upgraded[e.ID] = true
				break
			}
			opened[e.ID] = true
		case history.AppliedMove:
			moved[e.Attachment] = true
		case history.AppliedEnd:
			if !ended[e.ID] {
				ended[e.ID] = true
				r.Counts["sessions ended: "+e.Cause.String()]++
			}
		case history.NodeStarted:
			r.Counts["starts of nodes"]++
		case history.Shown:
			r.Counts[stats.Reads(e.State.Mode)]++
		case history.OnlyReads:
			r.Counts["sessions connected read-only"]++
		default:
		}
		if e.Until != 0 {
			r.Counts["promises"]++
		}
	}
	r.Counts["sessions opened"], r.Counts["sessions moved"] = len(opened), len(moved)
	if slices.ContainsFunc(events, func(e history.Event) bool {
		return e.Kind == history.NodeStarted && e.State.Mode == session.ModeReadOnly
	}) {
		r.Counts["clusters with read-only nodes"]++
	}
	if len(locally) > 0 {
		r.Counts["clusters with local sessions"]++
		r.Counts["local sessions opened"], r.Counts["local sessions upgraded"] = len(locally), len(upgraded)
	}
	r.Counts["events"] = len(events)
	for name, n := range result.Checked {
		r.Checked[name] += n
	}
}

// reportVariable names the file to which reports are appended; the soak sets it.
const reportVariable = "SIM_REPORT"

// begins appends a line that says that the seed begins, if reports are wanted. end appends the report.
func (r *report) begins(t *testing.T) (end func()) {
	t.Helper()
	path := os.Getenv(reportVariable)
	if path == "" {
		return func() {}
	}
	begun := &stats.Report{Seed: r.Seed, Nodes: r.Nodes, Begun: true}
	if err := begun.Append(path); err != nil {
		t.Fatal(err)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if t.Failed() && len(r.Failures) == 0 {
			r.Failures = []string{"the test failed, and its output says why"}
		}
		if err := r.Append(path); err != nil {
			t.Error(err)
		}
	}
}
