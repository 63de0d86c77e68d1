package check

import (
	"cmp"
	"slices"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// replay compares the events of a lasting watch with the events that it must receive.
type replay struct {
	c watches
	w *watch
	// all are the due events, and next is the first unchecked one.
	all  []due
	next int
	// last is the stamp of the newest event. cover is the highest LOST, upTo the stamp up to which the watch is
	// complete.
	last, cover, upTo tree.Stamp
}

// lasting checks I11 for a lasting watch: each matching change is delivered in order and once, or is covered by a LOST
// that came before any later event. It checks I13: a read of the same client is answered after the events that it
// shows.
func (c watches) lasting(w *watch, all []due) {
	r := &replay{c: c, w: w, all: all, upTo: w.began.Watched.Stamp}
	for _, e := range w.watchEvents {
		switch e.Kind { //nolint:exhaustive // a watch receives nothing else
		case history.WatchReceived:
			r.received(e)
		case history.WatchLost:
			r.lost(e)
		case history.WatchProgress:
			r.progress(e)
		}
	}
}

// received checks an event.
func (r *replay) received(e history.Event) {
	stamp, what := e.Watched.Event.Stamp, named(e.Watched.Event)
	if e.Watched.Session != 0 {
		stamp, what = tree.StampAt(stamp.Index(), 0), sessionNamed(e)
	}
	n, found := slices.BinarySearchFunc(r.all, stamp, func(d due, s tree.Stamp) int { return cmp.Compare(d.stamp, s) })
	switch {
	case stamp < r.last:
		r.fail("I11", e, "delivered after an event at %v", r.last)
		return
	case r.w.hides(stamp, what) && (!found || !slices.Contains(r.all[n].what, what)):
		r.fail("I14", e, "event of an entry that its client may not read")
		return
	case !found || !slices.Contains(r.all[n].what, what):
		r.fail("I11", e, "event that does not match the watch, or never happened")
		return
	case count(r.all[n].received, what) == count(r.all[n].what, what):
		r.fail("I11", e, "delivered twice")
		return
	case n < r.next && stamp > r.cover:
		r.fail("I11", e, "delivered after progress up to %v", r.upTo)
	}
	r.checkDelivered(stamp, e)
	r.all[n].received = append(r.all[n].received, what)
	r.last = stamp
}

// lost checks a LOST, which names no stamp that is still to come.
func (r *replay) lost(e history.Event) {
	r.c.checked("I11 lost")
	if e.Watched.Stamp.Index() > e.Watched.Newest {
		r.fail("I11", e, "lost what no node has applied, whose newest index is %d", e.Watched.Newest)
	}
	r.cover = max(r.cover, e.Watched.Stamp)
}

// progress checks a notice that the watch is complete up to a stamp.
func (r *replay) progress(e history.Event) {
	r.c.checked("I13 before")
	if e.Watched.Stamp < r.upTo && e.Watched.Stamp > r.w.began.Watched.Stamp {
		r.fail("I13", e, "progress up to %v was sent before", r.upTo)
	}
	r.upTo = max(r.upTo, e.Watched.Stamp)
	r.checkDelivered(e.Watched.Stamp+1, e)
}

// checkDelivered checks that the events due below a stamp were delivered.
func (r *replay) checkDelivered(stamp tree.Stamp, e history.Event) {
	for ; r.next < len(r.all) && r.all[r.next].stamp < stamp; r.next++ {
		d := r.all[r.next]
		r.c.checked("I11")
		if d.stamp <= r.cover || d.whole() {
			continue
		}
		invariant := "I11"
		if r.later(d.stamp, e) {
			invariant = "I13"
		}
		r.fail(invariant, e, "events at %v incomplete: want %q, got %q", d.stamp, d.what, d.received)
	}
}

// later reports whether the watch receives an event of a stamp after e.
func (r *replay) later(stamp tree.Stamp, e history.Event) bool {
	return slices.ContainsFunc(r.w.watchEvents, func(o history.Event) bool {
		return o.Kind == history.WatchReceived && o.At >= e.At && o.Watched.Event.Stamp == stamp
	})
}

func (r *replay) fail(invariant string, e history.Event, format string, args ...any) {
	r.c.misled(e, invariant, "the watch of %s, "+format, append([]any{history.Line(r.w.began)}, args...)...)
}

// whole reports whether all events were delivered. Repeated events of one stamp may be delivered once: then the last
// event stands for all (V4 resumed watches).
func (d *due) whole() bool {
	return slices.Equal(lasts(d.what), lasts(d.received))
}

// lasts returns the last of each sort.
func lasts(all []string) (last []string) {
	for i, one := range all {
		if !slices.Contains(all[i+1:], one) {
			last = append(last, one)
		}
	}
	return last
}

func count(all []string, one string) (n int) {
	for _, other := range all {
		if other == one {
			n++
		}
	}
	return n
}
