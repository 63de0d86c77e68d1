package learner

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// D1, D2: a node reports the digest that it has at the index which is compared, nothing where it has none, and what a
// comparison has found is held against what the node reported before.
func TestD1ReportsWhatItHas(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var own []session.StateDigest
		var found []session.Comparison
		w.server.cfg.Judge = func(reported session.StateDigest, f session.Comparison) {
			own, found = append(own, reported), append(found, f)
		}
		w.view.mu.Lock()
		w.view.digests[7] = [16]byte{1}
		w.view.mu.Unlock()
		l := w.follow()
		if got := l.beat(
			session.Heartbeat{Compare: 7},
		).Digest; got != (session.StateDigest{Index: 7, Digest: [16]byte{1}}) {
			t.Errorf("reports %+v", got)
		}
		w.view.mu.Lock()
		w.view.digests[7] = [16]byte{2} // a scrub has found damage
		w.view.mu.Unlock()
		said := session.Comparison{StateDigest: session.StateDigest{Index: 7, Digest: [16]byte{1}}, Agreed: true}
		if got := l.beat(session.Heartbeat{Compare: 9, Compared: said}).Digest; got != (session.StateDigest{}) {
			t.Errorf("reports %+v of an index that it has not applied", got)
		}
		l.beat(session.Heartbeat{Compare: 9, Compared: said})
		want := []session.StateDigest{{}, {Index: 7, Digest: [16]byte{1}}, {}}
		for i := range want {
			if i >= len(own) || own[i] != want[i] || i > 0 && found[i] != said {
				t.Errorf("heartbeat %d: told %+v of %+v, want of %+v", i, found, own, want[i])
			}
		}
	})
}

// D2: a node that has stepped out refuses everything, promises nothing more, and leaves its leader.
func TestD2StepOut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		g := w.open(1<<56|1, 1)
		if got := w.conn.Touch(nil); got.SafeFor <= 0 {
			t.Errorf("before: %+v", got)
		}
		w.server.StepOut()
		synctest.Wait()
		if got := w.conn.Touch(nil); got.SafeFor > 0 {
			t.Errorf("promises %v", got.SafeFor)
		}
		select {
		case <-l.ended:
		case <-time.After(time.Second):
			t.Error("it stays with its leader")
		}
		if _, err := w.server.Find(t.Context(), g.Session.ID, session.ReadOptions{}); err == nil {
			t.Error("it shows what it has")
		}
		if _, err := w.server.Connect(nil); err == nil {
			t.Error("it takes connections")
		}
	})
}
