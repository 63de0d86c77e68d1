package watch

import (
	"time"

	"holdfast/tree"
)

// FeedLimits bound the unsent events of persistent and recursive watches of a connection, by their number and bytes.
type FeedLimits struct{ Events, Bytes int }

// DefaultFeedLimits returns the bounds of V6.
func DefaultFeedLimits() FeedLimits { return FeedLimits{Events: 4096, Bytes: 1 << 20} }

// QuietAfter is how long a connection with watches is told nothing before it is told the lane's stamp (V5).
const QuietAfter = time.Second

// Feed is what is unsent to one connection, in the order in which it is to be sent: events, and answers between them
// (G1). The values of events and answers are of type T. Not safe for concurrent use: its lane and the connection's
// writer share it under a lock of theirs.
//
// Above its limits, events that were told with Tell give way to a LOST. Events that were told with Keep stay (V6).
//
// Told is a promise: a client that comes back from it misses nothing. So it rises past a stamp only once all that the
// connection is owed up to there has been sent, and a LOST says so of what is missing. Without, a client would come
// back from the stamp of the first of two events that one transaction made, and never hear of the second; or from a
// LOST in front of an older one-shot event, which would then never fire.
//
// So a LOST covers no stamp of an event that is kept behind it. Where a kept event follows, another LOST follows that
// for what gave way later.
type Feed[T any] struct {
	limits FeedLimits
	queue  []entry[T] // its entries have the numbers from first
	first  int
	// events and bytes count what Tell has added.
	events, bytes int
	// openLost is the number of the last entry but for answers, if that is a LOST: later events join it, unless an answer
	// is behind it.
	openLost int
	// rising is the number of the last entry that raises told.
	rising int
	told   tree.Stamp
	spoke  time.Time
}

// class is what an entry of a feed is.
type class uint8

const (
	event class = iota // gives way to a LOST
	kept               // an event that stays
	answer
	lost
	void // nothing: a LOST that turned out to cover nothing
)

// entry is one thing to send.
type entry[T any] struct {
	value T
	// low is the lowest stamp that the entry says something of. stamp is the highest, and what told rises to with it.
	low, stamp tree.Stamp
	bytes      int
	// before is the number of the entry that raised told last before this one.
	before int
	class  class
	// mute says that told does not rise with the entry, because a later one says something of its stamp or below.
	mute bool
}

// none is the number of no entry.
const none = -1

// NewFeed returns an empty feed.
func NewFeed[T any](limits FeedLimits) *Feed[T] {
	return &Feed[T]{limits: limits, openLost: none, rising: none}
}

// Tell adds an event of the change at stamp, which takes bytes, unless a LOST takes its place.
func (f *Feed[T]) Tell(stamp tree.Stamp, value T, bytes int) {
	f.add(entry[T]{class: event, value: value, low: stamp, stamp: stamp, bytes: bytes})
	if f.events > f.limits.Events || f.bytes > f.limits.Bytes {
		f.collapse()
	}
}

// Keep adds an event of the change at stamp, which ends a one-shot watch.
func (f *Feed[T]) Keep(stamp tree.Stamp, value T) {
	f.add(entry[T]{class: kept, value: value, low: stamp, stamp: stamp})
}

// Answer adds an answer. Told rises to stamp with it: that of the write, or of the root of the read (G4). All events up
// to stamp have been added before.
func (f *Feed[T]) Answer(stamp tree.Stamp, value T) {
	f.add(entry[T]{class: answer, value: value, stamp: stamp})
}

// Lose adds a LOST for the changes from first to last, which the lane has not seen.
func (f *Feed[T]) Lose(first, last tree.Stamp) {
	f.add(entry[T]{class: lost, low: first, stamp: last})
}

// add adds an entry, or lets the last LOST cover it. What is behind an answer joins no LOST in front of it: the answer
// may be the first that a client hears of a watch, which then knows nothing of that LOST.
func (f *Feed[T]) add(e entry[T]) {
	switch open := f.open(); {
	case open == nil || e.class == answer, e.class != kept && !f.lostIsLast():
	case e.class != kept: // joins
		f.lower(open, e.low)
		open.stamp = max(open.stamp, e.stamp)
		return
	case open.stamp >= e.stamp: // the LOST is parted: what it covers from the kept event's stamp on comes behind that
		behind := entry[T]{class: lost, low: max(open.low, e.stamp), stamp: open.stamp}
		if open.stamp = e.stamp - 1; open.stamp < open.low {
			open.class, open.stamp = void, ^tree.Stamp(0) // so that hush passes it
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

// lostIsLast reports whether nothing is behind the LOST that later events join.
func (f *Feed[T]) lostIsLast() bool { return f.openLost == f.first+len(f.queue)-1 }

func (f *Feed[T]) at(n int) *entry[T] { return &f.queue[n-f.first] }

// append adds an entry behind all others.
func (f *Feed[T]) append(e entry[T]) {
	n := f.first + len(f.queue)
	if e.class != answer { // it says of no stamp that something is missing
		f.hush(e.low)
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
