package sim

import (
	"encoding/hex"
	"os"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// TestEmptiedDirectory restarts a follower with an empty directory. Within the same term it fetches a copy and serves
// (T6 newest stream only), as the messages about damaged disks promise.
func TestEmptiedDirectory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0)))
		w := newWorld(t, newReport(3, 3))
		for _, name := range w.names {
			w.Start(name)
		}
		time.Sleep(10 * time.Second)
		leader, victim := w.Leader(), "n1"
		if leader == victim {
			victim = "n2"
		}
		w.Kill(victim)
		w.Start(victim)
		time.Sleep(10 * time.Second)
		w.Kill(victim)
		<-w.life(victim).done
		if err := os.RemoveAll(w.drives[victim].path()); err != nil {
			t.Fatal(err)
		}
		w.Start(victim)
		time.Sleep(recovery)
		select {
		case <-w.life(victim).node.Ready():
		default:
			t.Errorf("%s does not serve %v after it was started on an empty directory", victim, recovery)
		}
		status, err := w.life(leader).node.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		digest, ok := w.life(victim).node.Digest(status.AppliedIndex)
		if !ok || hex.EncodeToString(digest[:]) != status.StateDigest {
			t.Errorf("%s has the digest %x (%v) at index %d, the leader %s", victim, digest, ok, status.AppliedIndex,
				status.StateDigest)
		}
		if got := w.Leader(); leader == "" || got != leader {
			t.Errorf("%q led, then %q: want one leader throughout, the node must not need a new term", leader, got)
		}
		w.stop()
	})
}
