package leader

import (
	"context"
	"time"

	"holdfast/session"
)

// The leader searches the tree for due entries each reapInterval (D5 TTLs and containers). While something waits for a
// time of the log, the leader advances the clocks each tickInterval, so that a fail-over loses at most one tickInterval
// (D3 log clock). A tick also ends a freeze that has reached its bound (Y3 freeze).
const (
	reapInterval = time.Second
	tickInterval = time.Minute
)

// Tree has the functions with which a leader handles the tree in its state. The zero value means a state without a
// tree.
type Tree struct {
	// RunningClock is the running clock of the state at the beginning of the term (D3).
	RunningClock time.Duration
	// Now, if set, returns the time of the state (Y3). Kept, if set, returns the moment of the log clock before which a
	// session does not expire, 0 for none (Y4 extension). Both must be safe for concurrent use and return at once.
	Now  func() session.LogTime
	Kept func(session.ID) time.Duration
	// Reap, if set, returns the work that is due at a time of the log clock. It must be safe for concurrent use and
	// return soon.
	Reap func(clock time.Duration) Reaping
	// Weight, if set, returns the weight in the tree of a session's end, besides the session itself (U2 weight). It
	// must be safe for concurrent use and return at once.
	Weight func(session.ID) int
}

// Reaping is a leader's work in the tree at a time of the log clock.
type Reaping struct {
	// Due is the command that removes due entries, as many as one entry of the log may remove (D5); nil if no entry is
	// due.
	Due *session.TreeCommand
	// More says that entries beyond Due may be due.
	More bool
	// Waits says that something waits for a time of the log: an entry with a due time (D5), a freeze or an extended
	// session (Y3, Y4).
	Waits bool
}

// reap removes due entries of the tree, until ctx or the term ends.
func (t *Tracker) reap(ctx context.Context) {
	if t.cfg.Tree.Reap == nil {
		return
	}
	// While an entry of the log takes longer than an interval, a tick waits: the next command then covers all entries
	// that came due meanwhile.
	ticker := time.NewTicker(reapInterval)
	defer ticker.Stop()
	var ticked time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.term.over:
			return
		case <-ticker.C:
		}
		for more := true; more; {
			ticked, more = t.reapOnce(ctx, ticked)
		}
	}
}

// reapOnce removes due entries, as many as one command may. Other commands share the log's entries, so that however
// many entries of the tree are due, the command is only a part of each log entry. reapOnce returns the time of the last
// proposal, and whether more entries are due.
func (t *Tracker) reapOnce(ctx context.Context, ticked time.Duration) (at time.Duration, more bool) {
	now := t.heartbeats.now()
	what := t.cfg.Tree.Reap(t.cfg.Tree.at(now).Log)
	var command session.Command = session.Tick{}
	switch {
	case what.Due != nil:
		command = *what.Due
	case t.cfg.Tree.overdue(now), what.Waits && now-ticked >= tickInterval:
	default:
		return ticked, false
	}
	if !t.tend(ctx, command) {
		return ticked, false
	}
	return now, what.More
}

// tend proposes a command of the leader's own, and reports whether it is in the log. Work that fails comes due again.
func (t *Tracker) tend(ctx context.Context, c session.Command) bool {
	_, err := t.requests.log.Propose(ctx, c)
	if err != nil {
		t.logger.Debug("maintenance of the tree failed", "term", t.term.number, "error", err)
	}
	return err == nil
}
