package leader

import (
	"context"
	"errors"
	"testing"

	"holdfast/session"
)

// recorded is a log that takes nothing.
type recorded struct {
	population
	commands []session.Command
}

func (r *recorded) Submit(c session.Command, done func(session.Result, error)) {
	r.commands = append(r.commands, c)
	done(session.Result{}, session.ErrNotLeader)
}

// R5: what a tracker proposed is in the log before the first command of the next tracker. So a tracker that has ended
// proposes nothing, whatever its streams still read.
func TestR5AnEndedTrackerProposesNothing(t *testing.T) {
	log := &recorded{}
	tracker := New(Config{Node: 1, Term: 1, Limits: session.DefaultLimits(1)}, log, log.population)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracker.Run(ctx, log.population); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s := newStream(session.Hello{Node: 1})
	log.commands = nil
	tracker.requests.serve(t.Context(), s, []session.Request{
		{Seq: 7, Claim: &session.ClaimRequest{Count: 1}}, {Seq: 8, Read: &session.ReadRequest{}},
	})
	if len(log.commands) != 0 {
		t.Errorf("proposed after the end: %+v", log.commands)
	}
	replies := s.waiting()
	if len(replies) != 2 || replies[0].Seq != 7 || replies[1].Seq != 8 {
		t.Fatalf("replies %+v, want 7 and 8 refused", replies)
	}
	for _, r := range replies {
		if !errors.Is(r.Err, session.ErrNotLeader) {
			t.Errorf("reply %+v, want %v", r, session.ErrNotLeader)
		}
	}
}

// A learner has at most 64 Ki requests out, and each may be refused before the first refusal is sent.
func TestRefusalsOfAllThatALearnerMayAskKeepTheStream(t *testing.T) {
	s := newStream(session.Hello{Node: 1})
	for range 64 << 10 {
		s.reply(session.Reply{Err: session.ErrNoLeader})
	}
	if s.stopped() {
		t.Errorf("the stream of an honest learner ended: %v", s.reason)
	}
}
