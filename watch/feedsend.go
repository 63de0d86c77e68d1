package watch

import (
	"time"

	"holdfast/tree"
)

// Sent is what a feed gives to be sent.
type Sent[T any] struct {
	// Value is the event or the answer, if it is no LOST.
	Value T
	// Lost says that changes up to Stamp which persistent or recursive watches match may be missing, and that later ones
	// will be told (V6). Stamp is 0 for anything else.
	Lost  bool
	Stamp tree.Stamp
	// Told is the highest stamp that the client may come back from once it has this: what it was owed up to there has
	// been sent. It never falls.
	Told tree.Stamp
}

// Next takes the next thing to send out of the feed; false if there is none now. lane is the stamp of the lane's root:
// what was added during a pass is sent when the pass has ended, because only then it is known what else its changes
// make. ready reports whether an answer has been encoded; what is behind one that has not been waits for it (G2). A nil
// ready is for answers that always are.
func (f *Feed[T]) Next(now time.Time, lane tree.Stamp, ready func(T) bool) (Sent[T], bool) {
	for len(f.queue) > 0 && f.queue[0].class == void {
		f.pop()
	}
	if len(f.queue) == 0 {
		return Sent[T]{}, false
	}
	e := f.queue[0]
	switch {
	case e.class == lost:
		return f.sendLost(now, lane)
	case e.stamp > lane, e.class == answer && ready != nil && !ready(e.value):
		return Sent[T]{}, false
	}
	f.pop()
	f.rise(now, e, e.stamp)
	return Sent[T]{Value: e.value, Told: f.told}, true
}

// sendLost sends the LOST at the head of the queue. It covers all up to lane if nothing is behind it: so s is set when
// it is written (V6). What it covers above lane stays in the queue.
func (f *Feed[T]) sendLost(now time.Time, lane tree.Stamp) (Sent[T], bool) {
	e := &f.queue[0]
	last := e.stamp
	switch {
	case e.low > lane:
		return Sent[T]{}, false
	case last > lane:
		last, e.low = lane, lane+1
		f.rise(now, *e, last)
	default:
		if f.openLost == f.first && f.lostIsLast() {
			last = lane
		}
		f.rise(now, *e, last)
		f.pop()
	}
	return Sent[T]{Lost: true, Stamp: last, Told: f.told}, true
}

// rise raises told to stamp, with an entry that is sent.
func (f *Feed[T]) rise(now time.Time, e entry[T], stamp tree.Stamp) {
	if !e.mute && stamp > f.told {
		f.told, f.spoke = stamp, now
	}
}

// pop removes the first entry.
func (f *Feed[T]) pop() {
	if f.queue[0].class == event {
		f.events, f.bytes = f.events-1, f.bytes-f.queue[0].bytes
	}
	f.queue[0] = entry[T]{}
	f.queue = f.queue[1:]
	f.first++
	if len(f.queue) == 0 {
		f.queue = nil
	}
}

// Due returns the stamp to tell a connection with watches that is told nothing else: lane, that of the lane's root,
// once nothing was told for [QuietAfter] (V5). It counts as told then. false means that nothing is due.
func (f *Feed[T]) Due(now time.Time, lane tree.Stamp) (tree.Stamp, bool) {
	if len(f.queue) > 0 || lane <= f.told || now.Sub(f.spoke) < QuietAfter {
		return 0, false
	}
	f.told, f.spoke = lane, now
	return lane, true
}

// Told returns the highest stamp that the client may come back from.
func (f *Feed[T]) Told() tree.Stamp { return f.told }

// Len returns how much is unsent: events, answers and LOSTs.
func (f *Feed[T]) Len() int { return len(f.queue) }

// collapse lets a LOST take the place of the events that Tell has added (V6).
func (f *Feed[T]) collapse() {
	old := f.queue
	f.queue = make([]entry[T], 0, len(old)-f.events+1)
	f.events, f.bytes, f.openLost, f.rising = 0, 0, none, none
	for _, e := range old {
		switch e.class {
		case event:
			f.Lose(e.low, e.stamp)
		case kept, answer, lost:
			f.add(e)
		case void:
		}
	}
}

// hush keeps told below low until what is added next has been sent. Those that raise told do so in the order of their
// stamps, so it looks at no more entries than it changes.
func (f *Feed[T]) hush(low tree.Stamp) {
	f.rising = f.muted(f.rising, low)
}

// muted mutes the entries that raise told to low or above, from the one with the number n backwards. It returns the
// number of the last that still raises told.
func (f *Feed[T]) muted(n int, low tree.Stamp) int {
	for n >= f.first && f.at(n).stamp >= low {
		f.at(n).mute = true
		n = f.at(n).before
	}
	return n
}

// lower lets a LOST cover stamps from low on too.
func (f *Feed[T]) lower(l *entry[T], low tree.Stamp) {
	if low < l.low {
		l.low, l.before = low, f.muted(l.before, low)
	}
}
