package storage

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/node/storage/segments"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// brokenLogs is a log store whose disk is full.
type brokenLogs struct{ raft.LogStore }

var errDiskFull = errors.New("no space left on device")

func (brokenLogs) StoreLogs([]*raft.Log) error { return errDiskFull }

func TestAFailedWriteEndsTheNode(t *testing.T) {
	bubble.Test(t, testFailedWrite)
}

func testFailedWrite(t *testing.T) {
	t.Helper()
	failed := make(chan error, 1)
	o := testOptions(t)
	g := &guardedStore{
		logs: brokenLogs{}, path: "/somewhere", watch: o.Watch, synced: o.Synced,
		halt: func(err error) { failed <- err; runtime.Goexit() },
	}
	returned := make(chan struct{})
	go func() {
		_ = g.StoreLogs(nil) // never returns: Raft must not continue after a write of unknown outcome
		close(returned)
	}()
	err := <-failed
	synctest.Wait()
	if !errors.Is(err, errDiskFull) || !strings.Contains(err.Error(), "/somewhere") ||
		!strings.Contains(err.Error(), "start the node again") {
		t.Errorf("told %v, want the cause, the place and what to do", err)
	}
	select {
	case <-returned:
		t.Error("the failed write returned to Raft")
	default:
	}
}

// wrongLogs is a log store that finds another entry than the one that it is asked for, or none that decodes.
type wrongLogs struct {
	raft.LogStore
	err error
}

func (l wrongLogs) GetLog(index uint64, log *raft.Log) error {
	log.Index = index + 1
	return l.err
}

// TestADamagedEntryEndsTheNode: Raft would panic, or leave a follower without the entry for ever.
func TestADamagedEntryEndsTheNode(t *testing.T) {
	for want, err := range map[string]error{
		"is damaged at entry 7: the entry there says that it is entry 8": nil, "is damaged at entry 7: bad": errors.New("bad"),
	} {
		failed := make(chan error, 1)
		g := &guardedStore{logs: wrongLogs{err: err}, path: "/somewhere", halt: func(err error) { failed <- err }}
		var log raft.Log
		_ = g.GetLog(7, &log)
		if err = <-failed; !strings.Contains(err.Error(), "/somewhere/log "+want) {
			t.Errorf("told %v, want %q", err, want)
		}
	}
	for _, err := range []error{raft.ErrLogNotFound, segments.ErrClosed} {
		g := &guardedStore{logs: wrongLogs{err: err}, halt: func(err error) { t.Error(err) }}
		var log raft.Log
		if got := g.GetLog(7, &log); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
}

// testOptions are options of a store whose writes succeed.
func testOptions(t *testing.T) Options {
	t.Helper()
	return Options{
		Logger: hclog.NewNullLogger(), Halt: func(err error) { t.Error(err); runtime.Goexit() },
		Watch: func(string) func() { return func() {} }, Synced: func(time.Duration) {},
		Applied: func() uint64 { return 0 }, CachedEntries: cachedEntries, LogBytes: 1 << 20, TrailingLogs: 100,
	}
}

// cachedEntries is how many entries the tests keep in memory.
const cachedEntries = 128

// Raft would take the snapshot that is complete last for the newest one: a snapshot of the node's own state does not
// replace a later one that the node received during the writing.
func TestALaterSnapshotStands(t *testing.T) {
	s, err := openStore(mustOpenDir(t, t.TempDir()), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create := func(index, term uint64) (raft.SnapshotSink, error) {
		return s.snapshots.Create(raft.SnapshotVersionMax, index, term, raft.Configuration{}, 0, noTransport{})
	}
	var sinks []raft.SnapshotSink
	for _, index := range []uint64{3, 4, 5, 9, 12} {
		sink, failed := create(index, 1)
		if failed != nil {
			t.Fatal(failed)
		}
		sink.(*checkedSink).own = true
		sinks = append(sinks, sink)
	}
	first, early, own, installed, broken := sinks[0], sinks[1], sinks[2], sinks[3], sinks[4]
	s.origins.completed = func(m snapshotMark) error {
		switch m.Index {
		case 5: // the other is received while this one is being completed
			return installed.Close()
		case 12:
			return errDiskFull
		default:
			return nil
		}
	}
	if err = first.Close(); err != nil {
		t.Fatal(err)
	}
	for _, late := range []raft.SnapshotSink{own, early, first} { // Raft closes the first again, after the state machine
		if err = late.Close(); err == nil || !strings.Contains(err.Error(), "superseded") {
			t.Errorf("got %v, want a superseded snapshot", err)
		}
	}
	if newest, failed := s.newest(); failed != nil || newest == nil || newest.Index != 9 {
		t.Errorf("newest is %+v, %v; want 9", newest, failed)
	}
	if _, err = create(8, 1); err == nil {
		t.Error("a snapshot begins that is superseded")
	}
	if err = broken.Close(); !errors.Is(err, errDiskFull) {
		t.Errorf("got %v, want a full disk", err)
	}
	again, err := create(9, 2)
	if err == nil {
		err = again.Cancel()
	}
	if err != nil || again.Close() == nil {
		t.Errorf("%v; the leader's snapshot is refused when it is sent again, or complete when it was cancelled", err)
	}
}

// A start counts the bytes of the log from the newest snapshot on.
func TestW7AStartCountsFromTheNewestSnapshot(t *testing.T) {
	path := t.TempDir()
	d := mustOpenDir(t, path)
	s, err := Open(d, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	sink, err := s.origins.Create(raft.SnapshotVersionMax, 5, 1, raft.Configuration{}, 0, noTransport{})
	if err = errors.Join(err, s.stable.SetUint64([]byte("CurrentTerm"), 1)); err == nil {
		err = sink.Close()
	}
	if err = errors.Join(err, s.Close(), d.Admit(raftnet.Directories{1: d.identity.Directory})); err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
	d = mustOpenDir(t, path)
	defer mustClose(t, d)
	if s, err = openStore(d, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err = s.continueFromSnapshot(); err != nil || s.size.snapshot != 5 || s.size.last != 5 {
		t.Errorf("%v; the size is known from entry %d on, want 5", err, s.size.last)
	}
}
