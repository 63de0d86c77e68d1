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
	// Reap, if set, returns the command that removes what is due at a time of the log clock, and says whether anything
	// waits for a time of the log: an entry with a due time (D5), a freeze or an extended session (Y3, Y4). It must be
	// safe for concurrent use and return soon.
	Reap func(clock time.Duration) (due *session.TreeCommand, later bool)
	// Weight, if set, returns how much work the end of a session makes in the tree besides the session itself (U2). It
	// must be safe for concurrent use and return at once.
	Weight func(session.ID) int
}

// reap removes what comes due in the tree, until ctx or the term ends.
func (t *Tracker) reap(ctx context.Context) {
	if t.cfg.Tree.Reap == nil {
		return
	}
	timer := time.NewTimer(reapInterval)
	defer timer.Stop()
	var ticked time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.term.over:
			return
		case <-timer.C:
		}
		now := t.heartbeats.now()
		switch due, later := t.cfg.Tree.Reap(t.cfg.Tree.at(now).Log); {
		case due != nil:
			if t.tend(ctx, *due) {
				ticked = now
			}
		case t.cfg.Tree.overdue(now) || later && now-ticked >= tickInterval:
			if t.tend(ctx, session.Tick{}) {
				ticked = now
			}
		}
		timer.Reset(reapInterval)
	}
}

// tend proposes a command that nobody waits for, and reports whether it is in the log. What is not done is due again.
func (t *Tracker) tend(ctx context.Context, c session.Command) bool {
	_, err := t.requests.log.Propose(ctx, c)
	if err != nil {
		t.logger.Debug("the tree is not tended", "term", t.term.number, "error", err)
	}
	return err == nil
}
