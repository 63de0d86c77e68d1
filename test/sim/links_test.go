package sim

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubbles"
)

// TestPromisesOfLateAnswers has a client hear late, and then say nothing that reaches anybody: its last promise came late, and counts from
// the sending (S3), so it is over when the session expires.
func TestPromisesOfLateAnswers(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0)))
		w := newWorld(t, newReport(5, 3))
		for _, name := range w.names {
			w.Start(name)
		}
		sleep(t.Context(), settle)
		x := w.tenant("c1")
		const late = time.Second
		for _, n := range w.names {
			w.Slow(n, x.name, late, 0)
		}
		s := x.open(t.Context(), settle)
		if s == nil {
			t.Fatal("no session")
		}
		for _, n := range w.names {
			w.Cut(x.name, n)
		}
		if left := time.Until(s.SafeUntil()); left < late {
			t.Errorf("the promise lasts for %v when it comes: too little to outlive the session by %v", left, late)
		}
		w.awaitEnd(t.Context(), s.ID())
		for _, n := range w.names {
			w.Slow(n, x.name, -late, 0)
			w.Heal(x.name, n)
		}
		owner := w.names[s.Owner()-1]
		if from, to := w.Held(x.name, owner), w.Held(owner, x.name); from == 0 || to == 0 {
			t.Errorf("%d writes of the client to %s were held back, and %d to it: want some each way", from, owner, to)
		}
		x.toBeTold(t.Context())
		x.stop()
		w.stop()
		w.judge(nil)
		if w.report.Checked["I3"] == 0 {
			t.Error("no promise was put to the test")
		}
	})
}
