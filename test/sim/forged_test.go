package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm/entry" //nolint:depguard // the forged entry must be one that the state machine accepts
	"holdfast/session"
	"holdfast/test/sim/history"
)

// elsewhere is a node number that no node has, so its ids affect no session.
const elsewhere = 200

// forge changes the next entry of commands that a follower writes to its log and keeps in memory: the entry claims one
// id more, and keeps its commands and clocks. No client notices, but the state and its digest differ from then on. (This
// test samples no digests, because the checker would find the difference.) happened reports whether an entry was changed.
func (w *world) forge(name string) (happened func() bool) {
	d := w.drives[name]
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alter = func(all []*raft.Log) bool {
		for _, l := range all {
			if l.Type != raft.LogCommand {
				continue
			}
			e, err := entry.Decode(l.Data)
			if err == nil {
				l.Data, err = entry.EncodeAt(append(e.Commands, session.ClaimIDs{Node: elsewhere, Count: 1}), e.Clocks)
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

// TestForgedEntry makes one node of a cluster with clients apply another entry than the others. The node is found and
// steps out within some rounds. It steps out again after a restart on the same directory, and serves again after the
// directory was emptied. Meanwhile every promise holds, and the other nodes serve.
func TestForgedEntry(t *testing.T) {
	choked(t, 13, func(ctx context.Context, w *world) {
		victim := w.names[0]
		if victim == w.Leader() {
			victim = w.names[1]
		}
		// The node stops serving its local sessions too, so the judges must know where the fault is.
		fault := history.Event{Kind: history.FaultBegan, Who: victim, Text: "forged entry at " + victim}
		w.record.Add(fault)
		forged := w.forge(victim)
		if !soon(ctx, recovery, forged) {
			t.Error("no node wrote an entry that could be forged")
		}
		if !soon(ctx, 4*time.Second, func() bool { return w.differs(victim) }) {
			t.Errorf("%s has another state, and has not stepped out 4 s after", victim)
		}
		sleep(ctx, recovery)
		if !w.differs(victim) {
			t.Errorf("%s came back by itself", victim)
		}
		w.Kill(victim)
		w.Start(victim)
		if !soon(ctx, recovery, func() bool { n := w.life(victim).alive(); return n != nil && w.differs(victim) }) {
			t.Errorf("%s has the other state on its disk, and has not stepped out %v after its restart", victim, recovery)
		}
		w.Kill(victim)
		if !w.Empty(victim) {
			t.Error("the directory was not emptied")
		}
		w.Start(victim)
		fault.Kind = history.FaultEnded
		w.record.Add(fault)
		sleep(ctx, recovery)
		if got := w.serving(); len(got) != len(w.names) {
			t.Errorf("%v serve after %s was started on an empty directory", got, victim)
		}
	})
}
