package consensus

import (
	"testing"
	"testing/synctest"
	"time"

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
