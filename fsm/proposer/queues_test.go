package proposer

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// openNumber returns the n-th of many opens.
func openNumber(n int) session.OpenSession {
	c := session.OpenSession{Node: 1, MS: 1000, Spec: session.Spec{Timeout: 4 * time.Second}}
	binary.BigEndian.PutUint64(c.RequestID[:], uint64(n)+1)
	return c
}

// flood proposes n opens and returns the number of those that were refused.
func (b *bench) flood(n int) *int {
	refused := new(int)
	told := make(chan error)
	for i := range n {
		go func() {
			_, err := b.Propose(b.t.Context(), openNumber(i))
			if errors.Is(err, session.ErrLimit) {
				told <- err
			}
		}()
	}
	go func() {
		for {
			select {
			case <-told:
				*refused++
			case <-b.t.Context().Done():
				return
			}
		}
	}()
	synctest.Wait()
	return refused
}

// closesOf returns a close of n sessions.
func closesOf(cause session.Cause, n int) session.CloseSessions {
	c := session.CloseSessions{Term: 1, Cause: cause, Sessions: make([]session.Closing, n)}
	for i := range c.Sessions {
		c.Sessions[i] = session.Closing{ID: session.ID(i + 1), Attachment: 1}
	}
	return c
}

func moving(n int) session.MoveSession {
	return session.MoveSession{ID: session.ID(n), NewOwner: 1, Instance: 1, Attempt: 1, Named: 1}
}

// counted returns how many commands of each type an entry carries.
func counted(f *fakeFuture) map[string]int {
	all := map[string]int{}
	if f != nil {
		for _, c := range f.commands {
			all[reflect.TypeOf(c).Name()]++
		}
	}
	return all
}

// While more opens come than the queue holds, the queue takes commands that end and move sessions, and the next entry
// carries all of them that change at most 1,024 sessions together.
func TestWhatEndsAndMovesSessionsGoesBeforeOpens(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		const opens = 20_000
		refused := b.flood(opens)
		if want := opens - DefaultProposalsQueued; *refused != want {
			t.Fatalf("%d of %d opens were refused, want %d", *refused, opens, want)
		}
		var all []<-chan outcome
		for i := range 40 {
			all = append(all, b.propose(t.Context(), closesOf(session.CauseClosed, 1)),
				b.propose(t.Context(), moving(i+1)))
		}
		for range 4 {
			all = append(all, b.propose(t.Context(), closesOf(session.CauseExpired, 200)))
		}
		all = append(all, b.propose(t.Context(), marked(1)))
		b.raft.entry(0).apply()
		next := b.raft.entry(1)
		got := counted(next)
		if got["CloseSessions"] != 44 || got["MoveSession"] != 40 || got["ForgetRequests"] != 1 {
			t.Errorf(
				"the entry after the one on its way carries %v, want 44 closes, 40 moves and a ForgetRequests",
				got,
			)
		}
		if got["OpenSession"] == 0 {
			t.Errorf("the entry carries %v, and has room for opens", got)
		}
		next.apply()
		synctest.Wait()
		waits, over := 0, 0
		for _, done := range all {
			select {
			case o := <-done:
				if o.err != nil {
					over++
				}
			default:
				waits++
			}
		}
		if waits+over > 0 {
			t.Errorf("of %d closes, moves and the leader's own %d were refused, and %d wait after the next entry",
				len(all), over, waits)
		}
	})
}

// W9: in a storm of expiries, an entry ends at most 1,024 sessions, and as long as opens wait an eighth of the sessions
// that it changes are theirs. So no open waits until the storm is over, and none for long behind one entry.
func TestW9AStormLeavesOpensTheirShare(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		b.propose(t.Context(), marked(0))
		const batches, opens = 4, 1000
		for range batches {
			b.propose(t.Context(), closesOf(session.CauseExpired, session.MaxCloseBatch))
		}
		for i := range opens {
			b.propose(t.Context(), openNumber(i))
		}
		b.raft.entry(0).apply()
		opened := 0
		for i := range batches {
			f := b.raft.entry(i + 1)
			if f == nil {
				t.Fatalf("there is no entry %d", i+1)
			}
			got := counted(f)
			most := session.MaxCloseBatch / 4
			if i == batches-1 {
				most = opens // the storm is over
			}
			if got["CloseSessions"] != 1 || got["OpenSession"] < session.MaxCloseBatch/8 || got["OpenSession"] > most {
				t.Errorf("entry %d carries %v, want 1,024 closes in one command and an eighth of opens", i+1, got)
			}
			opened += got["OpenSession"]
			f.apply()
		}
		if got := counted(b.raft.entry(batches + 1)); got["OpenSession"] != opens-opened {
			t.Errorf("behind the storm an entry carries %v, want %d opens", got, opens-opened)
		}
	})
}

