package tracing

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"holdfast/session"
)

// table keeps up to limit values by their keys: with one more, it forgets all others, so that values that are never
// read do not stay for ever. Its methods are safe for concurrent use; get and remove need no lock while it is empty.
type table[K comparable, V any] struct {
	limit int
	size  atomic.Int64

	mu  sync.Mutex
	all map[K]V // guarded by mu
}

// put keeps a value.
func (t *table[K, V]) put(key K, value V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, again := t.all[key]; t.all == nil || !again && len(t.all) >= t.limit {
		t.all = make(map[K]V)
	}
	t.all[key] = value
	t.size.Store(int64(len(t.all)))
}

// get returns the value of a key.
func (t *table[K, V]) get(key K) (value V, ok bool) {
	if t.size.Load() == 0 {
		return value, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok = t.all[key]
	return value, ok
}

// remove removes and returns the value of a key.
func (t *table[K, V]) remove(key K) (value V, ok bool) {
	if t.size.Load() == 0 {
		return value, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if value, ok = t.all[key]; ok {
		delete(t.all, key)
		t.size.Store(int64(len(t.all)))
	}
	return value, ok
}

// empty removes and returns all values.
func (t *table[K, V]) empty() map[K]V {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.all
	t.all = nil
	t.size.Store(0)
	return all
}

// entries are the newest entries that this node has applied, and traces of entries that it has not applied yet.
type entries struct {
	waiting table[uint64, []*session.Trace]

	mu sync.Mutex
	// newest is the highest index; slots have the entries by their index. guarded by mu
	newest uint64
	slots  [maxEntries]landed
}

// landed is an applied entry.
type landed struct {
	index        uint64
	began, ended time.Time
}

// add records an applied entry, and returns its traces.
func (e *entries) add(one landed) []*session.Trace {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.newest = max(e.newest, one.index)
	e.slots[one.index%maxEntries] = one
	traces, _ := e.waiting.remove(one.index)
	return traces
}

// find returns a recently applied entry. The traces of a later entry wait for the entry.
func (e *entries) find(in session.Traced) (landed, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.slots[in.Index%maxEntries]; one.index == in.Index {
		return one, true
	}
	if in.Index <= e.newest {
		return landed{}, false
	}
	traces, _ := e.waiting.get(in.Index)
	if len(traces) < session.MaxTraced {
		e.waiting.put(in.Index, append(traces, in.Trace))
	}
	return landed{}, false
}

// Applied records when this node applied an entry. The goroutine that applies entries calls it.
func (t *Tracer) Applied(index uint64, began, ended time.Time) {
	if t == nil {
		return
	}
	one := landed{index, began, ended}
	for _, in := range t.applied.add(one) {
		t.addSpan(in, one)
	}
}

// record processes the traces of entries in a heartbeat.
func (t *Tracer) record(all []session.Traced) {
	for _, in := range all[:min(len(all), session.MaxTraced)] {
		if one, ok := t.applied.find(in); ok {
			t.addSpan(in.Trace, one)
		}
	}
}

// addSpan makes the span of an entry that this node has applied.
func (t *Tracer) addSpan(in *session.Trace, one landed) {
	s := t.start(in, applySpan, trace.SpanKindInternal, trace.WithTimestamp(one.began))
	if s == nil {
		return
	}
	s.set(indexAttribute(one.index))
	s.End(trace.WithTimestamp(one.ended))
}

// feed has the newest traces of entries, for the heartbeats to all nodes. Safe for concurrent use.
type feed struct {
	mu sync.Mutex
	// count is the number of all traces so far; slots have the newest. guarded by mu
	count uint64
	slots [maxEntries]session.Traced
}

func (f *feed) add(one session.Traced) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots[f.count%maxEntries] = one
	f.count++
}

// now returns the present position of the feed.
func (f *feed) now() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// since returns up to [session.MaxTraced] traces after a position in the feed, and the next position.
func (f *feed) since(at uint64) (some []session.Traced, next uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count > maxEntries {
		at = max(at, f.count-maxEntries)
	}
	for ; at < f.count && len(some) < session.MaxTraced; at++ {
		some = append(some, f.slots[at%maxEntries])
	}
	return some, at
}
