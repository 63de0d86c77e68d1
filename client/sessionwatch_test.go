package client

import (
	"slices"
	"testing"

	"holdfast/session"
	"holdfast/tree"
)

// A watch of sessions that comes back at another node repeats none of the events of its newest stamp, and leaves none
// of them out.
func TestV4SessionsComeBack(t *testing.T) {
	const began, moves, later = tree.Stamp(10), tree.Stamp(20), tree.Stamp(30)
	moved := func(stamp tree.Stamp, id session.ID) session.Event {
		return session.Event{Stamp: stamp, Moved: &session.Session{ID: id}}
	}
	var h sessionsHeard
	var got []session.ID
	hear := func(events ...session.Event) {
		for _, e := range events {
			if h.take(e) && e.Moved != nil {
				got = append(got, e.Moved.ID)
			}
		}
	}
	if h.again() != 0 || !h.take(session.Event{Stamp: began}) {
		t.Fatal("the mark that the watch is in place is not told")
	}
	hear(moved(moves, 1), moved(moves, 2))
	if since := h.again(); since != began {
		t.Errorf("comes back with %v: must be %v, because the stamp %v may have more events", since, began, moves)
	}
	hear(moved(moves, 1), moved(moves, 2), moved(moves, 3), moved(later, 4))
	if since := h.again(); since != moves {
		t.Errorf("comes back with %v: must be %v", since, moves)
	}
	hear(moved(later, 4), session.Event{Stamp: later + 5})
	if since := h.again(); since != later+5 {
		t.Errorf("comes back with %v: must be what was told, %v", since, later+5)
	}
	if want := []session.ID{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("heard of %v, want %v", got, want)
	}
	if h.take(session.Event{Stamp: later + 6}) || !h.take(session.Event{Stamp: later + 9, Lost: true}) {
		t.Error("of what is no change, only LOST is told after the first mark")
	}
}
