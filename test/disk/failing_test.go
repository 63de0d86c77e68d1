//go:build e2e

package disk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/disk/faultfs"
	"holdfast/test/timeout"
)

// trial is a cluster at work. The disk of one node, the victim, gets a fault.
type trial struct {
	*cluster
	l      *ledger
	victim *server
	others []*server
}

// onEach runs a test twice, with the leader's and with a follower's disk.
func onEach(t *testing.T, test func(t *trial)) {
	t.Helper()
	faultfs.Need(t)
	for i, role := range []string{"leader", "follower"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel() // it mostly waits
			c := newCluster(t)
			l := newLedger(c, uint64(i))
			await(t, recoverWithin, "sessions are acknowledged", func() (bool, string) {
				return l.tally().Opened >= 10, ""
			})
			victim, others := c.leader()
			if role == "follower" {
				victim, others = others[0], append(others[1:], victim)
			}
			victim.mayEnd = true
			test(&trial{c, l, victim, others})
		})
	}
}

// carryOn shows that the other nodes serve under a leader of theirs, and open a new client's session.
func (t *trial) carryOn() {
	t.t.Helper()
	begin := time.Now()
	took := t.awaitServing(leaderWithin, t.others...)
	t.opens()
	t.t.Logf("the others serve after %v, an open and a close are done after %v", took.Round(time.Millisecond),
		time.Since(begin).Round(time.Millisecond))
}

// opens shows that the other nodes open and close a new client's session.
func (t *trial) opens() {
	t.t.Helper()
	x, err := client.New(client.Config{Endpoints: []string{t.others[0].clients, t.others[1].clients}})
	timeout.Check(t.t, err)
	defer x.Close()
	ctx, cancel := context.WithTimeout(context.Background(), leaderWithin)
	defer cancel()
	s, err := x.Open(ctx, client.SessionOptions{Timeout: sessionTimeout})
	if err == nil {
		err = s.Close(ctx)
	}
	if err != nil {
		timeout.Check(t.t, fmt.Errorf("an open and a close while node %d is sick: %w", t.victim.number, err))
	}
}

// says reports whether the victim's log contains a text.
func (t *trial) says(text string) bool {
	log, err := os.ReadFile(t.victim.log.Name())
	return err == nil && strings.Contains(string(log), text)
}

// exits shows that the victim's process ends by itself, with an error and a message with the reason.
func (t *trial) exits(reason string) {
	t.t.Helper()
	begin := time.Now()
	within(t.t, exitWithin, fmt.Sprintf("the end of node %d", t.victim.number), t.victim.wait)
	t.t.Logf("node %d has ended after %v: %v", t.victim.number, time.Since(begin).Round(time.Millisecond), t.victim.err)
	if code := t.victim.cmd.ProcessState.ExitCode(); code <= 0 {
		t.t.Errorf("node %d ended with %v, want an exit code that is not 0", t.victim.number, t.victim.err)
	}
	if !t.says(reason) {
		t.t.Errorf("node %d does not say %q", t.victim.number, reason)
	}
}

// recovers shows that all nodes serve again, that nothing acknowledged is lost, and that all states are the same.
func (t *trial) recovers() {
	t.t.Helper()
	took := t.awaitServing(recoverWithin, t.nodes...)
	timeout.Check(t.t, t.l.audit(true))
	t.t.Logf("all nodes serve after %v; acknowledged: %+v", took.Round(time.Millisecond), t.l.tally())
}

// TestFailingDisk answers writes, and then fsyncs, with EIO. The node ends, and the others go on. With a healthy disk
// the node starts again and catches up.
func TestFailingDisk(t *testing.T) {
	for name, op := range map[string]faultfs.Op{"write": faultfs.Write, "fsync": faultfs.Sync} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *trial) {
				t.victim.disk.set(faultfs.Faults{Fail: map[faultfs.Op]syscall.Errno{op: syscall.EIO}})
				await(t.t, callTimeout, "the disk has failed", func() (bool, string) {
					return t.victim.disk.counts().Failed[op] > 0, ""
				})
				t.carryOn()
				t.exits("input/output error")
				t.carryOn()
				t.victim.disk.set(faultfs.Faults{})
				t.start(t.victim)
				t.recovers()
			})
		})
	}
}

