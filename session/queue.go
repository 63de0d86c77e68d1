package session

import (
	"fmt"
	"slices"
	"time"
)

// MinExpiryInterval is the smallest width of the buckets of an [ExpiryQueue].
const MinExpiryInterval = 50 * time.Millisecond

// DefaultExpiryInterval is the usual width of the buckets.
const DefaultExpiryInterval = 250 * time.Millisecond

// ExpiryQueue is ZooKeeper's bucketed expiry queue (spec section 2) with lazy re-bucketing:
//
//   - A session is filed in the bucket of the first multiple of the interval that is later than its due time.
//   - A touch moves the session's deadline and not its bucket, so it costs one write (Q-09 costs two sets).
//   - When a bucket is polled, the caller returns the real due time of each session in it. The session is filed again,
//     or joins the due list. A bucket in the past is polled like any other.
//   - A session leaves the due list and is marked as closing in one step, so at no moment is it out of the queue and
//     not marked (Q-20, K-18).
//
// Times are readings of the caller's clock. V is the caller's data of each session; if it holds no pointers, the
// garbage collector does not scan the sessions. Not safe for concurrent use.
type ExpiryQueue[V any] struct {
	interval time.Duration
	index    index
	slab     slab[V]
	// heads holds the first session of each bucket that got sessions since its last poll, or none if all of them have
	// left the bucket. order is a heap of its keys.
	heads map[int64]uint32
	order bucketHeap
	// due and dueLast are the first and the last session of the due list, which is in the order in which sessions came
	// due.
	due, dueLast uint32
	// dueLen is the number of sessions on the due list, marked the number of marked sessions.
	dueLen, marked int
}

// Item is one session in an [ExpiryQueue]. It is valid until the session is removed.
type Item[V any] struct {
	id       ID
	deadline time.Duration
	// bucket is the number of the session's bucket, or onDue, or marked.
	bucket     int64
	next, prev uint32
	// Value is the caller's data.
	Value V
}

// Values of Item.bucket for sessions that are in no bucket.
const (
	onDue  = -1
	marked = -2
)

// Verdict is a caller's decision about a due session.
type Verdict uint8

// Verdicts.
const (
	// Keep leaves the session on the due list, or files it again if its due time is now in the future.
	Keep Verdict = iota
	// Pop removes the session from the due list and marks it as closing.
	Pop
	// Stop is Keep, and ends [ExpiryQueue.Take].
	Stop
)

// NewExpiryQueue returns an empty queue. The error is a [FieldError]: the interval is below [MinExpiryInterval].
func NewExpiryQueue[V any](interval time.Duration) (*ExpiryQueue[V], error) {
	if interval < MinExpiryInterval {
		return nil, &FieldError{Field: "expiry_interval", Limit: fmt.Sprintf("at least %v", MinExpiryInterval)}
	}
	return &ExpiryQueue[V]{
		interval: interval,
		index:    newIndex(minSlotBits),
		heads:    make(map[int64]uint32),
	}, nil
}

// ID returns the session's id.
func (it *Item[V]) ID() ID { return it.id }

// Deadline returns the latest deadline of any touch; 0 before the first.
func (it *Item[V]) Deadline() time.Duration { return it.deadline }

// Touch moves the deadline forward to d, never back (A2 one clock for deadlines), also of a marked session (E4 closing
// mark). It is O(1) and leaves the session in its bucket.
func (it *Item[V]) Touch(d time.Duration) { it.deadline = max(it.deadline, d) }

// Marked reports whether the session is marked as closing.
func (it *Item[V]) Marked() bool { return it.bucket == marked }

// Len returns the number of sessions, marked ones included.
func (q *ExpiryQueue[V]) Len() int { return q.index.used }

// Due returns the number of sessions on the due list.
func (q *ExpiryQueue[V]) Due() int { return q.dueLen }

// Marked returns the number of sessions marked as closing.
func (q *ExpiryQueue[V]) Marked() int { return q.marked }

