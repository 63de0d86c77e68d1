package sim

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"holdfast/node/storage/segments"
	"holdfast/test/bubble"
	"holdfast/test/sim/faults"
)

// newDrive returns the disk of a node whose first process writes to logs.
func newDrive(t *testing.T, seed uint64) (d *drive, p *disk, logs raft.LogStore) {
	t.Helper()
	w := world{seed: seed}
	d = &drive{dir: t.TempDir(), rand: w.stream("disk")}
	p = d.disk()
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log, stable := openLog(t, p.dir)
	logs, _ = p.wrap(log, stable)
	return d, p, logs
}

// openLog opens the log and the stable store in a directory, and closes them after the test.
func openLog(t *testing.T, dir string) (*segments.Log, *raftboltdb.BoltStore) {
	t.Helper()
	stable, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, "raft.db"), BoltOptions: &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, // the settings of node
	}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := segments.Open(segments.Options{
		Folder: filepath.Join(dir, "log"), Owner: 1, Stable: stable, Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(errors.Join(err, stable.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(log.Close(), stable.Close()); err != nil {
			t.Error(err)
		}
	})
	return log, stable
}

func logEntry(index uint64) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Data: bytes.Repeat([]byte{byte(index)}, 700)}
}

// onDisk returns the indexes that the next process finds. bbolt first checks the whole of raft.db.
func onDisk(t *testing.T, d *drive) []uint64 {
	t.Helper()
	file := filepath.Join(d.path(), "raft.db")
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("the next process cannot open raft.db: %v", err)
	}
	if err = db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			if !strings.Contains(err.Error(), "unreachable unfreed") { // pages that the cut left behind
				return err
			}
		}
		return nil
	}); err != nil {
		t.Errorf("raft.db is corrupt: %v", err)
	}
	if err = db.Close(); err != nil {
		t.Fatal(err)
	}
	log, _ := openLog(t, d.path())
	var found []uint64
	for index := uint64(1); index < 100; index++ {
		var l raft.Log
		if err := log.GetLog(index, &l); err == nil {
			found = append(found, index)
		}
	}
	return found
}

func TestNothingReachesTheDiskAfterAKill(t *testing.T) {
	d, p, logs := newDrive(t, 1)
	if err := logs.StoreLog(logEntry(1)); err != nil {
		t.Fatal(err)
	}
	if err := p.seal(); err != nil {
		t.Fatal(err)
	}
	if err := logs.StoreLog(logEntry(2)); !errors.Is(err, errGone) {
		t.Errorf("a write after the kill: %v", err)
	}
	if got := onDisk(t, d); !slices.Equal(got, []uint64{1}) {
		t.Errorf("the next process finds the entries %v, want 1", got)
	}
}

// TestTornWritesAreLegal shows that after any torn write every acknowledged entry is there, and that the torn entries
// are there as a whole or not at all. Over the seeds each outcome occurs.
func TestTornWritesAreLegal(t *testing.T) {
	there, not, partial := 0, 0, 0
	for seed := range uint64(80) {
		d, p, logs := newDrive(t, seed)
		for index := uint64(1); index <= 9; index++ {
			if err := logs.StoreLog(logEntry(index)); err != nil {
				t.Fatal(err)
			}
		}
		before, err := readImage(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		killed := false
		happened := p.tearNext(func() { killed = true })
		if err = logs.StoreLogs([]*raft.Log{logEntry(10), logEntry(11), logEntry(12)}); !errors.Is(err, errGone) || !killed ||
			!happened() {
			t.Fatalf("the write was answered with %v, killed %v", err, killed)
		}
		left, err := readImage(d.path())
		if err != nil {
			t.Fatal(err)
		}
		got := onDisk(t, d)
		switch {
		case len(got) == 12:
			there++
		case len(got) == 9:
			not++
			if !maps.EqualFunc(before, left, bytes.Equal) {
				partial++
			}
		default:
			t.Fatalf("seed %d: the next process finds the entries %v, want 1 to 9 or 1 to 12", seed, got)
		}
	}
	if there < 10 || not < 10 || partial < 10 {
		t.Errorf("the torn entry was there %d times, missing %d times, of these written in part %d times: want some "+
			"of each",
			there, not, partial)
	}
}

func TestDamages(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, p, logs := newDrive(t, 1)
		write := func(index uint64) (time.Duration, error) {
			began := time.Now()
			err := logs.StoreLog(logEntry(index))
			return time.Since(began), err
		}
		undo, _ := d.breaks(faults.Slow, time.Second)
		if took, err := write(1); took != time.Second || err != nil {
			t.Errorf("slow: %v after %v", err, took)
		}
		if _, ok := d.breaks(faults.Full, 0); ok {
			t.Error("a disk that is slow was filled as well")
		}
		if !undo() {
			t.Error("slow: nothing was hit")
		}
		undo, _ = d.breaks(faults.Full, 0)
		if _, err := write(2); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full: %v", err)
		}
		undo()
		undo, _ = d.breaks(faults.Hung, 0)
		time.AfterFunc(time.Minute, func() { undo() })
		if took, err := write(2); took != time.Minute || err != nil {
			t.Errorf("hung: %v after %v, want no error after a minute", err, took)
		}
		undo, _ = d.breaks(faults.Failing, 0)
		for range 20 {
			last, err := logs.LastIndex()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := write(last + 1); !errors.Is(err, syscall.EIO) {
				t.Errorf("failing: %v", err)
			}
		}
		undo()
		if undo, _ = d.breaks(faults.Slow, time.Second); undo() {
			t.Error("a fault without a write has hit something")
		}
		if !p.wasHurt() {
			t.Error("nothing was hurt")
		}
		if err := p.seal(); err != nil {
			t.Fatal(err)
		}
		if got := onDisk(t, d); len(got) < 4 || len(got) > 20 {
			t.Errorf("entries %v are on the disk: want 1, 2, and some of those whose write failed", got)
		}
	})
}

// A kill releases a process from a write that hangs.
func TestAKillFreesAWriteThatHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d, p, logs := newDrive(t, 1)
		undo, _ := d.breaks(faults.Hung, 0)
		done := make(chan error, 1)
		go func() { done <- logs.StoreLog(logEntry(1)) }()
		synctest.Wait()
		if err := p.seal(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, errGone) {
			t.Errorf("got %v", err)
		}
		undo()
		if got := onDisk(t, d); len(got) != 0 {
			t.Errorf("entries %v are on the disk, want none", got)
		}
	})
}

func TestLogsKeepTheNewestLines(t *testing.T) {
	l := newLogs()
	log := l.logger("n1").Named("raft").With("term", 7)
	log.Debug("not wanted")
	for i := range keptLines + 2 {
		log.Warn("line", "number", i, "bytes", hclog.Fmt("%d B", i))
	}
	got := l.text()
	if len(got) != keptLines || !strings.HasSuffix(got[0], "n1.raft: line term=7 number=2 bytes=2 B") ||
		!strings.HasSuffix(got[len(got)-1], "number=20001 bytes=20001 B") || !strings.Contains(got[0], "[WARN ]") {
		t.Errorf("got %d lines from %q to %q", len(got), got[0], got[len(got)-1])
	}
}
