package fsm

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubbles"
)

func TestProposeAnswersWithTheResult(t *testing.T) {
	bubble(t, ProposerConfig{}, func(b *bench) {
		t := b.t
		done := b.propose(t.Context(), marked(7))
		b.raft.entry(0).apply()
		if o := <-done; o.err != nil || o.result.Index != 7 {
			t.Errorf("Propose = %+v, %v, want the result of command 7", o.result, o.err)
		}
	})
}

// A refusal of the state machine is a result, not an error: the command was applied.
func TestProposePassesOnTheStateMachinesRefusal(t *testing.T) {
	bubble(t, ProposerConfig{}, func(b *bench) {
		t := b.t
		done := b.propose(t.Context(), marked(7))
		f := b.raft.entry(0)
		f.response = []session.Result{{Err: session.ErrMoved}}
		close(f.done)
		if o := <-done; o.err != nil || !errors.Is(o.result.Err, session.ErrMoved) {
			t.Errorf("Propose = %+v, %v, want the refusal in the result", o.result, o.err)
		}
	})
}

func TestGroupCommit(t *testing.T) {
	bubble(t, ProposerConfig{}, func(b *bench) {
		t := b.t
		all := []<-chan outcome{b.propose(t.Context(), marked(0))}
		for i := 1; i < 5; i++ {
			all = append(all, b.propose(t.Context(), marked(i)))
		}
		if got := b.raft.entry(1); got != nil {
			t.Fatalf("a second entry %v was sent while the first is on its way", marksOf(got))
		}
		b.raft.entry(0).apply()
		if got, want := marksOf(b.raft.entry(1)), []uint64{1, 2, 3, 4}; !reflect.DeepEqual(got, want) {
			t.Fatalf("the next entry carries %v, want %v: all that came meanwhile, in order", got, want)
		}
		b.raft.entry(1).apply()
		for i, done := range all {
			if o := <-done; o.err != nil || o.result.Index != uint64(i) {
				t.Errorf("command %d got %+v, %v, want its own result", i, o.result, o.err)
			}
		}
		want := ProposerStats{Entries: 2, Commands: 5, Bytes: uint64(b.raft.entry(0).size + b.raft.entry(1).size)}
		if got := b.Stats(); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	})
}

func TestEntryIsBounded(t *testing.T) {
	one, err := encodeCommand(marked(1))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]ProposerConfig{
		"by commands": {MaxCommands: 3},
		"by bytes":    {MaxBytes: frameSize + 3*len(one)},
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, cfg, func(b *bench) {
				t := b.t
				for i := 1; i <= 8; i++ {
					b.propose(t.Context(), marked(i))
				}
				var got [][]uint64
				for i := range 4 {
					f := b.raft.entry(i)
					got = append(got, marksOf(f))
					f.apply()
				}
				if want := [][]uint64{{1}, {2, 3, 4}, {5, 6, 7}, {8}}; !reflect.DeepEqual(got, want) {
					t.Errorf("entries carry %v, want %v", got, want)
				}
			})
		})
	}
}

func TestCommandLargerThanAnEntryTravelsAlone(t *testing.T) {
	bubble(t, ProposerConfig{MaxBytes: 1}, func(b *bench) {
		t := b.t
		for i := 1; i <= 3; i++ {
			done := b.propose(t.Context(), marked(i))
			b.raft.entry(i - 1).apply()
			if o := <-done; o.err != nil {
				t.Errorf("Propose = %v", o.err)
			}
		}
	})
}

func TestProposalsAreBounded(t *testing.T) {
	bubble(t, ProposerConfig{MaxProposals: 3}, func(b *bench) {
		t := b.t
		ctx, cancel := context.WithCancel(t.Context())
		sent := b.propose(t.Context(), marked(1))
		b.propose(t.Context(), marked(2))
		queued := b.propose(ctx, marked(3))
		o := <-b.propose(t.Context(), marked(4))
		var limit *session.LimitError
		if !errors.As(o.err, &limit) || limit.Name != "leader_commands_in_flight" || limit.Limit != "3" || limit.RetryAfter != session.BusyRetryAfter || errors.Is(o.err, session.ErrOutcomeUnknown) {
			t.Errorf("the fourth of three = %v, want a LimitError of leader_commands_in_flight", o.err)
		}
		cancel()
		<-queued
		room := b.propose(t.Context(), marked(5))
		notYet(t, room, "after a caller has left the queue")
		b.raft.entry(0).apply()
		<-sent
		if got, want := marksOf(b.raft.entry(1)), []uint64{2, 5}; !reflect.DeepEqual(got, want) {
			t.Errorf("the next entry carries %v, want %v", got, want)
		}
	})
}

func TestProposeRefusesWhatIsOutOfRange(t *testing.T) {
	bubble(t, ProposerConfig{}, func(b *bench) {
		t := b.t
		o := <-b.propose(t.Context(), session.MoveSession{ID: 1, NewOwner: 255, Attempt: 1})
		var field *session.FieldError
		if !errors.As(o.err, &field) || field.Field != "owner" {
			t.Errorf("Propose = %v, want a FieldError of owner", o.err)
		}
		if f := b.raft.entry(0); f != nil {
			t.Error("it was sent")
		}
	})
}