// Find returns the session, nil if it is not in the queue.
func (q *ExpiryQueue[V]) Find(id ID) *Item[V] {
	if n := q.place(id); n != none {
		return q.slab.at(n)
	}
	return nil
}

// FindAll finds many sessions: items[i] becomes the session of touches[i], nil if it is not in the queue. FindAll first
// reads the slots of up to 64 sessions and then their items, so that the processor waits for memory once and not for
// each session. items must be at least as long as touches.
func (q *ExpiryQueue[V]) FindAll(touches []Touch, items []*Item[V]) {
	var first [64]slot
	for len(touches) > 0 {
		n := min(len(touches), len(first))
		for i, touch := range touches[:n] {
			first[i] = q.index.slots[q.index.home(tag(touch.ID))]
		}
		for i, touch := range touches[:n] {
			items[i] = q.probe(first[i], touch.ID)
		}
		touches, items = touches[n:], items[n:]
	}
}

// probe finds the session of id, whose first slot is c.
func (q *ExpiryQueue[V]) probe(c slot, id ID) *Item[V] {
	if c.place == none {
		return nil
	}
	if c.tag == tag(id) {
		if it := q.slab.at(c.place); it.id == id {
			return it
		}
	}
	return q.Find(id)
}

// place returns the session's place in the slab, none if it is not in the queue.
func (q *ExpiryQueue[V]) place(id ID) uint32 {
	want := tag(id)
	for i := q.index.home(want); ; i = q.index.after(i) {
		c := q.index.slots[i]
		if c.place == none || c.tag == want && q.slab.at(c.place).id == id {
			return c.place
		}
	}
}

// Add files a new session that comes due at from + timeout. Its deadline is 0 until the first Touch. A timeout that is
// not positive, and an id that is already in the queue, are a [FieldError] (Q-10, K-04).
func (q *ExpiryQueue[V]) Add(id ID, from, timeout time.Duration, value V) (*Item[V], error) {
	if timeout <= 0 {
		return nil, &FieldError{Field: "timeout", Limit: "positive"}
	}
	if q.Find(id) != nil {
		return nil, &FieldError{Field: "session_id", Limit: "an id that is not in the queue yet"}
	}
	n := q.slab.alloc()
	it := q.slab.at(n)
	*it = Item[V]{id: id, Value: value}
	q.index.put(id, n)
	q.file(n, it, from+timeout)
	return it, nil
}

// Remove removes a session, marked or not; false if it is not in the queue.
func (q *ExpiryQueue[V]) Remove(id ID) bool {
	n := q.place(id)
	if n == none {
		return false
	}
	it := q.slab.at(n)
	q.unlink(it)
	q.index.drop(id, n)
	*it = Item[V]{}
	q.slab.free(n)
	return true
}

// Next returns when the first bucket with sessions comes due; false if all buckets are empty.
func (q *ExpiryQueue[V]) Next() (time.Duration, bool) {
	for len(q.order) > 0 {
		first := q.order[0]
		if q.heads[first] != none {
			return q.dueAt(first), true
		}
		q.dropFirst()
	}
	return 0, false
}

// Sift polls every bucket that has come due at now, and calls due once for each session in them. Sessions whose due
// time is after now are filed again, and the others join the due list. Sift returns the number of those.
func (q *ExpiryQueue[V]) Sift(now time.Duration, due func(*Item[V]) time.Duration) int {
	before := q.dueLen
	for len(q.order) > 0 && q.dueAt(q.order[0]) <= now {
		n := q.dropFirst()
		for n != none {
			it := q.slab.at(n)
			next := it.next
			if d := due(it); d > now {
				q.file(n, it, d)
			} else {
				q.pushDue(n, it)
			}
			n = next
		}
	}
	return q.dueLen - before
}

// Hasten calls due for every session in a bucket, and files again the sessions that come due in an earlier one. due
// returns false for a session that stays in its bucket.
func (q *ExpiryQueue[V]) Hasten(due func(*Item[V]) (time.Duration, bool)) {
	for _, bucket := range slices.Clone(q.order) {
		for n := q.heads[bucket]; n != none; {
			it := q.slab.at(n)
			next := it.next
			if d, ok := due(it); ok && q.bucketOf(d) < bucket {
				q.unlink(it)
				q.file(n, it, d)
			}
			n = next
		}
	}
}

