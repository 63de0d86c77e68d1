package proposer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/tree"
)

// writeOf returns a write of a source, with so many bytes of data and this weight.
func writeOf(t *testing.T, source session.Source, number uint64, bytes, weight int) session.TreeCommand {
	t.Helper()
	c := writing(t, tree.NumberedWrite{
		Session: 1 + source.Connection, Attachment: 1, Number: number,
		Transaction: tree.Transaction{Then: []tree.Op{
			tree.Create{Path: "/a", Kind: tree.Persistent, Data: make([]byte, bytes)},
		}},
	})
	c.Weight, c.Source = weight, source
	return c
}

// isOf reports whether an entry has a write of a session.
func isOf(f *fakeFuture, c session.TreeCommand) bool {
	return slices.ContainsFunc(f.commands, func(other session.Command) bool {
		w, ok := entry.TreeCommand(other)
		return ok && slices.Equal(w.Encoded, c.Encoded)
	})
}

// W9: whatever other connections have queued, megabytes or weight, a connection with one write has it in the next entry
// but one, at whatever moment it comes. The same goes for a move, which is no write, and for an open.
func TestW9AWriteWaitsForNoQueueOfOthers(t *testing.T) {
	for name, others := range map[string]flood{
		"values of 1 MB":               {20, 3, 1_000_000, 1},
		"transactions of 10,000 parts": {10, 20, 1000, 10_000},
		"many small writes":            {10, 500, 10, 1},
	} {
		for _, applied := range []int{0, 1, 4, 7} {
			t.Run(fmt.Sprintf("%s, %d entries applied", name, applied), func(t *testing.T) {
				inBubble(t, Config{}, func(b *bench) { others.waits(b, applied) })
			})
		}
	}
}

// flood is what others have queued: so many connections, and writes of each.
type flood struct{ sources, each, bytes, weight int }

// waits applies some entries of a flood. Then it looks how long a small write of another connection waits, a move and
// an open.
func (l flood) waits(b *bench, applied int) {
	t := b.t
	submit := func(c session.Command) { b.Submit(c, func(session.Result, error) {}) }
	submit(marked(1))
	for number := range l.each {
		for i := range l.sources {
			of := session.Source{Node: session.Node(1 + i%3), Connection: uint64(i)}
			submit(writeOf(t, of, uint64(number+1), l.bytes, l.weight))
		}
	}
	for at := range applied {
		if f := b.raft.entry(at); f != nil {
			f.apply()
		}
	}
	synctest.Wait()
	if b.Stats().Pending == 0 {
		return // all are applied
	}
	write := writeOf(t, session.Source{Node: 2, Connection: 99}, 1, 100, 1)
	submit(write)
	submit(moving(7))
	submit(openNumber(7))
	waits, passed := map[string]int{}, 0
	for at := applied; len(waits) < 3; at++ {
		f := b.raft.entry(at)
		if f == nil {
			t.Fatalf("no entry %d, and %v are in the log", at, waits)
		}
		got := counted(f)
		if got["MoveSession"] > 0 {
			waits["move"] = at - applied
		}
		if got["OpenSession"] > 0 {
			waits["open"] = at - applied
		}
		if isOf(f, write) {
			waits["write"] = at - applied
			t.Logf("%d bytes of others passed the write", passed)
		}
		passed += f.size
		f.apply()
	}
	if waits["write"] > 2 || waits["move"] > 2 || waits["open"] > 3 {
		t.Errorf("entries until each was in the log: %v", waits)
	}
}

// W9: however many connections a principal has, at however many nodes, it leaves room for another's write, which is in
// the log soon.
func TestW9ManyConnectionsOfAPrincipalLeaveRoom(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		refused := 0
		b.Submit(marked(1), func(session.Result, error) {})
		for number := range 16 {
			for i := range 16 {
				of := session.Source{Node: session.Node(1 + i%3), Connection: uint64(i), Principal: 1}
				b.Submit(writeOf(t, of, uint64(number+1), 1_000_000, 1), func(_ session.Result, err error) {
					if errors.Is(err, session.ErrLimit) {
						refused++
					}
				})
			}
		}
		if refused == 0 {
			t.Fatal("16 connections have filled nothing")
		}
		write := writeOf(t, session.Source{Node: 2, Connection: 99, Principal: 2}, 1, 100, 1)
		b.Submit(write, func(_ session.Result, err error) {
			if errors.Is(err, session.ErrLimit) {
				t.Errorf("the other principal's write: %v", err)
			}
		})
		for number := range uint64(8) {
			large := writeOf(t, session.Source{Node: 2, Connection: 98, Principal: 3}, number+1, 1_000_000, 1)
			b.Submit(large, func(_ session.Result, err error) {
				if errors.Is(err, session.ErrLimit) {
					t.Errorf("1 MB of 8 of a third principal: %v", err)
				}
			})
		}
		for at := range 3 {
			f := b.raft.entry(at)
			if isOf(f, write) {
				f.apply()
				return
			}
			f.apply()
		}
		t.Error("the write is in none of the next three entries")
	})
}

// W9: connections with writes queued get the same part of the log, in bytes, whatever their writes are like.
func TestW9ConnectionsShareTheLog(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		b.propose(t.Context(), marked(1))
		sizes := []int{1_000_000, 100_000, 10_000}
		for i, size := range sizes {
			for number := range 10_000_000 / size {
				of := session.Source{Node: 1, Connection: uint64(i)}
				b.Submit(writeOf(t, of, uint64(number+1), size, 1), func(session.Result, error) {})
			}
		}
		bytes := make([]int, len(sizes))
		for at := 0; bytes[0] < 5_000_000; at++ {
			f := b.raft.entry(at)
			for _, c := range f.commands {
				if w, ok := entry.TreeCommand(c); ok {
					size := len(w.Encoded)
					bytes[slices.IndexFunc(sizes, func(most int) bool { return size >= most })] += size
				}
			}
			f.apply()
		}
		for i, n := range bytes {
			if n < 4_000_000 || n > 6_000_000 {
				t.Errorf("writes of %d bytes: %d bytes are in the log, want about 5,000,000", sizes[i], n)
			}
		}
	})
}

// W9: moves and heavy writes take turns by the part of an entry that they take. Without, each heavy write counts as
// one session: after the moves of a thousand sessions, a thousand entries of heavy writes pass the next moves.
func TestW9MovesPassHeavyWrites(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		submit := func(c session.Command) { b.Submit(c, func(session.Result, error) {}) }
		moves := func(first session.ID) session.MoveSessions {
			all := session.MoveSessions{NewOwner: 1, Instance: 1}
			for i := range session.ID(1000) {
				all.Sessions = append(all.Sessions, session.Moving{ID: first + i, Attempt: 1, Named: 1})
			}
			return all
		}
		submit(marked(1))
		for number := range uint64(40) {
			submit(writeOf(t, session.Source{Node: 1, Connection: number}, number+1, 100, tree.MaxWeight))
		}
		submit(moves(1))
		submit(moves(10_000))
		var at []int
		for n := 0; len(at) < 2; n++ {
			f := b.raft.entry(n)
			if f == nil {
				t.Fatalf("no entry %d, and moves are in %v", n, at)
			}
			if counted(f)["MoveSessions"] > 0 {
				at = append(at, n)
			}
			f.apply()
		}
		if at[1]-at[0] > 3 {
			t.Errorf("moves are in the entries %v: heavy writes keep the second ones from the log", at)
		}
	})
}
