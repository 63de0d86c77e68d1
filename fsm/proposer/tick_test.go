package proposer

import (
	"testing"
	"time"

	"holdfast/fsm/entry"
	"holdfast/session"
)

// D3: each entry carries what the leader's clocks show when it is put together, an entry without a command too.
func TestD3EntriesCarryTheClocks(t *testing.T) {
	now := entry.Clocks{WallMS: 1000, Log: time.Second}
	inBubble(t, Config{Clocks: func() entry.Clocks { return now }}, func(b *bench) {
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