// E4: what the callers may conclude from each of Raft's errors.
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
			bubble(t, ProposerConfig{}, func(b *bench) {
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
		"halted": errors.New("halted"), "nothing": nil, "too few": []session.Result{}, "too many": make([]session.Result, 2),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, ProposerConfig{}, func(b *bench) {
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

// Raft's own timeout covers only its queue: a future may stay unanswered for ever.
func TestDeadlineOfAnEntry(t *testing.T) {
	bubble(t, ProposerConfig{Timeout: time.Second}, func(b *bench) {
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

		// No other entry is sent, and who waits for that was certainly not appended.
		o = <-second
		if !errors.Is(o.err, session.ErrNoLeader) || errors.Is(o.err, session.ErrOutcomeUnknown) || o.after != time.Second {
			t.Errorf("the one behind it got %v after %v, want %v after 1s in the queue", o.err, o.after, session.ErrNoLeader)
		}
		third := b.propose(t.Context(), marked(3))
		if f := b.raft.entry(1); f != nil {
			t.Errorf("entry %v was sent although the one before is unanswered", marksOf(f))
		}
		if got := b.Stats(); got.Pending != 1 || got.Unknown != 1 {
			t.Errorf("Stats = %+v, want 1 pending and 1 unknown", got)
		}

		// The answer comes late: nobody waits for it, and the log moves again.
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

// Each entry has the whole timeout, however long its commands waited before.
func TestDeadlineCountsFromTheSending(t *testing.T) {
	bubble(t, ProposerConfig{Timeout: time.Second}, func(b *bench) {
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
	bubble(t, ProposerConfig{}, func(b *bench) {
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
	bubble(t, ProposerConfig{}, func(b *bench) {
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

func TestStopAnswersEverybody(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		b := startProposer(t, ProposerConfig{})
		sent, queued := b.propose(t.Context(), marked(1)), b.propose(t.Context(), marked(2))
		b.stop()
		if o := <-queued; !errors.Is(o.err, session.ErrStopping) || o.after != 0 {
			t.Errorf("who waits in the queue gets %v after %v, want %v at once", o.err, o.after, session.ErrStopping)
		}
		if o := <-b.propose(t.Context(), marked(3)); !errors.Is(o.err, session.ErrStopping) {
			t.Errorf("who comes later gets %v, want %v", o.err, session.ErrStopping)
		}
		notYet(t, sent, "while the entry is on its way")
		b.raft.entry(0).apply()
		if o := <-sent; o.err != nil || o.result.Index != 1 {
			t.Errorf("the entry on its way: %+v, %v, want its result", o.result, o.err)
		}
		b.close(t)
	})
}

func TestStopWaitsNoLongerThanTheDeadline(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		b := startProposer(t, ProposerConfig{Timeout: time.Second})
		sent := b.propose(t.Context(), marked(1))
		b.stop()
		if o := <-sent; !errors.Is(o.err, session.ErrOutcomeUnknown) || o.after != time.Second {
			t.Errorf("Propose = %v after %v, want %v after 1s", o.err, o.after, session.ErrOutcomeUnknown)
		}
		if err := <-b.stopped; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		b.stopped <- nil
		b.close(t)
	})
}

// A real State behind the Proposer: what its callers get is what each of their commands did.
func TestProposerOnAState(t *testing.T) {
	bubble(t, ProposerConfig{}, func(b *bench) {
		t := b.t
		r := newReplica()
		b.raft.answer = func(f *fakeFuture) {
			data, err := EncodeEntry(f.commands)
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
			f.response = r.Apply(&raft.Log{Index: r.next, Term: 1, Data: data})
			r.next++
			close(f.done)
		}
		const callers = 100
		ids := make(chan session.ID, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				result, err := b.Propose(t.Context(), opening(byte(i+1)))
				if err != nil || result.Err != nil {
					t.Errorf("Propose = %v, %v", err, result.Err)
				}
				ids <- result.Session.ID
			})
		}
		all.Wait()
		close(ids)
		seen := map[session.ID]bool{}
		for id := range ids {
			seen[id] = true
		}
		if len(seen) != callers || r.Sessions() != callers {
			t.Errorf("%d callers got %d sessions of %d, want one each", callers, len(seen), r.Sessions())
		}
		if got := b.Stats(); got.Entries > 2 {
			t.Errorf("%d concurrent commands took %d entries, want 2", callers, got.Entries)
		}
	})
}

func TestProposersErrorsSayWhatHappened(t *testing.T) {
	for err, want := range map[error]string{
		translate(raft.ErrLeadershipLost): "outcome is unknown: leadership lost",
		translate(raft.ErrEnqueueTimeout): "no leader is known: timed out",
		tooLate(time.Second):              "the log has not moved for 1s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}
