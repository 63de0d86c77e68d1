package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"holdfast/session"
	"holdfast/test/sim/check"
	"holdfast/test/sim/faults"
	"holdfast/test/sim/history"
	"holdfast/test/sim/stats"
)

// faultLog records faults, and counts those that hit something.
type faultLog struct{ w *world }

// Nears implements faults.Log.
func (l faultLog) Nears() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	close(l.w.nears)
	l.w.nears = make(chan struct{})
}

// Began implements faults.Log. Each hiccup is a separate fault in the history, see world.Suspend: between two hiccups
// all is well. An operator's acts on sessions are no faults for it.
func (l faultLog) Began(k faults.Kind, who, text string) {
	if k != faults.Hiccups && !k.Harmless() {
		l.w.record.Add(history.Event{Kind: history.FaultBegan, Who: who, Text: text, Clean: k.Clean()})
	}
}

// Ended implements faults.Log.
func (l faultLog) Ended(k faults.Kind, who, text string, hit bool) {
	if k != faults.Hiccups && !k.Harmless() {
		l.w.record.Add(history.Event{Kind: history.FaultEnded, Who: who, Text: text})
	}
	l.w.report.fault(k, hit)
}

// storiesShown bounds the sessions whose stories a failed run shows, linesShown the lines of logs.
const storiesShown, linesShown = 3, 40

// judge checks the history, and shows the stories of the violations.
func (w *world) judge(plan []faults.Fault) {
	w.t.Helper()
	events := w.record.Events()
	b := bounds(w.report.Nodes)
	changes, _ := w.keepsToTell()
	b.Keeps, b.Small = changes == 0, w.narrow()
	r := check.Check(events, b)
	w.report.lived(w.record.Now(), events, r)
	w.report.count(stats.Installed, w.logs.count("Installed remote snapshot"))
	shown := make(map[session.ID]bool)
	log := func(id session.ID) {
		if !shown[id] && len(shown) < storiesShown {
			shown[id] = true
			w.t.Logf("the story of session %s and of the events around it:\n%s", id,
				history.Story(events, id, r.Marks(id)...))
		}
	}
	for _, v := range r.Violations {
		w.report.fail(v.String())
		w.t.Errorf("seed %d: %s", w.seed, v)
		log(v.ID)
	}
	for _, id := range w.suspects {
		log(id)
	}
	if w.t.Failed() || os.Getenv("SIM_LOG") != "" {
		w.keep(plan, events)
	}
}

// keep writes the whole history and the logs to the directory of go test -artifacts, and prints the plan.
func (w *world) keep(plan []faults.Fault, events []history.Event) {
	var report strings.Builder
	fmt.Fprintf(&report, "seed %d, %d nodes\n", w.seed, len(w.names))
	for _, failure := range w.report.Failures {
		fmt.Fprintf(&report, "failure: %s\n", failure)
	}
	for i, f := range plan {
		fmt.Fprintf(&report, "  %d: %s\n", i+1, f)
	}
	w.t.Logf("SEED=%d repeats the plan:\n%s", w.seed, report.String())
	var all strings.Builder
	for _, e := range events {
		all.WriteString(history.Line(e) + "\n")
	}
	lines := w.logs.text()
	dir := w.t.ArtifactDir()
	w.report.Artifacts = dir
	for name, text := range map[string]string{
		"plan.txt": report.String(), "history.txt": all.String(), "log.txt": strings.Join(lines, "\n") + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.t.Errorf("keep %s: %v", name, err)
		}
	}
	w.t.Logf("plan, history and logs are in %s; go test -artifacts keeps them. The logs end with:\n%s",
		dir, strings.Join(lines[max(len(lines)-linesShown, 0):], "\n"))
}
