package leader_test

import (
	"testing"
	"time"

	"holdfast/session"
)

// R1: eight rounds begin within the timeout of every session, whatever the leader's own interval is: a session of a
// former leader, and one that is opened later. Heartbeats carry the interval.
func TestR1RoundsForShortTimeouts(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		const first, second = 500 * ms, 150 * ms
		w.has(5, 2)
		w.lasts(5, first)
		w.join(1, prompt)
		owner := w.join(2, func(b *session.Heartbeat) *session.Answer {
			return answer(b.Round, session.Touch{ID: 5}, session.Touch{ID: 6})
		})
		w.join(3, prompt)
		defer w.run()()
		for _, step := range []struct {
			timeout time.Duration
			until   time.Duration
		}{{first, time.Minute}, {second, 2 * time.Minute}} {
			w.at(step.until - 10*time.Second)
			before := w.tracker.Stats().Rounds
			w.at(step.until)
			want := step.timeout / 8
			if got := owner.last().Interval; got != want {
				t.Errorf("heartbeats tell an interval of %v for a timeout of %v, want %v", got, step.timeout, want)
			}
			if got, least := w.tracker.Stats().Rounds-before, uint64(10*time.Second/want); got < least {
				t.Errorf("%d rounds in 10 s for a timeout of %v, want %d", got, step.timeout, least)
			}
			w.view.mu.Lock()
			_, alive := w.view.sessions[5]
			w.view.mu.Unlock()
			if !alive {
				t.Fatalf("a session of %v, touched whenever its node was asked, has ended", step.timeout)
			}
			if step.timeout == first {
				w.log.apply(session.OpenSession{Node: 2, Spec: session.Spec{Timeout: second}}, term)
			}
		}
	})
}

// R1: a leader whose sessions all have long timeouts keeps its own interval, and its heartbeats carry it.
func TestR1HeartbeatsTellTheInterval(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		m := w.join(1, prompt)
		w.has(5, 1)
		defer w.run()()
		w.at(time.Second)
		if got := m.last().Interval; got != beat {
			t.Errorf("heartbeats tell an interval of %v, want %v", got, beat)
		}
	})
}

// lasts gives a session another timeout before the tracker runs.
func (w *world) lasts(id session.ID, timeout time.Duration) {
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	s := w.view.sessions[id]
	s.Timeout = timeout
	w.view.sessions[id] = s
}
