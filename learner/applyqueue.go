package learner

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"holdfast/session"
)

// waiter is told once when a wait of an [applyQueue] is over: with nil when this node's state has applied the index,
// and with session.ErrLagging when the wait has taken too long. applied must return soon, and must not panic.
type waiter interface{ applied(behind error) }

// applyQueue lets requests wait until this node's state has applied an index (M3), without a goroutine or a timer for
// each. One goroutine, run, waits for the lowest index of all, and tells the waiters in the order of their indexes, and
// those of one index in the order in which they came. Safe for concurrent use.
type applyQueue struct {
	state Progress
	// bound is Config.LaggingWait.
	bound time.Duration
	// wake has room for one word: there is something to wait for.
	wake chan struct{}

	mu sync.Mutex
	// groups are the waiters, by ascending index. There are no more of them than requests that the node has under way,
	// which calls.begin bounds. guarded by mu
	groups []*waitGroup
	// awaited is the index that run waits for, and interrupt ends that wait; 0 and nil while it waits for none. guarded
	// by mu
	awaited   uint64
	interrupt context.CancelFunc
	// ended says that run tells nobody any more. guarded by mu
	ended bool
}

// waitGroup is what waits for one index, in the order in which it came.
type waitGroup struct {
	index   uint64
	waiters []waiting
}

type waiting struct {
	waiter waiter
	// until is the end of the wait. It is not before that of a waiter that came earlier.
	until time.Time
}

func newApplyQueue(state Progress, bound time.Duration) *applyQueue {
	return &applyQueue{state: state, bound: bound, wake: make(chan struct{}, 1)}
}

// after tells a waiter when the state has applied an index: at once when it has already. A wait is bounded.
func (q *applyQueue) after(index uint64, who waiter) {
	if q.state.AppliedIndex() >= index {
		who.applied(nil)
		return
	}
	until := time.Now().Add(q.bound)
	q.mu.Lock()
	if q.ended {
		q.mu.Unlock()
		who.applied(session.ErrLagging)
		return
	}
	q.group(index).add(who, until)
	var interrupt context.CancelFunc
	if index < q.awaited {
		interrupt = q.interrupt
	}
	q.mu.Unlock()
	if interrupt != nil {
		interrupt()
	}
	notify(q.wake)
}

// group returns the group of an index. Called with mu held.
func (q *applyQueue) group(index uint64) *waitGroup {
	if last := len(q.groups) - 1; last >= 0 && q.groups[last].index == index {
		return q.groups[last] // replies come in the order of the log
	}
	i, found := slices.BinarySearchFunc(q.groups, index, func(g *waitGroup, index uint64) int {
		return cmp.Compare(g.index, index)
	})
	if !found {
		q.groups = slices.Insert(q.groups, i, &waitGroup{index: index})
	}
	return q.groups[i]
}

func (g *waitGroup) add(who waiter, until time.Time) {
	g.waiters = append(g.waiters, waiting{who, until})
}

// run tells waiters until ctx ends. The waiters that are left then hear session.ErrLagging.
func (q *applyQueue) run(ctx context.Context) {
	defer q.end()
	for {
		select {
		case <-q.wake:
		case <-ctx.Done():
			return
		}
		for {
			index, until := q.lowest()
			if index == 0 {
				break
			}
			q.await(ctx, index, until)
			if ctx.Err() != nil {
				return
			}
			q.tell(time.Now())
		}
	}
}

// lowest returns the lowest index that is waited for, and the end of the oldest wait; 0 when nobody waits.
func (q *applyQueue) lowest() (index uint64, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.groups {
		if first := g.waiters[0].until; until.IsZero() || first.Before(until) {
			until = first
		}
	}
	if len(q.groups) > 0 {
		index = q.groups[0].index
	}
	return index, until
}

// await waits until the state has applied an index, or until a moment, or until somebody waits for a lower index.
func (q *applyQueue) await(ctx context.Context, index uint64, until time.Time) {
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	q.mu.Lock()
	lower := len(q.groups) > 0 && q.groups[0].index < index
	if !lower {
		q.awaited, q.interrupt = index, cancel
	}
	q.mu.Unlock()
	if lower {
		return
	}
	_ = q.state.WaitApplied(bounded, index) // tell looks at what has been applied
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaited, q.interrupt = 0, nil
}

// tell tells the waiters whose waits are over at now.
func (q *applyQueue) tell(now time.Time) {
	reached, late := q.take(q.state.AppliedIndex(), now)
	for _, g := range reached {
		for _, w := range g.waiters {
			w.waiter.applied(nil)
		}
	}
	for _, w := range late {
		w.waiter.applied(session.ErrLagging)
	}
}

// take removes the waiters whose index has been applied, and the others whose time is over.
func (q *applyQueue) take(applied uint64, now time.Time) (reached []*waitGroup, late []waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.groups) && q.groups[n].index <= applied {
		n++
	}
	reached = slices.Clone(q.groups[:n])
	q.groups = slices.Delete(q.groups, 0, n)
	q.groups = slices.DeleteFunc(q.groups, func(g *waitGroup) bool {
		over := 0
		for over < len(g.waiters) && !g.waiters[over].until.After(now) {
			over++
		}
		late = append(late, g.waiters[:over]...)
		g.waiters = g.waiters[over:]
		return len(g.waiters) == 0
	})
	return reached, late
}

// end tells the waiters that are left that this node serves them no more.
func (q *applyQueue) end() {
	q.mu.Lock()
	left := q.groups
	q.groups, q.ended = nil, true
	q.mu.Unlock()
	for _, g := range left {
		for _, w := range g.waiters {
			w.waiter.applied(session.ErrLagging)
		}
	}
}