// TestFullDisk leaves no space. The node ends with a message, and does not start until there is space.
func TestFullDisk(t *testing.T) {
	onEach(t, func(t *trial) {
		t.victim.disk.set(faultfs.Faults{Full: true})
		await(t.t, callTimeout, "the disk is full", func() (bool, string) {
			return t.victim.disk.counts().Full > 0, ""
		})
		t.carryOn()
		t.exits("no space left on device")
		t.carryOn()
		t.start(t.victim)
		t.exits("the disk is full: free some space")
		t.victim.disk.set(faultfs.Faults{})
		t.start(t.victim)
		t.recovers()
	})
}

// TestSlowDisk makes every fsync take a tenth of a second. Work goes on and no node ends. When the disk is
// fast again, all nodes serve, and nothing is lost.
func TestSlowDisk(t *testing.T) {
	onEach(t, func(t *trial) {
		before := t.l.tally()
		t.victim.disk.set(faultfs.Faults{Slow: map[faultfs.Op]time.Duration{faultfs.Sync: 100 * time.Millisecond}})
		await(t.t, recoverWithin, "sessions are opened, moved and closed", func() (bool, string) {
			now := t.l.tally()
			return now.Opened > before.Opened+5 && now.Moved > before.Moved+5 && now.Closed > before.Closed+5,
				fmt.Sprintf("%+v", now)
		})
		if t.victim.disk.counts().Slowed[faultfs.Sync] == 0 {
			t.t.Error("no operation was slow: the fault has hit nothing")
		}
		t.opens()
		// With snapshots of 0.6 s and 20 entries kept, a node may catch up only once its disk is as fast as the others'.
		t.victim.disk.set(faultfs.Faults{})
		t.recovers()
		if !t.victim.running() {
			t.t.Errorf("node %d has ended: %v", t.victim.number, t.victim.err)
		}
	})
}

// TestHungDisk holds every fsync for longer than stall_timeout. The others have a leader and serve.
// The node steps out and says so. When the disk goes on, so does the node.
func TestHungDisk(t *testing.T) {
	onEach(t, func(t *trial) {
		t.victim.disk.set(faultfs.Faults{Hang: map[faultfs.Op]bool{faultfs.Sync: true}})
		await(t.t, callTimeout, "an fsync hangs", func() (bool, string) {
			return t.victim.disk.counts().Holding > 0, ""
		})
		t.carryOn()
		took := await(t.t, leaderWithin, "the node steps out", func() (bool, string) {
			st, err := t.status(t.victim)
			return err == nil && !st.Ready && t.says("the node stalls and steps out"), fmt.Sprintf("%+v, %v", st, err)
		})
		t.t.Logf("node %d has stepped out after %v more", t.victim.number, took.Round(time.Millisecond))
		t.carryOn()
		if st, err := t.status(t.others[0]); err != nil || st.Leader == session.Node(t.victim.number) {
			t.t.Errorf("got %+v, %v, want a leader whose disk does not hang", st, err)
		}
		t.victim.disk.set(faultfs.Faults{})
		t.recovers()
		if !t.victim.running() {
			t.t.Errorf("node %d has ended: %v", t.victim.number, t.victim.err)
		}
	})
}

// TestPowerCutOfHungDisk cuts the power of a node whose disk hangs.
func TestPowerCutOfHungDisk(t *testing.T) {
	onEach(t, func(t *trial) {
		t.victim.disk.set(faultfs.Faults{Hang: map[faultfs.Op]bool{faultfs.Sync: true}})
		await(t.t, callTimeout, "an fsync hangs", func() (bool, string) {
			return t.victim.disk.counts().Holding > 0, ""
		})
		loss, err := t.powerCut(faultfs.Freezing{}, faultfs.Cutting{Seed: 1}, t.victim)
		timeout.Check(t.t, err)
		timeout.Check(t.t, t.corrupt(t.victim))
		t.t.Logf("not fsynced: %+v", loss)
		t.carryOn()
		t.victim.disk.set(faultfs.Faults{})
		t.start(t.victim)
		t.recovers()
	})
}
