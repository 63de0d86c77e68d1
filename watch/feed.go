package watch

import (
	"time"

	"holdfast/tree"
)

// FeedLimits bound the unsent events of persistent and recursive watches of a connection, by their number and bytes.
type FeedLimits struct{ Events, Bytes int }

// DefaultFeedLimits returns the bounds of V6.
func DefaultFeedLimits() FeedLimits { return FeedLimits{Events: 4096, Bytes: 1 << 20} }

// QuietAfter is the time after the last sent event or answer at which a connection with watches is sent the
// dispatcher's stamp (V5 stamps for idle watchers).
const QuietAfter = time.Second

// Feed is the queue of unsent events and answers of one connection, in the order of sending (G1 order per connection).
// T is the type of the values of both. Not safe for concurrent use: the dispatcher and the connection's writer share a
// feed under their own lock.
//
// Above the limits, a LOST replaces the events of [Feed.AddEvent]. The events of [Feed.AddOneShot] stay (V6 LOST).
//
// Delivered is a promise: a client that resumes from this stamp misses nothing. Delivered rises past a stamp only once
// every event up to the stamp has been sent, or a LOST for the missing ones. Otherwise a client could resume from the
// stamp of the first of two events that one transaction made, and never get the second. Or a client could resume from a
// LOST that is queued before an older one-shot event, which would then never fire.
//
// A LOST therefore covers no stamp of an event that is kept behind the LOST. After a kept event, another LOST covers
// the events that were dropped later.
type Feed[T any] struct {
	limits FeedLimits
	queue  []entry[T] // the entry queue[0] has the number first
	first  int
	// events and bytes count the queued entries of AddEvent.
	events, bytes int
	// openLost is the number of the last entry except answers, if that entry is a LOST. Later events join this LOST
	// unless an answer is behind it.
	openLost int
	// rising is the number of the last entry that raises delivered.
	rising    int
	delivered tree.Stamp
	spoke     time.Time
}

// class is the kind of an entry of a feed.
type class uint8

const (
	event class = iota // a LOST may replace the event
	kept               // an event that no LOST replaces
	answer
	lost
	void // a former LOST that covers nothing any more
)

// entry is one event, answer or LOST in the queue.
type entry[T any] struct {
	value T
	// low and stamp are the lowest and the highest stamp that the entry covers. Sending the entry raises delivered to
	// stamp.
	low, stamp tree.Stamp
	bytes      int
	// before is the number of the previous entry that raises delivered.
	before int
	class  class
	// mute says that the entry does not raise delivered, because a later entry covers a stamp at or below the entry's
	// own.
	mute bool
}

// none is the number of no entry.
const none = -1

// NewFeed returns an empty feed.
func NewFeed[T any](limits FeedLimits) *Feed[T] {
	return &Feed[T]{limits: limits, openLost: none, rising: none}
}

// AddEvent adds an event of the change at stamp. The event has the given size in bytes, and a LOST may replace it.
func (f *Feed[T]) AddEvent(stamp tree.Stamp, value T, bytes int) {
	f.add(entry[T]{class: event, value: value, low: stamp, stamp: stamp, bytes: bytes})
	if f.events > f.limits.Events || f.bytes > f.limits.Bytes {
		f.collapse()
	}
}

// AddOneShot adds an event of the change at stamp that ends a one-shot watch. No LOST replaces the event.
func (f *Feed[T]) AddOneShot(stamp tree.Stamp, value T) {
	f.add(entry[T]{class: kept, value: value, low: stamp, stamp: stamp})
}

// Answer adds an answer. Sending the answer raises delivered to stamp: the stamp of the write, or of the root that was
// read (G4 stamps of answers). The caller has added all events up to stamp before.
func (f *Feed[T]) Answer(stamp tree.Stamp, value T) {
	f.add(entry[T]{class: answer, value: value, stamp: stamp})
}

// Lose adds a LOST for the changes from first to last, which the dispatcher has skipped.
func (f *Feed[T]) Lose(first, last tree.Stamp) {
	f.add(entry[T]{class: lost, low: first, stamp: last})
}

// add adds an entry, or extends the last LOST. An event behind an answer joins no LOST before the answer: the answer
// may register a watch on the client, and that LOST came too early for the watch.
func (f *Feed[T]) add(e entry[T]) {
	switch open := f.open(); {
	case open == nil || e.class == answer, e.class != kept && !f.lostIsLast():
	case e.class != kept: // the open LOST covers the event
		f.lower(open, e.low)
		open.stamp = max(open.stamp, e.stamp)
		return
	case open.stamp >= e.stamp: // splits the LOST: the part from the kept event's stamp on goes behind the kept event
		behind := entry[T]{class: lost, low: max(open.low, e.stamp), stamp: open.stamp}
		if open.stamp = e.stamp - 1; open.stamp < open.low {
			open.class, open.stamp = void, ^tree.Stamp(0) // above all stamps, so that muteFrom skips it
		}
		f.append(e)
		f.append(behind)
		return
	}
	f.append(e)
}

// open returns the LOST that later events join, or nil.
func (f *Feed[T]) open() *entry[T] {
	if f.openLost < f.first {
		return nil
	}
	return f.at(f.openLost)
}

// lostIsLast reports whether the LOST that later events join is the last entry.
func (f *Feed[T]) lostIsLast() bool { return f.openLost == f.first+len(f.queue)-1 }

func (f *Feed[T]) at(n int) *entry[T] { return &f.queue[n-f.first] }

// append adds an entry behind all others.
func (f *Feed[T]) append(e entry[T]) {
	n := f.first + len(f.queue)
	if e.class != answer { // an answer does not report lost or queued events
		f.muteFrom(e.low)
	}
	if e.mute = f.rising >= f.first && f.at(f.rising).stamp >= e.stamp; !e.mute {
		e.before, f.rising = f.rising, n
	}
	f.queue = append(f.queue, e)
	switch e.class {
	case event:
		f.events, f.bytes = f.events+1, f.bytes+e.bytes
		f.openLost = none
	case kept:
		f.openLost = none
	case lost:
		f.openLost = n
	case answer, void:
	}
}
