package watch

import (
	"time"

	"holdfast/tree"
)

// Sent is an event, an answer or a LOST that a feed returns for sending.
type Sent[T any] struct {
	// Value is the event or the answer; zero for a LOST.
	Value T
	// Lost says that events of persistent and recursive watches up to Stamp may be missing, and that later events
	// follow (V6 LOST). Stamp is 0 unless Lost is set.
	Lost  bool
	Stamp tree.Stamp
	// Delivered is the highest stamp that the client may resume from once it has this value: all events up to Delivered
	// have been sent. Delivered never falls.
	Delivered tree.Stamp
}

// Next removes and returns the next event, answer or LOST; false if none can be sent now. root is the stamp of the
// dispatcher's root: entries above root wait until the pass has ended, because the pass may add more events of the same
// changes. ready reports whether an answer has been encoded. An answer that is not ready blocks the entries behind it
// (G2 atomic reads). With a nil ready, all answers are ready.
func (f *Feed[T]) Next(now time.Time, root tree.Stamp, ready func(T) bool) (Sent[T], bool) {
	for len(f.queue) > 0 && f.queue[0].class == void {
		f.pop()
	}
	if len(f.queue) == 0 {
		return Sent[T]{}, false
	}
	e := f.queue[0]
	switch {
	case e.class == lost:
		return f.sendLost(now, root)
	case e.stamp > root, e.class == answer && ready != nil && !ready(e.value):
		return Sent[T]{}, false
	}
	f.pop()
	f.rise(now, e, e.stamp)
	return Sent[T]{Value: e.value, Delivered: f.delivered}, true
}

// sendLost sends the LOST at the head of the queue. A LOST that is the only entry covers all stamps up to root, so its
// stamp is set when it is sent (V6). The part above root stays in the queue.
func (f *Feed[T]) sendLost(now time.Time, root tree.Stamp) (Sent[T], bool) {
	e := &f.queue[0]
	last := e.stamp
	switch {
	case e.low > root:
		return Sent[T]{}, false
	case last > root:
		last, e.low = root, root+1
		f.rise(now, *e, last)
	default:
		if f.openLost == f.first && f.lostIsLast() {
			last = root
		}
		f.rise(now, *e, last)
		f.pop()
	}
	return Sent[T]{Lost: true, Stamp: last, Delivered: f.delivered}, true
}

// rise raises delivered to stamp when the entry is sent.
func (f *Feed[T]) rise(now time.Time, e entry[T], stamp tree.Stamp) {
	if !e.mute && stamp > f.delivered {
		f.delivered, f.spoke = stamp, now
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

// Due returns the stamp to send to a connection with watches that has been idle for [QuietAfter]: root, the stamp of
// the dispatcher's root (V5 stamps for idle watchers). Delivered rises to this stamp. Due returns false if no stamp is
// due.
func (f *Feed[T]) Due(now time.Time, root tree.Stamp) (tree.Stamp, bool) {
	if len(f.queue) > 0 || root <= f.delivered || now.Sub(f.spoke) < QuietAfter {
		return 0, false
	}
	f.delivered, f.spoke = root, now
	return root, true
}

// Delivered returns the highest stamp that the client may resume from.
func (f *Feed[T]) Delivered() tree.Stamp { return f.delivered }

// Len returns the number of unsent events, answers and LOSTs.
func (f *Feed[T]) Len() int { return len(f.queue) }

// collapse replaces the events of AddEvent by a LOST (V6).
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

// muteFrom keeps delivered below low until the next added entry has been sent. The entries that raise delivered have
// rising stamps, so muteFrom visits only entries that it changes.
func (f *Feed[T]) muteFrom(low tree.Stamp) {
	f.rising = f.muted(f.rising, low)
}

// muted goes backwards from entry n and mutes the entries that raise delivered to low or above. It returns the number
// of the last entry that still raises delivered.
func (f *Feed[T]) muted(n int, low tree.Stamp) int {
	for n >= f.first && f.at(n).stamp >= low {
		f.at(n).mute = true
		n = f.at(n).before
	}
	return n
}

// lower extends a LOST down to the stamp low.
func (f *Feed[T]) lower(l *entry[T], low tree.Stamp) {
	if low < l.low {
		l.low, l.before = low, f.muted(l.before, low)
	}
}
