package fsm

import (
	"errors"
	"testing"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// hundred is a transaction whose result may have more than 16 KiB.
func hundred() (many []tree.Op) {
	for range 110 { // 160 bytes each, and the path
		many = append(many, tree.Create{Path: "/made-", Sequential: true, Kind: tree.Persistent})
	}
	return many
}

// from says which address a write comes from.
func from(address string, w tree.NumberedWrite) tree.NumberedWrite {
	w.Principals = []tree.Principal{{Scheme: tree.Digest, ID: "any"}, {Scheme: tree.IP, ID: address}}
	return w
}

// TestX3: while a client holds more results than its share, a write of it whose result may be large is not carried out,
// and its number stays free. Small ones are, and a large one is once there is room. Other clients notice nothing.
func TestX3(t *testing.T) {
	const one, another = "10.0.0.1", "10.0.0.2"
	r := newTree(t)
	limits := writers.DefaultLimits()
	limits.AllResults = 6000 // the result of one has 4000
	r.tables.treeState.writers = writers.New(r.tables.treeState, limits)
	full, second, other := r.open(t, 1, 7), r.open(t, 2, 8), r.open(t, 3, 9)
	if _, err := r.write(t, from(one, numbered(full, 1, hundred()...))); err != nil {
		t.Fatal(err)
	}
	var window *tree.WindowError
	before := r.now.Root.Len()
	_, err := r.write(t, from(one, numbered(second, 1, hundred()...)))
	if !errors.As(err, &window) || r.now.Root.Len() != before {
		t.Errorf("a write with a large result, and no room: %v, and %d new entries", err, r.now.Root.Len()-before)
	}
	if _, err := r.write(t, from(another, numbered(other, 1, hundred()...))); err != nil {
		t.Errorf("a write of another client with a large result: %v", err)
	}
	if _, err := r.write(t, from(one, numbered(second, 1, persistent("/small")))); err != nil || !r.has("/small") {
		t.Errorf("a small write under the number: %v", err)
	}
	void := tree.NumberedWrite{Session: uint64(full.ID), Attachment: full.Attachment, Number: 2, Void: true}
	if _, err := r.write(t, void); !errors.As(err, &window) {
		t.Errorf("a void of a session without room: %v", err)
	}
	void.Acked = 1
	if _, err := r.write(t, void); err != nil || r.now.Writers.Principal(uint64(full.ID)) != "ip:"+one {
		t.Errorf("a void with room again: %v, for the share of %q", err, r.now.Writers.Principal(uint64(full.ID)))
	}
	if _, err := r.write(t, from(one, numbered(full, 3, hundred()...))); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestX3Wills: the wills of one client take no room from the results of others, nor from their wills.
func TestX3Wills(t *testing.T) {
	const one, another = "2001:db8:0:1::1", "2001:db8:0:2::1"
	r := newTree(t)
	limits := writers.DefaultLimits()
	limits.AllWills = 4000
	r.tables.treeState.writers = writers.New(r.tables.treeState, limits)
	willed := func(s session.Session, number uint64) tree.NumberedWrite {
		w := numbered(s, number, hundred()...)
		w.Will = &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{
			tree.Set{Path: "/", Data: make([]byte, 1400), Version: tree.Any},
		}}}
		return w
	}
	if result, err := r.write(t, from(one, willed(r.open(t, 1, 7), 1))); err != nil || result.Outcome.Refused != nil {
		t.Fatalf("%v, %v", result.Outcome.Refused, err)
	}
	result, err := r.write(t, from("2001:db8:0:1::2", willed(r.open(t, 2, 8), 1)))
	if err != nil || result.Outcome.Refused == nil || result.Outcome.Refused.Code != tree.OverLimit {
		t.Errorf("a second will from one network: %v, %v; want a refusal", result.Outcome.Refused, err)
	}
	other := r.open(t, 3, 9)
	for number := uint64(1); number <= 3; number++ {
		w := numbered(other, number, hundred()...)
		w.Acked = number - 1
		if result, err := r.write(t, from(another, w)); err != nil || result.Outcome.Refused != nil {
			t.Errorf("write %d of another client: %v, %v", number, result.Outcome.Refused, err)
		}
	}
	small := numbered(other, 4)
	small.Acked = 3
	small.Will = &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{
		tree.Set{Path: "/", Data: make([]byte, 1000), Version: tree.Any},
	}}}
	if result, err := r.write(t, from(another, small)); err != nil || result.Outcome.Refused != nil {
		t.Errorf("a will of another client: %v, %v", result.Outcome.Refused, err)
	}
	same(t, restored(t, r.snapshot(t)), r.replica)
}
