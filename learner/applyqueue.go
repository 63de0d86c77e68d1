package learner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"holdfast/session"
)

// waiter is told once when a wait of an [applyQueue] is over: with nil when this node's state has applied the index,
// and with session.ErrLagging when the wait has taken too long. applied must return soon, and must not panic.
type waiter interface{ applied(behind error) }

// applyQueue lets requests wait until this node's state has applied an index (M3), without a goroutine or a timer for
// each. One goroutine, run, waits for the lowest index of all, and tells the waiters in the order of their indexes, and
// those of one index in the order in which they came. Safe for concurrent use.
//
// The replies of the leader come in the order of the log, but clients may name any index (N4). So n waits cost n log n,
// whatever they wait for.
type applyQueue struct {
	state Progress
	// bound is Config.LaggingWait.
	bound time.Duration
	// wake has room for one word: there is something to wait for.
	wake chan struct{}

	mu sync.Mutex
	// groups are the waiters, by index; newest is the group that was added to last. guarded by mu
	groups btree.Map[uint64, *waitGroup]
	newest *waitGroup
	// ages has one for each waiter, in the order in which they came, which is the order in which their waits end. The
	// first told of them have been told, and so have those of groups that are over. guarded by mu
	ages []age
	told int
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
	waiters []waiter
	over    bool // all have been told
}

// age is when a wait of a group ends.
type age struct {
	until time.Time
	group *waitGroup
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
		return q.newest // most replies of a moment are of one entry
	}
	g, ok := q.groups.Get(index)
	if !ok {
		g = &waitGroup{index: index}
		q.groups.Set(index, g)
	}
	q.newest = g
	return g
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
	if index, _, _ = q.groups.Min(); index != 0 {
		until = q.ages[q.told].until
	}
	return index, until
}

// await waits until the state has applied an index, or until a moment, or until somebody waits for a lower index.
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
			w.applied(nil)
		}
	}
	for _, w := range late {
		w.applied(session.ErrLagging)
	}
}

// take removes the waiters whose index has been applied, and the others whose time is over.
func (q *applyQueue) take(applied uint64, now time.Time) (reached []*waitGroup, late []waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for index, g, ok := q.groups.Min(); ok && index <= applied; index, g, ok = q.groups.Min() {
		q.groups.PopMin()
		g.over = true
		reached = append(reached, g)
	}
	for ; q.told < len(q.ages); q.told++ {
		oldest := q.ages[q.told]
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
	if q.told > len(q.ages)/2 { // so that each is moved once at most, on average
		q.ages, q.told = slices.Delete(q.ages, 0, q.told), 0
	}
	return reached, late
}

// end tells the waiters that are left that this node serves them no more.
func (q *applyQueue) end() {
	q.mu.Lock()
	left := q.groups.Values()
	q.groups, q.newest, q.ages, q.told, q.ended = btree.Map[uint64, *waitGroup]{}, nil, nil, 0, true
	q.mu.Unlock()
	for _, g := range left {
		for _, w := range g.waiters {
			w.applied(session.ErrLagging)
		}
	}
}