// Closes in small commands are bounded together as those in one: by what applying them costs while nobody waits behind
// them, and by a step of the storm while opens come, and for a moment after.
func TestAnEntryEndsABoundedNumberOfSessions(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		b.propose(t.Context(), marked(0))
		for range 200 {
			b.propose(t.Context(), closesOf(session.CauseExpired, 100))
		}
		b.raft.entry(0).apply()
		next := 1
		carries := func(want, opens int) {
			t.Helper()
			f := b.raft.entry(next)
			next++
			if got := counted(f); got["CloseSessions"] != want || got["OpenSession"] != opens {
				t.Errorf("the entry carries %v, want %d closes of 100 sessions and %d opens", got, want, opens)
			}
			f.apply()
			synctest.Wait()
		}
		carries(46, 0)
		b.propose(t.Context(), openNumber(0))
		carries(46, 0) // it was on its way
		carries(10, 1)
		carries(10, 0) // opens may come
		time.Sleep(opensWaitFor)
		carries(10, 0) // it was on its way
		carries(46, 0)
	})
}

// A command that forgets many request ids leaves room for some closes, and not for a storm of them.
func TestForgettingCostsAsManyEnds(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.propose(b.t.Context(), marked(0))
		b.propose(b.t.Context(), marked(1))
		for range 50 {
			b.propose(b.t.Context(), closesOf(session.CauseExpired, 100))
		}
		b.raft.entry(0).apply()
		if got := counted(b.raft.entry(1)); got["CloseSessions"] != 36 || got["ForgetRequests"] != 1 {
			b.t.Errorf("the entry carries %v, want 36 closes of 100 sessions", got)
		}
	})
}

// An entry of opens alone carries as many commands as an entry of moves alone: no share is kept for an empty queue.
func TestEntriesAreFullOfWhateverWaits(t *testing.T) {
	for name, command := range map[string]func(int) session.Command{
		"opens": func(i int) session.Command { return openNumber(i) },
		"moves": func(i int) session.Command { return moving(i + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{MaxCommands: 16}, func(b *bench) {
				for i := range 33 {
					b.propose(b.t.Context(), command(i))
				}
				for i, want := range []int{1, 16, 16} {
					f := b.raft.entry(i)
					if got := len(f.commands); got != want {
						b.t.Errorf("entry %d carries %d commands, want %d", i, got, want)
					}
					f.apply()
				}
			})
		})
	}
}

// However many moves wait, waiting opens get an eighth of each entry.
func TestOpensAreNotStarved(t *testing.T) {
	inBubble(t, Config{MaxCommands: 64}, func(b *bench) {
		t := b.t
		b.propose(t.Context(), marked(0))
		for i := range 1000 {
			b.propose(t.Context(), moving(i+1))
		}
		const opens = 40
		for i := range opens {
			b.propose(t.Context(), openNumber(i))
		}
		b.raft.entry(0).apply()
		seen := 0
		for i := 1; seen < opens; i++ {
			f := b.raft.entry(i)
			if f == nil {
				t.Fatalf("%d of %d opens were sent, and there is no further entry", seen, opens)
			}
			got := counted(f)
			if got["OpenSession"] < 64/8-2 && seen+got["OpenSession"] < opens {
				t.Errorf("entry %d carries %v, want an eighth to be opens", i, got)
			}
			if got["MoveSession"] < 64*3/4 {
				t.Errorf("entry %d carries %v, want mostly moves", i, got)
			}
			seen += got["OpenSession"]
			f.apply()
		}
	})
}

// If an entry carries one command, opens get a share of the entries.
func TestOpensAreNotStarvedByEntriesOfOne(t *testing.T) {
	inBubble(t, Config{MaxCommands: 1}, func(b *bench) {
		t := b.t
		b.propose(t.Context(), marked(0))
		for i := range 30 {
			b.propose(t.Context(), moving(i+1))
		}
		b.propose(t.Context(), openNumber(0))
		for i := range 20 {
			f := b.raft.entry(i)
			if counted(f)["OpenSession"] == 1 {
				return
			}
			f.apply()
		}
		t.Error("none of 20 entries carries the open")
	})
}

// Closes and moves of one session keep the order in which they came, so an expiry cannot overtake a resume that came
// first.
func TestClosesAndMovesKeepTheirOrder(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		b.propose(b.t.Context(), marked(0))
		b.propose(b.t.Context(), openNumber(1))
		b.propose(b.t.Context(), moving(1))
		b.propose(b.t.Context(), closesOf(session.CauseExpired, 1))
		b.propose(b.t.Context(), moving(2))
		b.propose(b.t.Context(), marked(3))
		b.propose(b.t.Context(), closesOf(session.CauseClosed, 1))
		b.raft.entry(0).apply()
		var got []string
		for _, c := range b.raft.entry(1).commands {
			got = append(got, reflect.TypeOf(c).Name())
		}
		want := []string{
			"MoveSession", "CloseSessions", "MoveSession", "ForgetRequests", "CloseSessions",
			"OpenSession",
		}
		if !reflect.DeepEqual(got, want) {
			b.t.Errorf("the entry carries %v, want %v", got, want)
		}
	})
}

