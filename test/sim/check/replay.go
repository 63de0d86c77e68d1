package check

import (
	"cmp"
	"slices"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// replay replays what a lasting watch was told beside what it was to be told.
type replay struct {
	c watches
	w *watch
	// all is what is due, and next the first of it that is not settled.
	all  []due
	next int
	// last is the stamp of the newest event. cover is the highest LOST, upTo the stamp up to which all was told.
	last, cover, upTo tree.Stamp
}

// lasting checks I11 for a watch that lasts: each change that it matches is told in order and once, or lies in a LOST
// that came before anything later. It checks I13: a read of the same client is answered behind the events that it
// shows.
func (c watches) lasting(w *watch, all []due) {
	r := &replay{c: c, w: w, all: all, upTo: w.began.Watched.Stamp}
	for _, e := range w.told {
		switch e.Kind { //nolint:exhaustive // a watch is told nothing else
		case history.WatchHeard:
			r.heard(e)
		case history.WatchLost:
			r.lost(e)
		case history.WatchTold:
			r.told(e)
		}
	}
}

// heard takes an event.
func (r *replay) heard(e history.Event) {
	stamp, what := e.Watched.Event.Stamp, named(e.Watched.Event)
	if e.Watched.Session != 0 {
		stamp, what = tree.StampAt(stamp.Index(), 0), sessionNamed(e)
	}
	n, found := slices.BinarySearchFunc(r.all, stamp, func(d due, s tree.Stamp) int { return cmp.Compare(d.stamp, s) })
	switch {
	case stamp < r.last:
		r.fail("I11", e, "told behind an event at %v", r.last)
		return
	case r.w.hides(stamp, what) && (!found || !slices.Contains(r.all[n].what, what)):
		r.fail("I14", e, "told of what its client may not read")
		return
	case !found || !slices.Contains(r.all[n].what, what):
		r.fail("I11", e, "told of what the watch is not for, or of nothing that has happened")
		return
	case count(r.all[n].heard, what) == count(r.all[n].what, what):
		r.fail("I11", e, "told twice")
		return
	case n < r.next && stamp > r.cover:
		r.fail("I11", e, "told after everything up to %v was", r.upTo)
	}
	r.settle(stamp, e)
	r.all[n].heard = append(r.all[n].heard, what)
	r.last = stamp
}

// lost takes a LOST, which names no stamp that is still to come.
func (r *replay) lost(e history.Event) {
	r.c.checked("I11 lost")
	if e.Watched.Stamp.Index() > e.Watched.Newest {
		r.fail("I11", e, "lost what no node has applied, whose newest index is %d", e.Watched.Newest)
	}
	r.cover = max(r.cover, e.Watched.Stamp)
}

// told takes the word that everything up to a stamp has been told.
func (r *replay) told(e history.Event) {
	r.c.checked("I13 before")
	if e.Watched.Stamp < r.upTo && e.Watched.Stamp > r.w.began.Watched.Stamp {
		r.fail("I13", e, "told everything up to %v before", r.upTo)
	}
	r.upTo = max(r.upTo, e.Watched.Stamp)
	r.settle(e.Watched.Stamp+1, e)
}

// settle checks what is due below a stamp.
func (r *replay) settle(stamp tree.Stamp, e history.Event) {
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
		r.fail(invariant, e, "not told of all at %v, which is %q, but of %q", d.stamp, d.what, d.heard)
	}
}

// later reports whether the watch hears of a stamp after e.
func (r *replay) later(stamp tree.Stamp, e history.Event) bool {
	return slices.ContainsFunc(r.w.told, func(o history.Event) bool {
		return o.Kind == history.WatchHeard && o.At >= e.At && o.Watched.Event.Stamp == stamp
	})
}

func (r *replay) fail(invariant string, e history.Event, format string, args ...any) {
	r.c.misled(e, invariant, "the watch of %s, "+format, append([]any{history.Line(r.w.began)}, args...)...)
}

// whole reports whether all was told. What happened twice at one stamp may have been told once: then the last of it
// stands for all (V4).
func (d *due) whole() bool {
	return slices.Equal(lasts(d.what), lasts(d.heard))
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
