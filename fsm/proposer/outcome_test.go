package proposer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
)

// E4: callers get the right error for each of Raft's errors.
func TestE4RaftErrors(t *testing.T) {
	other := errors.New("disk is on fire")
	tests := []struct {
		raft, want error
	}{
		{raft.ErrNotLeader, session.ErrNotLeader},
		{fmt.Errorf("wrapped: %w", raft.ErrNotLeader), session.ErrNotLeader},
		{raft.ErrLeadershipTransferInProgress, session.ErrNoLeader},
		{raft.ErrEnqueueTimeout, session.ErrNoLeader},
		{raft.ErrLeadershipLost, session.ErrOutcomeUnknown},
		{raft.ErrAbortedByRestore, session.ErrOutcomeUnknown},
		{raft.ErrRaftShutdown, session.ErrOutcomeUnknown},
		{other, session.ErrOutcomeUnknown},
		{errors.New(raft.ErrNotLeader.Error()), session.ErrOutcomeUnknown},
	}
	for _, test := range tests {
		t.Run(test.raft.Error(), func(t *testing.T) {
			inBubble(t, Config{}, func(b *bench) {
				t := b.t
				done := b.propose(t.Context(), marked(1))
				b.raft.entry(0).fail(test.raft)
				o := <-done
				for _, e := range []error{session.ErrNotLeader, session.ErrNoLeader, session.ErrOutcomeUnknown} {
					if got, want := errors.Is(o.err, e), errors.Is(test.want, e); got != want {
						t.Errorf("%v is %v: %v, want %v", o.err, e, got, want)
					}
				}
				if errors.Is(o.err, test.raft) {
					t.Errorf("%v lets Raft's own error through", o.err)
				}
				if got, want := b.Stats().Unknown, errors.Is(test.want, session.ErrOutcomeUnknown); (got == 1) != want {
					t.Errorf("%d unknown outcomes were counted", got)
				}
			})
		})
	}
}

func TestE4OddResponsesAreUnknownOutcomes(t *testing.T) {
	for name, response := range map[string]any{
		"halted": errors.New("halted"), "nothing": nil, "too few": []session.Result{},
		"too many": make([]session.Result, 2),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bench) {
				t := b.t
				done := b.propose(t.Context(), marked(1))
				f := b.raft.entry(0)
				f.response = response
				close(f.done)
				if o := <-done; !errors.Is(o.err, session.ErrOutcomeUnknown) {
					t.Errorf("Propose = %v, want %v", o.err, session.ErrOutcomeUnknown)
				}
			})
		})
	}
}

// An entry that Raft never answers gets an unknown outcome at its deadline. Raft's own timeout covers only its queue.
func TestDeadlineOfAnEntry(t *testing.T) {
	inBubble(t, Config{Timeout: time.Second}, func(b *bench) {
		t := b.t
		start := time.Now()
		first := b.propose(t.Context(), marked(1))
		if got := b.raft.entry(0).timeout; got >= time.Second {
			t.Errorf("Raft may take %v to queue the entry, want less than the deadline of 1s", got)
		}
		time.Sleep(300 * time.Millisecond)
		second := b.propose(t.Context(), marked(2))
		time.Sleep(time.Until(start.Add(time.Second - time.Nanosecond)))
		notYet(t, first, "1ns before the deadline")
		o := <-first
		if !errors.Is(o.err, session.ErrOutcomeUnknown) || o.after != time.Second {
			t.Errorf("Propose = %v after %v, want %v after 1s", o.err, o.after, session.ErrOutcomeUnknown)
		}

		// No other entry is sent, so a command that waits was certainly not appended.
		o = <-second
		if !errors.Is(o.err, session.ErrNoLeader) || errors.Is(o.err, session.ErrOutcomeUnknown) ||
			o.after != time.Second {
			t.Errorf("the command in the queue got %v after %v, want %v after 1s", o.err, o.after,
				session.ErrNoLeader)
		}
		third := b.propose(t.Context(), marked(3))
		if f := b.raft.entry(1); f != nil {
			t.Errorf("entry %v was sent although the entry before is unanswered", marksOf(f))
		}
		if got := b.Stats(); got.Pending != 1 || got.Unknown != 1 {
			t.Errorf("Stats = %+v, want 1 pending and 1 unknown", got)
		}

		// The answer comes late. No caller waits for it, and the log moves again.
		b.raft.entry(0).apply()
		if got, want := marksOf(b.raft.entry(1)), []uint64{3}; !reflect.DeepEqual(got, want) {
			t.Fatalf("the next entry carries %v, want %v", got, want)
		}
		b.raft.entry(1).apply()
		if o := <-third; o.err != nil || o.result.Index != 3 {
			t.Errorf("Propose = %+v, %v, want the result of command 3", o.result, o.err)
		}
	})
}

