package leader

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// forgetter proposes the forgetting of request ids once their opens are old enough (O2 idempotent opens). Safe for
// concurrent use.
type forgetter struct {
	log        Log
	term       *term
	heartbeats *heartbeats
	registry   *registry
	logger     hclog.Logger
	// timeout is the largest timeout that the leader negotiates; margin covers the last rounds of a session.
	timeout, margin time.Duration
	// part is [Config.Part].
	part  func(upTo uint64, limit int) uint64
	opens openMarks
}

// opened records opens by the entry at index.
func (f *forgetter) opened(index uint64, now time.Duration) { f.opens.note(index, now) }

// age returns the age of an open at which its request id may be forgotten (O2): the session has expired by then if its
// client never got the answer. A session from a former leader with other settings may have a longer timeout than this
// leader negotiates.
func (f *forgetter) age() time.Duration {
	timeout := max(f.timeout, f.registry.longestTimeout())
	return timeout + timeout/10 + f.margin
}

// old returns the highest index up to which every open is old enough; false for none. An open before or during a freeze
// is old enough only after the full timeout that its session has after the freeze (Y3 freeze).
func (f *forgetter) old() (uint64, bool) {
	now, fullFrom := f.heartbeats.readClock()
	moment := now - f.age()
	if moment < fullFrom {
		return 0, false
	}
	return f.opens.older(moment)
}

// run proposes the forgetting from time to time, until ctx or the term ends. committed is the newest entry of former
// terms: their opens count as opened at the start of this term.
func (f *forgetter) run(ctx context.Context, committed uint64) {
	f.opens.note(committed, f.heartbeats.now())
	timer := time.NewTimer(f.opens.width)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.term.over:
			return
		case <-timer.C:
		}
		if index, ok := f.old(); ok {
			if err := f.forget(ctx, index); err == nil {
				f.opens.drop(index)
			} else {
				f.logger.Debug("forgetting request ids failed", "index", index, "term", f.term.number, "error", err)
			}
		}
		timer.Reset(f.opens.width)
	}
}

// forget forgets the request ids up to an index, in parts. It proposes each part after this node has applied the
// previous one, so opens get into the entries between two parts.
func (f *forgetter) forget(ctx context.Context, upTo uint64) error {
	for {
		part := f.part(upTo, session.MaxForget)
		result, err := f.log.Propose(ctx, session.ForgetRequests{UpToIndex: part})
		if err = cmp.Or(err, result.Err); err != nil || part >= upTo {
			return err
		}
	}
}

// openMarks has coarse times of opens: enough to find the index up to which every open is older than a given age (O2).
// Safe for concurrent use.
type openMarks struct {
	mu sync.Mutex
	// width is the time that one mark spans. It is set before the first note.
	width time.Duration
	// marks are in rising order by every field. Guarded by mu.
	marks []openMark
}

// openMark says that all opens up to index happened at last or before.
type openMark struct {
	index       uint64
	first, last time.Duration
}

// note records opens at an index.
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

// older returns the highest index up to which every open happened at or before moment; false for none.
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
