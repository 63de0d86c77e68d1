package fsm

import (
	"testing"

	"holdfast/session"
)

// TestG3TheTreeBeforeAWrite: an observer gets the tree before a write with ReadsBefore, with what earlier commands of
// the entry have done, and only when the write is executed.
func TestG3TheTreeBeforeAWrite(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	first, second := numbered(s, 1, persistent("/a")), numbered(s, 2, persistent("/b"))
	third := numbered(s, 3, persistent("/c"))
	second.ReadsBefore = true
	r.at(t, writing(t, first), writing(t, second), writing(t, third), writing(t, second))
	for i, want := range []bool{false, true, false, false} {
		if got := r.wrote[i].Before != nil; got != want || r.wrote[i].Err != nil {
			t.Fatalf("command %d: a tree before it: %v, want %v; %v", i, got, want, r.wrote[i].Err)
		}
	}
	for path, want := range map[string]bool{"/a": true, "/b": false, "/c": false} {
		if _, got := r.wrote[1].Before.Stat(path); got != want {
			t.Errorf("%s before the second write: %v, want %v", path, got, want)
		}
	}
	fenced := numbered(session.Session{ID: s.ID, Attachment: s.Attachment + 1}, 4, persistent("/d"))
	fenced.ReadsBefore = true
	r.at(t, writing(t, fenced))
	if r.wrote[0].Err == nil || r.has("/d") {
		t.Errorf("a fenced write: %v", r.wrote[0].Err)
	}
}
