package node

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// TestWhatTheLeaderSendsIsLetThrough: the largest request of a leader is within what raftnet lets through to Raft, with
// as much again for what surrounds the entries.
func TestWhatTheLeaderSendsIsLetThrough(t *testing.T) {
	if got := 2 * session.EntryBytes; got > raftnet.MaxField {
		t.Errorf("twice an entry is %d bytes, a field at most %d", got, raftnet.MaxField)
	}
	if got := session.MaxCommandBytes + session.EntryBytes; got > raftnet.MaxField {
		t.Errorf("the largest command and an entry are %d bytes, a field at most %d", got, raftnet.MaxField)
	}
	if got := 2 * maxAppendEntries; got > raftnet.MaxItems {
		t.Errorf("twice the entries of a request are %d, a list has at most %d", got, raftnet.MaxItems)
	}
	if got := 2 * (raftnet.MaxRequest + session.EntryBytes); got > raftnet.MaxMessage {
		t.Errorf("twice the entries of a request are %d bytes, a message at most %d", got, raftnet.MaxMessage)
	}
	if got := maxAppendEntries * session.EntryBytes; got > 16<<20 {
		t.Errorf("Raft reads %d bytes of full entries for a request, want at most 16 MiB", got)
	}
	if got := maxAppendEntries * session.MaxCommandBytes; got > 96<<20 {
		t.Errorf("Raft reads %d bytes of the largest commands for a request, want at most 96 MiB", got)
	}
}

// Raft stops while nobody reads its NotifyCh: it is read whatever the role loop does, and what it says is "look again",
// once. test/raft shows the trap itself.
func TestLeadershipIsAlwaysRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLeadership()
		defer l.close()
		for i := range 1000 { // nobody reads changed meanwhile
			select {
			case l.notify <- i%2 == 0:
			case <-time.After(time.Minute):
				t.Fatalf("change %d of leadership was not read", i)
			}
		}
		synctest.Wait()
		<-l.changed
		select {
		case <-l.changed:
			t.Error("changes that were not looked at pile up")
		default:
		}
	})
}

// Raft's Shutdown hands leadership to nobody, and Close of its transport leaves connections open. A node that is
// stopped hands over first, so that another leads without an election timeout; it leaves no connection open; and it
// starts again on its configuration, which Raft will not be bootstrapped with twice.
func TestAnOrderedStopHandsOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		former := c.leader(10 * time.Second)
		time.Sleep(10 * time.Second)
		begun := time.Now()
		former.cancel()
		next := c.leader(time.Minute, former)
		if took := time.Since(begun); took >= former.cfg.Raft.HeartbeatTimeout/2 {
			t.Errorf("%s led after %v: nobody handed over to it", next.name, took)
		}
		<-former.ended
		if former.err != nil {
			t.Errorf("the ordered stop: %v", former.err)
		}
		c.start(former)
		c.eventually("the stopped node to serve again", time.Minute, func() bool {
			return former.server.Ready() == nil
		})
		c.mustOpen(former, 5*time.Second)
		c.stop()
		if n := c.Conns(); n != 0 {
			t.Errorf("%d ends of connections are open after all nodes have stopped", n)
		}
	})
}

// Raft's Shutdown waits for the requests that are under way, and one to a follower that is behind may take long: the
// stop of a leader does not wait for it.
func TestAStopDoesNotWaitForALaggard(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Raft.StallTimeout = time.Hour })
		defer c.stop()
		former := c.leader(10 * time.Second)
		behind := c.others(former)[0]
		behind.disk.hang()
		defer behind.disk.release()
		c.mustOpen(former, 5*time.Second)
		time.Sleep(10 * time.Second)
		if behind.disk.hanging() == 0 {
			t.Fatal("nothing hangs: the fault did not hit")
		}
		begun := time.Now()
		if err := c.end(former); err != nil || time.Since(begun) > time.Second {
			t.Errorf("the stop took %v: %v", time.Since(begun), err)
		}
	})
}
