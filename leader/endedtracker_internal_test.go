package leader

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// recorded is a log that accepts nothing.
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
	tracker := New(Config{Node: 1, Term: 1, Limits: session.DefaultLimits()}, log, log.population)
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

// A learner has at most 64 Ki requests out, and each may be refused before the first refusal is sent. Those that move
// many sessions may be refused one by one in as many replies as there are places for moves.
func TestRefusalsOfAllThatALearnerMayAskKeepTheStream(t *testing.T) {
	s := newStream(session.Hello{Node: 1})
	for range 64 << 10 {
		s.reply(session.Reply{Err: session.ErrNoLeader}, slot{})
	}
	for range maxMoving / session.MaxBatch {
		s.reply(session.Reply{Moved: make([]session.MoveResult, session.MaxBatch)}, slot{})
	}
	if s.stopped() {
		t.Errorf("the stream of an honest learner ended: %v", s.reason)
	}
	s.reply(session.Reply{}, slot{})
	if !s.stopped() || !errors.Is(s.reason, ErrSlow) {
		t.Errorf("one reply more: stopped %v with %v, want %v", s.stopped(), s.reason, ErrSlow)
	}
}

// A learner that asks for many sessions in each request and reads nothing makes the leader hold few replies.
func TestRepliesAboutManySessionsThatWaitAreFew(t *testing.T) {
	s := newStream(session.Hello{Node: 1})
	n := 0
	for ; !s.stopped(); n++ {
		s.reply(session.Reply{Moved: make([]session.MoveResult, session.MaxBatch)}, slot{})
	}
	if n > 256 || !errors.Is(s.reason, ErrSlow) {
		t.Errorf("%d replies of %d sessions waited, then %v", n, session.MaxBatch, s.reason)
	}
}

// The sessions of a request keep their places until its reply is sent. A learner that sends on while it reads nothing
// is refused one day, with a small reply, and keeps its stream.
func TestALearnerThatSendsOnAndReadsNothingIsRefused(t *testing.T) {
	log := &recorded{}
	q := New(Config{Node: 1, Term: 1, Limits: session.DefaultLimits()}, log, log.population).requests
	s := newStream(session.Hello{Node: 1})
	r := &session.Request{Resumes: &session.ResumesRequest{Sessions: make([]session.Resuming, session.MaxBatch)}}
	for range 10 * maxMoving / session.MaxBatch {
		if done := q.reserveSlot(s, r); done != nil {
			done(session.Reply{Moved: make([]session.MoveResult, session.MaxBatch)}, nil)
		}
	}
	moved, refused := 0, 0
	for some := s.waiting(); len(some) > 0; some = s.waiting() {
		for _, r := range some {
			if moved += len(r.Moved); errors.Is(r.Err, session.ErrLimit) {
				refused++
			}
		}
	}
	if s.stopped() || moved != maxMoving || refused != 9*maxMoving/session.MaxBatch {
		t.Errorf("moved %d sessions, want %d, %d requests refused; the stream ended: %v", moved, maxMoving, refused, s.reason)
	}
	if q.reserveSlot(s, r) == nil {
		t.Error("refused when all replies had been sent")
	}
}

// One message has replies about few sessions, so that a heartbeat that comes due waits for little.
func TestOneMessageHasRepliesAboutFewSessions(t *testing.T) {
	s := newStream(session.Hello{Node: 1})
	for seq := range uint64(20) {
		s.reply(session.Reply{Seq: seq, Remaining: make([]time.Duration, 1000)}, slot{})
	}
	next := uint64(0)
	for some := s.waiting(); len(some) > 0; some = s.waiting() {
		if len(some) > maxSent/1000 {
			t.Errorf("a message has %d replies of 1,000 sessions", len(some))
		}
		for _, r := range some {
			if r.Seq != next {
				t.Fatalf("reply %d instead of %d", r.Seq, next)
			}
			next++
		}
	}
	if next != 20 || s.weight != 0 {
		t.Errorf("%d replies were sent, and %d sessions count as waiting", next, s.weight)
	}
}
