package leader_test

import (
	"testing"
	"time"

	"holdfast/leader"
	"holdfast/session"
)

// Config.OnState is called when the last chunk of an answer has been processed, with the moment at which the answered
// heartbeat was sent.
func TestHeard(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		type heard struct{ at, sent time.Duration }
		got := make(chan heard, 10)
		w.tracker = leader.New(leader.Config{
			Node: 1, Term: term, Interval: beat, ExpiryInterval: width,
			Limits: session.Limits{Min: long, Max: 40 * time.Second},
			OnAnswer: func(from session.Node, sent time.Time) {
				if from == 3 {
					got <- heard{w.now(), sent.Sub(w.start)}
				}
			},
		}, w.log, w.view)
		w.join(1, prompt)
		slow := w.join(3, nil)
		defer w.run()()
		w.at(1200 * ms)
		part := answer(1)
		part.Last = false
		slow.says(part)
		w.at(1300 * ms)
		if len(got) != 0 {
			t.Errorf("Heard was called for a part of an answer: %v", <-got)
		}
		slow.says(answer(1)) // this sends the next heartbeat
		w.at(1450 * ms)
		slow.says(answer(3))
		w.at(1500 * ms)
		for _, want := range []heard{{1300 * ms, 0}, {1450 * ms, 1300 * ms}} {
			if len(got) == 0 {
				t.Fatalf("Heard was not called for the answer of %v", want.at)
			}
			if h := <-got; h != want {
				t.Errorf("Heard got %v, want %v", h, want)
			}
		}
	})
}

// G6: each heartbeat has the commit index at its sending.
func TestG6HeartbeatsTellWhatIsCommitted(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.view.commit = 41
		w.join(1, prompt)
		other := w.join(2, prompt)
		defer w.run()()
		w.at(100 * ms)
		if got := other.last().Committed; got != 41 {
			t.Errorf("the first heartbeat tells that %d is committed, want 41", got)
		}
		locked(w.view, func() error { w.view.commit = 50; return nil })
		w.at(2 * beat)
		if got := other.last().Committed; got != 50 {
			t.Errorf("a later heartbeat tells that %d is committed, want 50", got)
		}
	})
}
