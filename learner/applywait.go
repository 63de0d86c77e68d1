package learner

import (
	"context"
	"errors"
	"time"

	"holdfast/session"
)

// applyWait lets requests wait until this node has applied the entry that they need. Waits are bounded: at the bound
// the error is session.ErrLagging (M5 lagging, not expired, N4 seen index). Safe for concurrent use.
type applyWait struct {
	state Progress
	// bound is Config.CatchUpWait.
	bound time.Duration
	// advanced wakes its waiters when the node has applied more entries.
	advanced *broadcast
	// queue is for requests for which no goroutine waits.
	queue *applyQueue
}

func newApplyWait(cfg *Config, state Progress) *applyWait {
	return &applyWait{
		state: state, bound: cfg.CatchUpWait, advanced: newBroadcast(), queue: newApplyQueue(state, cfg.CatchUpWait),
	}
}

// seen waits until this node has applied the index that a client has seen (N4).
func (w *applyWait) seen(ctx context.Context, index uint64) error {
	if w.state.AppliedIndex() >= index {
		return nil
	}
	return w.index(ctx, index)
}

// index waits until this node has applied the entry at index (M3 served in the leader's term).
func (w *applyWait) index(ctx context.Context, index uint64) error {
	bounded, cancel := context.WithTimeout(ctx, w.bound)
	defer cancel()
	return lagging(ctx, w.state.WaitApplied(bounded, index))
}

// attachment waits until this node has applied an attachment (M5).
func (w *applyWait) attachment(ctx context.Context, attachment uint64) error {
	if w.state.Attachment() >= attachment {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, w.bound)
	defer cancel()
	for {
		advanced := w.advanced.wait()
		// Observers of an entry are notified, and wake advanced, before the state shows the entry's attachment.
		if err := w.state.WaitApplied(bounded, w.state.ShownIndex()); err != nil {
			return lagging(ctx, err)
		}
		if w.state.Attachment() >= attachment {
			return nil
		}
		select {
		case <-advanced:
		case <-bounded.Done():
			return lagging(ctx, bounded.Err())
		}
	}
}

// lagging returns session.ErrLagging for the end of a bounded wait, and err when the caller's own context ended.
func lagging(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return session.ErrLagging
	}
	return err
}
