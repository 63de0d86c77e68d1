package leader

import (
	"context"
	"sync"
	"time"

	"holdfast/session"
)

// openMarks remembers when sessions were opened, coarsely: enough to say up to which index every open is older than
// some age (O2).
type openMarks struct {
	mu sync.Mutex
	// width is the time that one mark spans. Set before the first note.
	width time.Duration
	// marks rise in all their fields. Guarded by mu.
	marks []openMark
}

// openMark says that the opens up to index happened until last.
type openMark struct {
	index       uint64
	first, last time.Duration
}

// note notes opens at an index.
func (o *openMarks) note(index uint64, now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.marks); n > 0 {
		if m := &o.marks[n-1]; now-m.first < o.width {
			m.index, m.last = max(m.index, index), now
			return
		}
	}
	o.marks = append(o.marks, openMark{index: index, first: now, last: now})
}

// older returns the highest index up to which every open happened at or before moment; false if there is none.
func (o *openMarks) older(moment time.Duration) (uint64, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	index, found := uint64(0), false
	for _, m := range o.marks {
		if m.last > moment {
			break
		}
		index, found = m.index, true
	}
	return index, found
}

// drop forgets the marks up to an index.
func (o *openMarks) drop(index uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for n < len(o.marks) && o.marks[n].index <= index {
		n++
	}
	o.marks = append(o.marks[:0], o.marks[n:]...)
}

// remembered is how old an open must be for its request id to be forgotten (O2): a session whose client never heard of
// it has expired by then. Sessions of former leaders with other settings may have timeouts above this one's largest.
func (t *Tracker) remembered() time.Duration {
	timeout := max(t.cfg.Limits.Max, time.Duration(t.longest.Load()))
	return timeout + timeout/10 + 4*t.cfg.Interval
}

// forget proposes the forgetting of request ids of opens that are older than the largest timeout and a margin. Opens of
// earlier terms count as of this term's start.
func (t *Tracker) forget(ctx context.Context) {
	t.opens.note(t.view.CommitIndex(), t.now())
	timer := time.NewTimer(t.opens.width)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.over:
			return
		case <-timer.C:
		}
		if index, ok := t.opens.older(t.now() - t.remembered()); ok {
			result, err := t.log.Propose(ctx, session.ForgetRequests{UpToIndex: index})
			if err == nil && result.Err == nil {
				t.opens.drop(index)
			} else {
				t.logger.Debug("request ids not forgotten", "index", index, "term", t.cfg.Term, "error", err)
			}
		}
		timer.Reset(t.opens.width)
	}
}