// Some calls yield for up to 256 sessions, marked ones included, and reports whether a higher part may have others. The
// parts 0, 1 and so on together have once every session that is in the queue all the time, whatever changes between the
// calls.
func (q *ExpiryQueue[V]) Some(part int, yield func(*Item[V])) (more bool) {
	items, ok := q.slab.chunk(part)
	for i := range items {
		if items[i].id != 0 {
			yield(&items[i])
		}
	}
	return ok
}

// Take calls decide for each session of the due list, in the order in which they came due. decide returns the session's
// present due time and a verdict. A session whose due time is after now is filed again whatever the verdict.
func (q *ExpiryQueue[V]) Take(now time.Duration, decide func(*Item[V]) (time.Duration, Verdict)) {
	for n := q.due; n != none; {
		it := q.slab.at(n)
		next := it.next
		due, verdict := decide(it)
		switch {
		case due > now:
			q.unlink(it)
			q.file(n, it, due)
		case verdict == Pop:
			q.Mark(it)
		case verdict == Stop:
			return
		}
		n = next
	}
}

// Mark removes a session from its bucket or the due list and marks it as closing (E3 ordered closes).
func (q *ExpiryQueue[V]) Mark(it *Item[V]) {
	if it.bucket == marked {
		return
	}
	q.unlink(it)
	it.bucket, it.next, it.prev = marked, none, none
	q.marked++
}

// Return removes a session's mark and files the session to come due at due (E4). It does nothing if the session is not
// marked.
func (q *ExpiryQueue[V]) Return(it *Item[V], due time.Duration) {
	if it.bucket != marked {
		return
	}
	q.marked--
	q.file(q.place(it.id), it, due)
}

// bucketOf returns the number of the bucket of a due time.
func (q *ExpiryQueue[V]) bucketOf(t time.Duration) int64 { return max(int64(t/q.interval), 0) + 1 }

// dueAt returns when a bucket comes due.
func (q *ExpiryQueue[V]) dueAt(bucket int64) time.Duration { return time.Duration(bucket) * q.interval }

func (q *ExpiryQueue[V]) file(n uint32, it *Item[V], due time.Duration) {
	bucket := q.bucketOf(due)
	if _, ok := q.heads[bucket]; !ok {
		q.heads[bucket] = none
		q.order.push(bucket)
	}
	q.push(n, it, bucket)
}

// push puts a session at the head of a bucket.
func (q *ExpiryQueue[V]) push(n uint32, it *Item[V], bucket int64) {
	head := q.heads[bucket]
	it.bucket, it.prev, it.next = bucket, none, head
	if head != none {
		q.slab.at(head).prev = n
	}
	q.heads[bucket] = n
}

// pushDue appends a session to the due list: in a storm, no session waits for others that came due later.
func (q *ExpiryQueue[V]) pushDue(n uint32, it *Item[V]) {
	it.bucket, it.prev, it.next = onDue, q.dueLast, none
	if q.dueLast != none {
		q.slab.at(q.dueLast).next = n
	} else {
		q.due = n
	}
	q.dueLast = n
	q.dueLen++
}

func (q *ExpiryQueue[V]) unlink(it *Item[V]) {
	if it.bucket == marked {
		q.marked--
		return
	}
	switch {
	case it.next != none:
		q.slab.at(it.next).prev = it.prev
	case it.bucket == onDue:
		q.dueLast = it.prev
	}
	switch {
	case it.prev != none:
		q.slab.at(it.prev).next = it.next
	case it.bucket == onDue:
		q.due = it.next
	default:
		q.heads[it.bucket] = it.next
	}
	if it.bucket == onDue {
		q.dueLen--
	}
}

// dropFirst removes the first bucket and returns its first session.
func (q *ExpiryQueue[V]) dropFirst() uint32 {
	first := q.order.pop()
	head := q.heads[first]
	delete(q.heads, first)
	return head
}
