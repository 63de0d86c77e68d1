package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"holdfast/node/storage"
	"holdfast/test/bubble"
)

// A process that was killed after its snapshot was complete and before it had noted that: the next start notes it.
func TestAStartNotesTheNewestSnapshot(t *testing.T) {
	l := newLibrary(t, 3)
	bubble.Test(t, func(t *testing.T) {
		c := l.cluster(t)
		path := c.config(c.nodes[0]).DataDir
		if _, err := restamp(path, clearSnapshot); err != nil {
			t.Fatal(err)
		}
		if err := c.refusal(c.nodes[0]); err != nil {
			t.Fatal(err)
		}
		if s, err := stampOf(path); err != nil || s.Snapshot.ID != l.newest[0] {
			t.Errorf("the stamp is %+v, %v, want snapshot %s", s, err, l.newest[0])
		}
	})
}

// A snapshot without an origin that is newer than the snapshot in the stamp was copied from elsewhere: a process
// completes no snapshot without an origin.
func TestANewerSnapshotWithoutAnOriginIsRefused(t *testing.T) {
	l := newLibrary(t, 3)
	bubble.Test(t, func(t *testing.T) {
		c := l.cluster(t)
		path := c.config(c.nodes[0]).DataDir
		_, err := restamp(path, clearSnapshot)
		if err = errors.Join(err, os.Remove(filepath.Join(path, storage.SnapshotFolder, l.newest[0], "origin"))); err != nil {
			t.Fatal(err)
		}
		want := l.newest[0] + " is not this directory's snapshot: it is newer than the newest snapshot in the log's " +
			"stamp, " +
			"and has no origin"
		if err := c.refusal(c.nodes[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	})
}

// The log may have another entry at the index where the lost snapshot ended: an entry of a deposed leader, which was
// never committed.
func TestAnEntryOfAnotherTermIsNotTheSnapshots(t *testing.T) {
	l := newLibrary(t, 10_000)
	bubble.Test(t, func(t *testing.T) {
		c := l.cluster(t)
		path := c.config(c.nodes[0]).DataDir
		_, err := restamp(path, func(s *stamp) { s.Snapshot.Term++ })
		err = errors.Join(err, os.RemoveAll(filepath.Join(path, storage.SnapshotFolder, l.newest[0])))
		err = errors.Join(err, change(path, func(conf *bbolt.Bucket) error {
			return conf.Put([]byte("CurrentTerm"), []byte{0, 0, 0, 0, 0, 0, 0, 99})
		}))
		if err != nil {
			t.Fatal(err)
		}
		want := "snapshots has lost snapshot " + l.newest[0] + ", which the log needs: the log's entry "
		if err := c.refusal(c.nodes[0]); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "is of term") {
			t.Errorf("got %v, want %q", err, want)
		}
	})
}
