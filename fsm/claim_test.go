package fsm

import (
	"errors"
	"testing"

	"holdfast/session"
)

// O3: the ids of a block are consecutive, and no other block and no open gets them, also after a restart from a
// snapshot.
func TestO3ClaimsBlocks(t *testing.T) {
	const node1, node7 = session.ID(1) << 56, session.ID(7) << 56
	r := newReplica()
	claim := func(node session.Node, ms uint64, count uint32) session.ID {
		t.Helper()
		return r.do(t, session.ClaimIDs{Node: node, MS: ms, Count: count}).First
	}
	if got, want := claim(1, 1000, 10), node1|1000<<16; got != want {
		t.Errorf("the first block begins with %v, want %v", got, want)
	}
	if got, want := claim(1, 1000, 1), node1|1000<<16+10; got != want {
		t.Errorf("the next block begins with %v, want %v", got, want)
	}
	if got, want := claim(7, 5, session.MaxClaim), node7|5<<16; got != want {
		t.Errorf("another node's block begins with %v, want %v", got, want)
	}
	if got, want := r.open(t, opening(1)).ID, node1|1000<<16+11; got != want {
		t.Errorf("an open after the blocks got %v, want %v", got, want)
	}
	before := r.tables.digest()
	r = restored(t, r.snapshot(t))
	if r.tables.digest() != before {
		t.Error("a snapshot lost a claim")
	}
	if got, want := claim(7, 0, 2), node7|6<<16; got != want {
		t.Errorf("after a restart with the clock set back a block begins with %v, want %v", got, want)
	}
	if r.tables.digest() == before {
		t.Error("the digest does not cover a claim (I6)")
	}
}

// O3: a claim that needs more ids than the node has left is refused whole, because the next node's ids follow.
func TestO3NoBlockGoesPastTheNode(t *testing.T) {
	r := newReplica()
	r.tables.setMark(2<<56 - 11)
	before := r.tables.digest()
	if got := r.apply(t, 1, session.ClaimIDs{Node: 1, Count: 11})[0]; !errors.Is(got.Err, session.ErrIDsUsedUp) ||
		got.First != 0 {
		t.Errorf("11 ids of the last 10 = %v, %v; want %v", got.First, got.Err, session.ErrIDsUsedUp)
	}
	if r.tables.digest() != before {
		t.Error("a claim that was refused changed the state")
	}
	if got := r.do(t, session.ClaimIDs{Node: 1, Count: 10}).First; got != 2<<56-10 {
		t.Errorf("the last 10 ids begin with %v, want %v", got, session.ID(2<<56-10))
	}
	if got := r.apply(t, 1, session.ClaimIDs{Node: 1, Count: 1})[0].Err; !errors.Is(got, session.ErrIDsUsedUp) {
		t.Errorf("one more = %v, want %v", got, session.ErrIDsUsedUp)
	}
}
