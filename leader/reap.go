package leader

import (
	"context"
	"time"

	"holdfast/session"
)

// The leader looks for what is due in the tree each reapInterval (D5). While anything waits for a time of the log it
// moves the clocks on each tickInterval, so that a fail-over loses at most that of it (D3). An entry also ends a freeze
// that has come to its bound (Y3).
const (
	reapInterval = time.Second
	tickInterval = time.Minute
)

// Tree is what a leader needs of the tree in its state. The zero value is that of a state without one.
type Tree struct {
	// RunningClock is the running clock of the state as the term began (D3).
	RunningClock time.Duration
	// Now, if set, returns the time of the state (Y3), and Kept the moment of the log clock below which a session does
	// not expire, 0 for none (Y4). Both must be safe for concurrent use and return at once.
	Now  func() session.LogTime
	Kept func(session.ID) time.Duration
	// Reap, if set, returns what is due at a time of the log clock. It must be safe for concurrent use and return soon.
	Reap func(clock time.Duration) Reaping
	// Weight, if set, returns how much work the end of a session makes in the tree besides the session itself (U2). It
	// must be safe for concurrent use and return at once.
	Weight func(session.ID) int
}

// Reaping is what a leader has to do in the tree at a time of the log clock.
type Reaping struct {
	// Due is the command that removes what is due, as much as one entry of the log may (D5); nil if nothing is due.
	Due *session.TreeCommand
	// More says that more may be due than Due removes.
	More bool
	// Waits says that something waits for a time of the log: an entry with a due time (D5), a freeze or an extended
	// session (Y3, Y4).
	Waits bool
}

// reap removes what comes due in the tree, until ctx or the term ends.
func (t *Tracker) reap(ctx context.Context) {
	if t.cfg.Tree.Reap == nil {
		return
	}
	// While an entry of the log takes longer than an interval, a tick waits: what came due meanwhile goes next.
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

// reapOnce removes what is due, as much as one entry may. Others share the entries of the log with it, so that what is
// due takes a part of each entry, however much it is. It returns when it last proposed anything, and whether more is due.
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

// tend proposes a command that nobody waits for, and reports whether it is in the log. What is not done is due again.
func (t *Tracker) tend(ctx context.Context, c session.Command) bool {
	_, err := t.requests.log.Propose(ctx, c)
	if err != nil {
		t.logger.Debug("the tree is not tended", "term", t.term.number, "error", err)
	}
	return err == nil
}
