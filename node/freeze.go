package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/fsm"
	"holdfast/session"
	"holdfast/tree"
)

// freezeReminder is how often the log says that the cluster is frozen.
const freezeReminder = time.Minute

// freezes knows whether this node's state is frozen (Y3), and for how much longer on its own clock. It observes the
// tree. Safe for concurrent use.
type freezes struct {
	logger hclog.Logger
	start  time.Time

	mu    sync.Mutex
	frost session.Frost   // guarded by mu
	now   *session.Freeze // guarded by mu
	// said is the freeze that the log has told of, at the moment saidAt. Guarded by mu.
	said   *session.Freeze
	saidAt time.Duration
}

func newFreezes(logger hclog.Logger) *freezes { return &freezes{logger: logger, start: time.Now()} }

// AppliedTree looks at the state after an entry.
func (f *freezes) AppliedTree(now *fsm.Tree, _ []tree.Change, _ []fsm.Wrote) { f.RestoredTree(now) }

// RestoredTree looks at a new state.
func (f *freezes) RestoredTree(now *fsm.Tree) {
	t := now.Time
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frost.Look(t, t.Running(), time.Since(f.start))
	f.now = t.Freeze
}

// present returns the freeze and how much longer it lasts; nil for none.
func (f *freezes) present() (*session.Freeze, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.frost.Left(time.Since(f.start))
}

// remind writes a line when the cluster was frozen or thawed since the last call, and repeats that it is frozen.
func (f *freezes) remind() {
	f.mu.Lock()
	moment := time.Since(f.start)
	now, left, changed := f.now, f.frost.Left(moment), f.now != f.said
	due := changed || now != nil && moment-f.saidAt >= freezeReminder
	if due {
		f.said, f.saidAt = now, moment
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

// warning says that the cluster is frozen; empty when it is not.
func (f *freezes) warning() string {
	now, left := f.present()
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

// freezeMetrics describe what operators do to expiry.
func freezeMetrics() []metric {
	return []metric{
		gauge("frozen_seconds", "For how much longer nothing expires, because an operator has frozen the cluster (Y3); 0 "+
			"while it is not frozen.", func(f *figures) float64 {
			_, left := f.node.view.freezes.present()
			return seconds(left)
		}).when("above 0 though nobody works on the cluster: holdfast cluster thaw"),
		gauge("sessions_extended", "Replicated sessions that do not expire for a time because an operator has extended "+
			"them (Y4).", func(f *figures) float64 {
			return float64(f.node.view.Tree().Extended())
		}),
	}
}
