package fsm

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// TestD3: the log clock never goes back, and decides what is due.
func TestD3(t *testing.T) {
	r := newTree(t)
	s := r.open(t, 1, 7)
	r.clock = 10 * time.Second
	ttl := tree.Create{Path: "/ttl", Kind: tree.Expiring, TTL: 5 * time.Second}
	if result, err := r.write(t, numbered(s, 1, ttl)); err != nil || result.Outcome.Refused != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	due := r.now.Root.Due(time.Hour, 10)
	if len(due) != 1 {
		t.Fatalf("due: %+v", due)
	}
	encoded, err := form.AppendReap(nil, due)
	if err != nil {
		t.Fatal(err)
	}
	reap := session.TreeCommand{Encoded: encoded, Weight: 1}
	r.clock = 14 * time.Second
	r.at(t)
	r.clock = 3 * time.Second // of a leader that does not know better
	if r.at(t, reap); r.now.Clock != 14*time.Second || !r.has("/ttl") {
		t.Errorf("the log clock shows %v, and the entry is there: %v", r.now.Clock, r.has("/ttl"))
	}
	r.clock = 15 * time.Second
	if r.at(t, reap); r.has("/ttl") {
		t.Error("an entry that is due stays")
	}
}
