package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm" //nolint:depguard // a forged entry is one that the state machine takes
	"holdfast/session"
)

// elsewhere is a node number that no node has: its ids are nobody's business.
const elsewhere = 200

// forge changes the next entry of commands that a node which follows writes to its log, and has in memory: it claims an
// id more. Nobody is served anything else for it, but the state and its digest differ from then on (this test takes no
// sample of digests, or the checker would find it). The function that it returns reports whether that has happened.
func (w *world) forge(name string) (happened func() bool) {
	d := w.drives[name]
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alter = func(all []*raft.Log) bool {
		for _, l := range all {
			if l.Type != raft.LogCommand {
				continue
			}
			commands, err := fsm.DecodeEntry(l.Data)
			if err == nil {
				l.Data, err = fsm.EncodeEntry(append(commands, session.ClaimIDs{Node: elsewhere, Count: 1}))
			}
			if err != nil {
				w.failf("forging an entry: %v", err)
			}
			return true
		}
		return false
	}
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.alter == nil
	}
}

// differs reports whether a node says that it has stepped out because its state differs.
func (w *world) differs(name string) bool {
	s, err := w.life(name).node.Status(w.t.Context())
	return err == nil && !s.Ready && strings.Contains(s.NotReadyBecause, "this node's state is not that of the others")
}

// soon waits until ok, for at most a bound, and reports whether it was.
func soon(ctx context.Context, within time.Duration, ok func() bool) bool {
	for begun := time.Now(); time.Since(begun) < within; sleep(ctx, 10*time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}

// TestForgedEntry has one node of a cluster with people on it apply another entry than the others. It is found and
// steps out within some rounds, does so again after a restart on the same directory, and serves again once that was
// emptied. Meanwhile every promise holds, and the others are served.
func TestForgedEntry(t *testing.T) {
	choked(t, 13, func(ctx context.Context, w *world) {
		victim := w.names[0]
		if victim == w.Leader() {
			victim = w.names[1]
		}
		forged := w.forge(victim)
		if !soon(ctx, settle, forged) {
			t.Error("nobody wrote an entry")
		}
		if !soon(ctx, 4*time.Second, func() bool { return w.differs(victim) }) {
			t.Errorf("%s has another state, and has not stepped out 4 s after", victim)
		}
		sleep(ctx, settle)
		if !w.differs(victim) {
			t.Errorf("%s came back by itself", victim)
		}
		w.Kill(victim)
		w.Start(victim)
		if !soon(ctx, settle, func() bool { n := w.life(victim).alive(); return n != nil && w.differs(victim) }) {
			t.Errorf("%s has the other state on its disk, and has not stepped out %v after its restart", victim, settle)
		}
		w.Kill(victim)
		if !w.Empty(victim) {
			t.Error("it was not emptied")
		}
		w.Start(victim)
		sleep(ctx, settle)
		if got := w.serving(); len(got) != len(w.names) {
			t.Errorf("%v serve after %s was started on an empty directory", got, victim)
		}
	})
}
