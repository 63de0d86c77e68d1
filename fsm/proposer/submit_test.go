package proposer

import (
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// told is what one callback of Submit was told.
type told struct {
	n      int
	result session.Result
	err    error
}

// submissions are commands that were submitted, and what their callbacks were told, in that order.
type submissions struct {
	b   *bench
	got []told
}

// submit submits a command, and returns when everything waits.
func (s *submissions) submit(n int, c session.Command) {
	s.hand(n, c)
	synctest.Wait()
}

// hand submits a command. Its callback asks for the stats, so it hangs if anyone holds the lock.
func (s *submissions) hand(n int, c session.Command) {
	s.b.Submit(c, func(result session.Result, err error) {
		s.b.Stats()
		s.got = append(s.got, told{n, result, err})
	})
}

// Submit's callbacks are called once each, in the order in which the commands are applied.
func TestSubmitTellsInTheOrderOfTheLog(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		s := &submissions{b: b}
		for n := range 5 {
			s.submit(n, marked(n))
		}
		if len(s.got) != 0 {
			t.Fatalf("told %v before anything was applied", s.got)
		}
		b.raft.entry(0).apply()
		synctest.Wait()
		b.raft.entry(1).apply()
		synctest.Wait()
		var order []int
		for _, o := range s.got {
			order = append(order, o.n)
			if o.err != nil || o.result.Index != uint64(o.n) {
				t.Errorf("command %d was told %+v, %v, want its own result", o.n, o.result, o.err)
			}
		}
		if want := []int{0, 1, 2, 3, 4}; !reflect.DeepEqual(order, want) {
			t.Errorf("told in the order %v, want %v", order, want)
		}
		if got := b.Stats().Pending; got != 0 {
			t.Errorf("%d commands are pending, want none", got)
		}
	})
}

// A command of the next entry that a callback submits is in that entry, or a later one: no lock is held.
func TestACallbackMaySubmit(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		s := &submissions{b: b}
		b.Submit(marked(1), func(session.Result, error) { s.hand(2, marked(2)) })
		synctest.Wait()
		b.raft.entry(0).apply()
		synctest.Wait()
		b.raft.entry(1).apply()
		synctest.Wait()
		if len(s.got) != 1 || s.got[0].err != nil || s.got[0].result.Index != 2 {
			t.Errorf("told %+v, want the result of command 2", s.got)
		}
	})
}

// Whatever ends a wait, the callback says what Propose returns, once.
func TestSubmitTellsWhyACommandWasNotApplied(t *testing.T) {
	const timeout = time.Second
	begins := begins(session.Configure{Nonce: 1})
	tests := map[string]struct {
		do            func(b *bench)
		first, second error // of a command in the entry on its way, and of one that waits
	}{
		"the entry is not answered": {
			func(*bench) { time.Sleep(timeout + time.Nanosecond) }, session.ErrOutcomeUnknown, session.ErrNoLeader,
		},
		"a term begins": {
			func(b *bench) { b.Submit(begins, func(session.Result, error) {}); b.raft.entry(0).apply() },
			nil, session.ErrNoLeader,
		},
		"the proposer stops": {
			func(b *bench) { b.stop(); time.Sleep(timeout) }, session.ErrOutcomeUnknown, session.ErrStopping,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{Timeout: timeout}, func(b *bench) {
				t := b.t
				s := &submissions{b: b}
				s.submit(1, marked(1))
				s.submit(2, marked(2))
				tt.do(b)
				synctest.Wait()
				want := map[int]error{1: tt.first, 2: tt.second}
				for _, o := range s.got {
					if !errors.Is(o.err, want[o.n]) || o.n == 2 && errors.Is(o.err, session.ErrOutcomeUnknown) {
						t.Errorf("command %d was told %v, want %v", o.n, o.err, want[o.n])
					}
				}
				if len(s.got) != 2 {
					t.Errorf("told %d times, want twice: %+v", len(s.got), s.got)
				}
			})
		})
	}
}

// Submit refuses at once what can never be in the log.
func TestSubmitRefusesAtOnce(t *testing.T) {
	inBubble(t, Config{MaxProposals: 1}, func(b *bench) {
		t := b.t
		s := &submissions{b: b}
		s.submit(1, session.MoveSession{ID: 1, NewOwner: 255, Attempt: 1, Named: 1})
		s.submit(2, marked(2))
		s.submit(3, marked(3))
		if len(s.got) != 2 || !errors.Is(s.got[0].err, session.ErrInvalid) || !errors.Is(s.got[1].err, session.ErrLimit) {
			t.Errorf("told %+v, want %v and %v", s.got, session.ErrInvalid, session.ErrLimit)
		}
	})
}
