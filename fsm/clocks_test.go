package fsm

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// D3: each entry carries what the leader's clocks show when it is put together, an entry without a command too.
func TestD3EntriesCarryTheClocks(t *testing.T) {
	now := Clocks{WallMS: 1000, Log: time.Second}
	inBubble(t, ProposerConfig{Clocks: func() Clocks { return now }}, func(b *bench) {
		t := b.t
		tick := b.propose(t.Context(), session.Tick{})
		first := b.raft.entry(0)
		if len(first.commands) != 0 || first.clocks != now {
			t.Fatalf("an entry of %v with %+v, want none with %+v", first.commands, first.clocks, now)
		}
		all := []<-chan outcome{
			b.propose(t.Context(), marked(1)), b.propose(t.Context(), session.Tick{}), b.propose(t.Context(), marked(2)),
		}
		now.Log = 2 * time.Second
		first.apply()
		if o := <-tick; o.err != nil {
			t.Errorf("a tick: %v", o.err)
		}
		if next := b.raft.entry(1); len(next.commands) != 2 || next.clocks != now {
			t.Fatalf("an entry of %v with %+v, want two with %+v", next.commands, next.clocks, now)
		}
		b.raft.entry(1).apply()
		for i, want := range []uint64{1, 0, 2} {
			if o := <-all[i]; o.err != nil || o.result.Index != want {
				t.Errorf("proposal %d got %+v, %v, want the result of command %d", i, o.result, o.err, want)
			}
		}
	})
}

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

// TestD3ClocksOutOfBounds: a leader whose clocks are wrong by centuries writes entries that replicas read.
func TestD3ClocksOutOfBounds(t *testing.T) {
	for _, clocks := range []Clocks{
		{WallMS: 1 << 60, Log: MaxClock}, {WallMS: -5, Log: -time.Hour}, {WallMS: 1}, {Log: time.Microsecond},
	} {
		data, err := EncodeEntryAt(nil, clocks)
		if err != nil {
			t.Fatal(err)
		}
		e, err := decodeEntry(data)
		if err != nil || e.clocks.WallMS < 1 || e.clocks.WallMS > maxClockMS || e.clocks.Log < 0 {
			t.Errorf("%+v is read as %+v, %v", clocks, e.clocks, err)
		}
	}
}
