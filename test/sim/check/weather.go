package check

import (
	"slices"
	"time"

	"holdfast/test/sim/history"
)

// weather is when faults were at work.
type weather struct {
	// calmAfter is how long after a fault a cluster counts as calm.
	calmAfter time.Duration
	// disturbed are the times of faults. A fault that has not ended yet is open.
	disturbed []span
	// healed is when the last fault ended, finished when the run did.
	healed, finished time.Duration
}

// span is a time, of a fault or of a client's request.
type span struct {
	what, who  string
	from, till time.Duration
	open       bool
	// clean: the fault only ends processes and connections, and refuses new ones.
	clean bool
}

// has reports whether a moment lies in the span.
func (s span) has(moment time.Duration) bool { return s.overlaps(moment, moment) }

// overlaps reports whether a part of the span lies between two moments.
func (s span) overlaps(from, till time.Duration) bool {
	return s.from <= till && (s.open || s.till >= from)
}

func (w *weather) beginFault(e history.Event) {
	w.disturbed = append(w.disturbed, span{what: e.Text, who: e.Who, from: e.At, open: true, clean: e.Clean})
}

func (w *weather) endFault(e history.Event) {
	for i := range w.disturbed {
		if s := &w.disturbed[i]; s.open && s.what == e.Text {
			s.open, s.till = false, e.At
			return
		}
	}
}

// calm reports whether no fault was at work between two moments. The first moment is moved back by the aftermath of
// faults. A cluster that starts is not calm either.
func (w *weather) calm(from, till time.Duration) bool {
	from -= w.calmAfter
	return from >= 0 && !slices.ContainsFunc(w.disturbed, func(s span) bool { return s.overlaps(from, till) })
}

// single reports whether all faults between two moments, and shortly before, concerned one node other than the leader.
func (w *weather) single(from, till time.Duration, leader string) bool {
	from -= w.calmAfter
	one := ""
	for _, s := range w.disturbed {
		switch {
		case !s.overlaps(from, till):
		case s.who == "" || s.who == leader || one != "" && s.who != one:
			return false
		default:
			one = s.who
		}
	}
	return from >= 0
}

// elsewhere reports whether all faults between two moments concerned single nodes other than one.
func (w *weather) elsewhere(from, till time.Duration, name string, of *nodes) bool {
	return from >= 0 && !slices.ContainsFunc(w.disturbed, func(s span) bool {
		_, isNode := of.started[s.who]
		return s.overlaps(from, till) && (!isNode || s.who == name)
	})
}

// underWay is how long after a fault a request may arrive that the fault held back.
const underWay = 3 * time.Second

// lastVoice returns the moment from which no node can accept a touch of a silent session. A fault may have delayed
// requests that its clients sent before the silence. It reports false when the moment is unknown.
func (w *weather) lastVoice(l *life) (time.Duration, bool) {
	voice := l.silent
	for _, s := range w.disturbed {
		if !s.overlaps(l.silent-underWay, l.silent) {
			continue
		}
		if s.open {
			return 0, false
		}
		voice = max(voice, s.till+underWay)
	}
	for _, a := range l.applied {
		voice = max(voice, a.At)
	}
	return voice, true
}
