package fsm

import (
	"errors"
	"testing"

	"holdfast/tree"
	"holdfast/tree/writers"
)

// TestX3: while all sessions hold more results than they share, a write whose result may be large is not carried out,
// and its number stays free. Small ones are, and a large one is once there is room.
func TestX3(t *testing.T) {
	r := newTree(t)
	limits := writers.DefaultLimits()
	limits.Shared = 1000
	r.tables.space.writers = writers.New(r.tables.space, limits)
	var many []tree.Op
	for range 110 { // 160 bytes each, and the path
		many = append(many, tree.Create{Path: "/made-", Sequential: true, Kind: tree.Persistent})
	}
	full, other := r.open(t, 1, 7), r.open(t, 2, 8)
	if _, err := r.write(t, numbered(full, 1, many...)); err != nil {
		t.Fatal(err)
	}
	var window *tree.WindowError
	before := r.now.Root.Len()
	if _, err := r.write(t, numbered(other, 1, many...)); !errors.As(err, &window) || r.now.Root.Len() != before {
		t.Errorf("a write with a large result, and no room: %v, and %d new entries", err, r.now.Root.Len()-before)
	}
	if _, err := r.write(t, numbered(other, 1, persistent("/small"))); err != nil || !r.has("/small") {
		t.Errorf("a small write under the number: %v", err)
	}
	next := numbered(full, 2, many...)
	next.Acked = 1
	if _, err := r.write(t, next); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
