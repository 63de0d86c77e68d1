package storage

import (
	"errors"
	"runtime"
	"slices"
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
	var marks []uint64
	s.origins.completed = func(m snapshotMark) error {
		marks = append(marks, m.Index)
		return nil
	}
	create := func(index uint64) raft.SnapshotSink {
		sink, failed := s.origins.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 0, noTransport{})
		if failed != nil {
			t.Fatal(failed)
		}
		return sink
	}
	early, own, installed := create(4), create(5), create(9)
	mark := s.origins.completed
	s.origins.completed = func(m snapshotMark) error {
		if m.Index == 5 { // the other is received while this one is being completed
			if failed := installed.Close(); failed != nil {
				t.Error(failed)
			}
		}
		return mark(m)
	}
	for _, superseded := range []raft.SnapshotSink{own, early} {
		if err = superseded.Close(); err == nil || !strings.Contains(err.Error(), "superseded") {
			t.Errorf("got %v, want a superseded snapshot", err)
		}
	}
	if again := create(9); again.Close() != nil {
		t.Error("the same snapshot is refused when the leader sends it again")
	}
	newest, err := s.newest()
	if err != nil || newest == nil || newest.Index != 9 || !slices.Equal(marks, []uint64{9, 5, 9}) {
		t.Errorf("newest is %+v, %v, after the marks %v", newest, err, marks)
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
