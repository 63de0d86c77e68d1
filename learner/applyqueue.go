package learner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"holdfast/session"
)

// waiter gets the end of its wait in an [applyQueue], once: nil when this node has applied the index, and
// session.ErrLagging when the wait has lasted too long. applied must return soon, and must not panic.
type waiter interface{ applied(behind error) }

// applyQueue lets requests wait until this node has applied an index (M3 served in the leader's term), without a
// goroutine or a timer for each request. One goroutine, run, waits for the lowest index, and notifies the waiters in
// the order of their indexes, those of one index in the order of arrival. Safe for concurrent use.
//
// Replies of the leader arrive in the order of the log, but clients may name any index (N4 seen index). So n waits cost
// n log n, for any indexes.
type applyQueue struct {
	state Progress
	// bound is Config.CatchUpWait.
	bound time.Duration
	// wake has space for one signal: a new waiter.
	wake chan struct{}

	mu sync.Mutex
	// groups are the waiters, by index; newest is the group of the last addition. guarded by mu
	groups btree.Map[uint64, *waitGroup]
	newest *waitGroup
	// ages has one entry for each waiter, in the order of arrival, which is the order of their deadlines. The waiters
	// of the first notified entries have been notified, and so have the waiters of finished groups. guarded by mu
	ages     []age
	notified int
	// awaited is the index for which run waits, and interrupt ends that wait; 0 and nil when run waits for none.
	// guarded by mu
	awaited   uint64
	interrupt context.CancelFunc
	// ended is set once run notifies nobody any more. guarded by mu
	ended bool
}

// waitGroup holds the waiters for one index, in the order of arrival.
type waitGroup struct {
	index   uint64
	waiters []waiter
	over    bool // all have been notified
}

// age is the deadline of one waiter of a group.
type age struct {
	until time.Time
	group *waitGroup
}

func newApplyQueue(state Progress, bound time.Duration) *applyQueue {
	return &applyQueue{state: state, bound: bound, wake: make(chan struct{}, 1)}
}

// after notifies a waiter once the node has applied the index, immediately if it already has. The wait is bounded.
func (q *applyQueue) after(index uint64, who waiter) {
	if q.state.AppliedIndex() >= index {
		who.applied(nil)
		return
	}
	q.mu.Lock()
	if q.ended {
		q.mu.Unlock()
		who.applied(session.ErrLagging)
		return
	}
	g := q.group(index)
	g.waiters = append(g.waiters, who)
	q.ages = append(q.ages, age{time.Now().Add(q.bound), g})
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
	if q.newest != nil && q.newest.index == index && !q.newest.over {
		return q.newest // replies that arrive together are mostly of one entry
	}
	g, ok := q.groups.Get(index)
	if !ok {
		g = &waitGroup{index: index}
		q.groups.Set(index, g)
	}
	q.newest = g
	return g
}

// run notifies waiters until ctx ends. The remaining waiters then get session.ErrLagging.
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
			q.notify(time.Now())
		}
	}
}

// lowest returns the lowest awaited index, and the deadline of the oldest waiter; 0 without waiters.
func (q *applyQueue) lowest() (index uint64, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if index, _, _ = q.groups.Min(); index != 0 {
		until = q.ages[q.notified].until
	}
	return index, until
}

// await waits until the node has applied an index, until a deadline, or until another waiter waits for a lower index.
func (q *applyQueue) await(ctx context.Context, index uint64, until time.Time) {
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	q.mu.Lock()
	lowest, _, _ := q.groups.Min()
	lower := lowest < index
	if !lower {
		q.awaited, q.interrupt = index, cancel
	}
	q.mu.Unlock()
	if lower {
		return
	}
	_ = q.state.WaitApplied(bounded, index) // the caller reads the applied index itself
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaited, q.interrupt = 0, nil
}

// notify notifies the waiters whose waits are over at now.
func (q *applyQueue) notify(now time.Time) {
	reached, late := q.removeDone(q.state.AppliedIndex(), now)
	for _, g := range reached {
		for _, w := range g.waiters {
			w.applied(nil)
		}
	}
	for _, w := range late {
		w.applied(session.ErrLagging)
	}
}

// removeDone removes and returns the groups of applied indexes, and the waiters of other groups whose deadline has
// passed.
func (q *applyQueue) removeDone(applied uint64, now time.Time) (reached []*waitGroup, late []waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for index, g, ok := q.groups.Min(); ok && index <= applied; index, g, ok = q.groups.Min() {
		q.groups.PopMin()
		g.over = true
		reached = append(reached, g)
	}
	for ; q.notified < len(q.ages); q.notified++ {
		oldest := q.ages[q.notified]
		g := oldest.group
		if g.over {
			continue
		}
		if oldest.until.After(now) {
			break
		}
		late = append(late, g.waiters[0]) // the oldest of its group
		g.waiters = g.waiters[1:]
		if g.over = len(g.waiters) == 0; g.over {
			q.groups.Delete(g.index)
		}
	}
	if q.notified > len(q.ages)/2 { // so that each entry is moved at most once on average
		q.ages, q.notified = slices.Delete(q.ages, 0, q.notified), 0
	}
	return reached, late
}

// end ends the remaining waits with session.ErrLagging.
func (q *applyQueue) end() {
	q.mu.Lock()
	left := q.groups.Values()
	q.groups, q.newest, q.ages, q.notified, q.ended = btree.Map[uint64, *waitGroup]{}, nil, nil, 0, true
	q.mu.Unlock()
	for _, g := range left {
		for _, w := range g.waiters {
			w.applied(session.ErrLagging)
		}
	}
}
