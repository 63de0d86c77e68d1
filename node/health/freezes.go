package health

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/fsm"
	"holdfast/session"
	"holdfast/tree"
)

// freezeReminder is the time between two log lines about a freeze.
const freezeReminder = time.Minute

// Freezes knows whether this node's state is frozen (Y3 freeze), and the rest of the freeze on this node's clock. It is
// an [fsm.TreeObserver]. Safe for concurrent use.
type Freezes struct {
	logger hclog.Logger
	start  time.Time

	mu      sync.Mutex
	tracker session.FreezeTracker // guarded by mu
	now     *session.Freeze       // guarded by mu
	// logged is the freeze of the last log line, at loggedAt. Guarded by mu.
	logged   *session.Freeze
	loggedAt time.Duration
}

// NewFreezes returns a Freezes without a freeze.
func NewFreezes(logger hclog.Logger) *Freezes { return &Freezes{logger: logger, start: time.Now()} }

// AppliedTree implements [fsm.TreeObserver].
func (f *Freezes) AppliedTree(now *fsm.Tree, _ []tree.Change, _ []fsm.Wrote) { f.RestoredTree(now) }

// RestoredTree implements [fsm.TreeObserver].
func (f *Freezes) RestoredTree(now *fsm.Tree) {
	t := now.Time
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracker.Update(t, t.Running(), time.Since(f.start))
	f.now = t.Freeze
}

// Present returns the freeze and the rest of its duration; nil for none.
func (f *Freezes) Present() (*session.Freeze, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.tracker.Left(time.Since(f.start))
}

// Remind logs when the cluster was frozen or thawed since the last call, and repeats the line for a lasting freeze.
func (f *Freezes) Remind() {
	f.mu.Lock()
	moment := time.Since(f.start)
	now, left, changed := f.now, f.tracker.Left(moment), f.now != f.logged
	due := changed || now != nil && moment-f.loggedAt >= freezeReminder
	if due {
		f.logged, f.loggedAt = now, moment
	}
	f.mu.Unlock()
	switch {
	case !due:
	case now == nil:
		f.logger.Warn("the cluster is thawed: sessions expire again")
	default:
		f.logger.Warn("the cluster is frozen: nothing expires", "left", left.Round(time.Second), "since", now.Since,
			"by", now.By, "why", now.Why)
	}
}

// Warning describes the freeze; empty without one.
func (f *Freezes) Warning() string {
	now, left := f.Present()
	if now == nil {
		return ""
	}
	text := fmt.Sprintf("the cluster is frozen for %s more: nothing expires (holdfast cluster thaw ends it; frozen at %s",
		left.Round(time.Second), now.Since.UTC().Format(time.RFC3339))
	if now.By != "" {
		text += " by " + now.By
	}
	if now.Why != "" {
		text += fmt.Sprintf(", because %q", now.Why)
	}
	return text + ")"
}
