package sim

import (
	"context"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// linked runs a cluster of three with one tenant, passes both to do when the cluster serves, and judges the history.
func linked(t *testing.T, do func(t *testing.T, w *world, x *tenant)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0)))
		w := newWorld(t, newReport(5, 3))
		for _, name := range w.names {
			w.Start(name)
		}
		sleep(t.Context(), recovery)
		x := w.tenant("c1")
		do(t, w, x)
		x.stop()
		w.stop()
		w.judge(nil)
	})
}

// TestPromisesOfLateAnswers delays the answers to a client, and then cuts off all its requests. Its last promise came
// late, but counts from the sending (S3 length of a promise), so the promise is over when the session expires.
func TestPromisesOfLateAnswers(t *testing.T) {
	linked(t, func(t *testing.T, w *world, x *tenant) {
		t.Helper()
		const late = time.Second
		for _, n := range w.names {
			w.Slow(n, x.name, late, 0)
		}
		s := x.open(t.Context(), recovery)
		if s == nil {
			t.Fatal("no session")
		}
		for _, n := range w.names {
			w.Cut(x.name, n)
		}
		if left := time.Until(s.SafeUntil()); left < late {
			t.Errorf("the promise lasts for %v when it comes: too little to outlive the session by %v", left, late)
		}
		ctx, cancel := context.WithTimeout(t.Context(), dying)
		defer cancel()
		if !w.awaitEnd(ctx, s.ID()) {
			t.Errorf("the session is silent, and has not ended within %v", dying)
		}
		for _, n := range w.names {
			w.Slow(n, x.name, -late, 0)
			w.Heal(x.name, n)
		}
		owner := w.names[s.Owner()-1]
		if from, to := w.Held(x.name, owner), w.Held(owner, x.name); from == 0 || to == 0 {
			t.Errorf("%d writes of the client to %s were held back, and %d to it: want some each way", from, owner, to)
		}
		x.awaitEnds(t.Context())
	})
}

// TestOneDirectionIsSilence cuts one direction between a client and its node. Whether its touches or their answers are
// lost, it finds another node before its promise ends.
func TestOneDirectionIsSilence(t *testing.T) {
	for _, lost := range []string{"touches", "answers"} {
		t.Run(lost, func(t *testing.T) {
			linked(t, func(t *testing.T, w *world, x *tenant) {
				t.Helper()
				s := x.open(t.Context(), recovery)
				if s == nil {
					t.Fatal("no session")
				}
				sleep(t.Context(), longest)
				left, safe := s.Owner(), s.Context()
				from, to := x.name, w.names[left-1]
				if lost == "answers" {
					from, to = to, from
				}
				w.Cut(from, to)
				sleep(t.Context(), longest)
				if err := safe.Err(); err != nil || s.Owner() == left {
					t.Errorf("%v after the cut the session is at node %d, was at %d, and its context says %v", longest,
						s.Owner(), left, err)
				}
				if w.Held(from, to) == 0 {
					t.Errorf("nothing was sent from %s to %s", from, to)
				}
				w.Heal(from, to)
			})
		})
	}
}