// The bound of each kind counts only commands of that kind.
func TestEachKindHasABoundOfItsOwn(t *testing.T) {
	kinds := []struct {
		limit    string
		commands []session.Command
	}{
		{"opens_in_flight", []session.Command{
			openNumber(1),
			session.ClaimIDs{Node: 1, Count: 1},
			session.UpgradeSession{ID: 1<<56 | 1, Spec: session.Spec{Timeout: time.Second}},
		}},
		{"moves_in_flight", []session.Command{moving(1), moving(2), moving(3)}},
		{"closes_in_flight", []session.Command{
			closesOf(session.CauseClosed, 1), closesOf(session.CauseClosed, 2), closesOf(session.CauseClosed, 3),
		}},
		{"leader_commands_in_flight", []session.Command{marked(1), closesOf(session.CauseExpired, 1), marked(2)}},
	}
	inBubble(t, Config{MaxProposals: 2}, func(b *bench) {
		t := b.t
		for _, k := range kinds {
			for i, c := range k.commands {
				done := b.propose(t.Context(), c)
				if i < 2 {
					notYet(t, done, k.limit)
					continue
				}
				o := <-done
				var limit *session.LimitError
				if !errors.As(o.err, &limit) || limit.Name != k.limit || limit.Limit != "2" ||
					limit.RetryAfter != session.BusyRetryAfter {
					t.Errorf("the third of two: %v, want a LimitError of %s", o.err, k.limit)
				}
			}
		}
		if got := b.Stats().Pending; got != 8 {
			t.Errorf("%d commands are pending, want 8", got)
		}
	})
}

// R5: commands that wait when a term begins were decided before it. They are refused before they are appended, so E4
// holds for their callers. The term's first command follows the entry that is already on its way, however late Raft
// answers that entry.
func TestR5ATermBeginsBehindWhatWasProposedBefore(t *testing.T) {
	inBubble(t, Config{Timeout: time.Second}, func(b *bench) {
		t := b.t
		sent := b.propose(t.Context(), closesOf(session.CauseExpired, 1))
		former := []<-chan outcome{
			b.propose(t.Context(), closesOf(session.CauseClosed, 1)), b.propose(t.Context(), moving(1)),
			b.propose(t.Context(), openNumber(1)), b.propose(t.Context(), marked(1)),
		}
		time.Sleep(999 * time.Millisecond)
		starts := b.propose(t.Context(), begins(session.Configure{Nonce: 1}))
		for i, done := range former {
			if o := <-done; !errors.Is(o.err, session.ErrNoLeader) || errors.Is(o.err, session.ErrOutcomeUnknown) ||
				o.after != 999*time.Millisecond {
				t.Errorf("command %d of the time before got %v after %v, want %v at once", i, o.err, o.after,
					session.ErrNoLeader)
			}
		}
		after := b.propose(t.Context(), moving(2))
		notYet(t, sent, "before its deadline")
		if o := <-sent; !errors.Is(o.err, session.ErrOutcomeUnknown) {
			t.Fatalf("the entry on its way got %v, want %v", o.err, session.ErrOutcomeUnknown)
		}
		synctest.Wait()
		if f := b.raft.entry(1); f != nil {
			t.Fatalf("%v was sent before the entry of the earlier term was answered", counted(f))
		}
		b.raft.entry(0).apply()
		f := b.raft.entry(1)
		if f == nil || len(f.commands) != 2 ||
			!reflect.DeepEqual(f.commands[0], session.Command(begins(session.Configure{Nonce: 1}))) {
			t.Fatalf("the next entry carries %v, want the Configure and the move after it", counted(f))
		}
		f.apply()
		if o := <-starts; o.err != nil {
			t.Error(o.err)
		}
		if o := <-after; o.err != nil {
			t.Error(o.err)
		}
		if got := b.Stats().Pending; got != 0 {
			t.Errorf("%d commands are pending, want none", got)
		}
	})
}

// Queued commands of every kind are refused at their deadlines when the log does not move.
func TestDeadlinesOfTheQueues(t *testing.T) {
	inBubble(t, Config{Timeout: time.Second}, func(b *bench) {
		t := b.t
		b.propose(t.Context(), marked(0))
		time.Sleep(100 * time.Millisecond)
		open := b.propose(t.Context(), openNumber(1))
		time.Sleep(100 * time.Millisecond)
		move := b.propose(t.Context(), moving(1))
		for name, done := range map[string]<-chan outcome{"open": open, "move": move} {
			if o := <-done; !errors.Is(o.err, session.ErrNoLeader) || o.after != time.Second {
				t.Errorf("the %s got %v after %v, want %v after 1s", name, o.err, o.after, session.ErrNoLeader)
			}
		}
	})
}

// The share of opens that were withdrawn is not there for later opens.
func TestAShareThatWasGivenUpIsLost(t *testing.T) {
	var l queues
	open := &proposal{kind: opens, work: 1}
	l.push(open)
	storm := &proposal{kind: leaderCommands, work: 1000}
	l.push(storm)
	l.removeSent(storm)
	l.remove(open)
	if l.openCredit != 0 {
		t.Errorf("%d sessions are counted for an open that is gone", l.openCredit)
	}
}