// Each entry has the whole timeout, however long its commands have waited in the queue.
func TestDeadlineCountsFromTheSending(t *testing.T) {
	inBubble(t, Config{Timeout: time.Second}, func(b *bench) {
		t := b.t
		b.propose(t.Context(), marked(1))
		second := b.propose(t.Context(), marked(2))
		time.Sleep(900 * time.Millisecond)
		b.raft.entry(0).apply()
		if b.raft.entry(1) == nil {
			t.Fatal("the second entry was not sent")
		}
		if o := <-second; !errors.Is(o.err, session.ErrOutcomeUnknown) || o.after != 1900*time.Millisecond {
			t.Errorf("Propose = %v after %v, want %v after 1.9s", o.err, o.after, session.ErrOutcomeUnknown)
		}
	})
}

func TestCallerLeavesTheQueue(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		ctx, cancel := context.WithCancel(t.Context())
		first := b.propose(ctx, marked(1))
		second := b.propose(ctx, marked(2))
		third := b.propose(t.Context(), marked(3))
		cancel()
		if o := <-second; !errors.Is(o.err, context.Canceled) || errors.Is(o.err, session.ErrOutcomeUnknown) {
			t.Errorf("a caller that left before the sending got %v, want %v", o.err, context.Canceled)
		}
		if o := <-first; !errors.Is(o.err, session.ErrOutcomeUnknown) || errors.Is(o.err, context.Canceled) {
			t.Errorf("a caller that left after the sending got %v, want %v", o.err, session.ErrOutcomeUnknown)
		}
		b.raft.entry(0).apply()
		if got, want := marksOf(b.raft.entry(1)), []uint64{3}; !reflect.DeepEqual(got, want) {
			t.Errorf("the next entry carries %v, want %v", got, want)
		}
		b.raft.entry(1).apply()
		if o := <-third; o.err != nil {
			t.Error(o.err)
		}
		if got := b.Stats(); got.Unknown != 1 || got.Pending != 0 {
			t.Errorf("Stats = %+v, want 1 unknown, none pending", got)
		}
		if o := <-b.propose(ctx, marked(4)); !errors.Is(o.err, context.Canceled) || b.raft.entry(2) != nil {
			t.Errorf("a caller that had left before it came got %v, want %v and nothing sent", o.err, context.Canceled)
		}
	})
}

func TestUnknownOutcomesAreCountedOnce(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		ctx, cancel := context.WithCancel(t.Context())
		left, stayed := b.propose(ctx, marked(1)), b.propose(t.Context(), marked(2))
		cancel()
		<-left
		b.raft.entry(0).fail(raft.ErrLeadershipLost)
		b.raft.entry(1).fail(raft.ErrLeadershipLost)
		<-stayed
		if got := b.Stats().Unknown; got != 2 {
			t.Errorf("%d unknown outcomes were counted, want 2: one for each caller", got)
		}
	})
}

// A node stops Raft when Raft has answered the entry in flight, or some time has passed: a Raft that shuts down answers no
// entry that waits for the state.
func TestWaitUnansweredWaitsForTheEntryInFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := startProposer(t, Config{Timeout: time.Second})
		waits := func(within, want time.Duration) {
			t.Helper()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			if b.WaitUnanswered(ctx); time.Since(begun) != want {
				t.Errorf("returned after %v, want %v", time.Since(begun), want)
			}
		}
		b.propose(t.Context(), marked(1))
		b.stop()
		err := <-b.stopped
		b.stopped <- err
		waits(2*time.Second, 2*time.Second)
		f := b.raft.entry(0)
		time.AfterFunc(300*time.Millisecond, f.apply)
		waits(2*time.Second, 300*time.Millisecond)
		waits(2*time.Second, 0)
		b.close(t)
	})
}
