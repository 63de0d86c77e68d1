package proposer

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/test/bubble"
)

func TestProposeAnswersWithTheResult(t *testing.T) {
	inBubble(t, Config{}, func(b *bench) {
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
	inBubble(t, Config{}, func(b *bench) {
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
	inBubble(t, Config{}, func(b *bench) {
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
			t.Fatalf("the next entry carries %v, want %v: all commands that came meanwhile, in order", got, want)
		}
		b.raft.entry(1).apply()
		for i, done := range all {
			if o := <-done; o.err != nil || o.result.Index != uint64(i) {
				t.Errorf("command %d got %+v, %v, want its own result", i, o.result, o.err)
			}
		}
		want := Stats{Entries: 2, Commands: 5, Bytes: uint64(b.raft.entry(0).size + b.raft.entry(1).size)}
		if got := b.Stats(); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	})
}

func TestEntryIsBounded(t *testing.T) {
	one, err := entry.EncodeCommand(marked(1))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]Config{
		"by commands": {MaxCommands: 3},
		"by bytes":    {MaxBytes: entry.FrameSize + 3*len(one)},
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, cfg, func(b *bench) {
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
	inBubble(t, Config{MaxBytes: 1}, func(b *bench) {
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
	inBubble(t, Config{MaxProposals: 3}, func(b *bench) {
		t := b.t
		ctx, cancel := context.WithCancel(t.Context())
		sent := b.propose(t.Context(), marked(1))
		b.propose(t.Context(), marked(2))
		queued := b.propose(ctx, marked(3))
		o := <-b.propose(t.Context(), marked(4))
		var limit *session.LimitError
		if !errors.As(o.err, &limit) || limit.Name != "leader_commands_in_flight" || limit.Limit != "3" ||
			limit.RetryAfter != session.BusyRetryAfter || errors.Is(o.err, session.ErrOutcomeUnknown) {
			t.Errorf("the fourth proposal of three = %v, want a LimitError of leader_commands_in_flight", o.err)
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
	inBubble(t, Config{}, func(b *bench) {
		t := b.t
		o := <-b.propose(t.Context(), session.MoveSession{ID: 1, NewOwner: 255, Attempt: 1, Named: 1})
		var field *session.FieldError
		if !errors.As(o.err, &field) || field.Field != "owner" {
			t.Errorf("Propose = %v, want a FieldError of owner", o.err)
		}
		if f := b.raft.entry(0); f != nil {
			t.Error("the command was sent")
		}
	})
}

func TestStopAnswersEverybody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := startProposer(t, Config{})
		sent, queued := b.propose(t.Context(), marked(1)), b.propose(t.Context(), marked(2))
		b.stop()
		if o := <-queued; !errors.Is(o.err, session.ErrStopping) || o.after != 0 {
			t.Errorf("a command in the queue got %v after %v, want %v at once", o.err, o.after, session.ErrStopping)
		}
		if o := <-b.propose(t.Context(), marked(3)); !errors.Is(o.err, session.ErrStopping) {
			t.Errorf("a command after the stop got %v, want %v", o.err, session.ErrStopping)
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
	bubble.Test(t, func(t *testing.T) {
		b := startProposer(t, Config{Timeout: time.Second})
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
